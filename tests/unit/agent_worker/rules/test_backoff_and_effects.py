"""How long to wait before asking again, and what may be done again at all."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent_worker.rules.backoff import pause_before_retry
from services.agent_worker.rules.effects import InDoubt, after_interruption, doubts, happened
from shared.domain.effect import EffectClass, Verdict
from shared.domain.run import StoredEffect
from tests.builders import call, results, said


@given(
    st.integers(min_value=0, max_value=10),
    st.floats(min_value=0.01, max_value=60),
    st.floats(min_value=0, max_value=600),
    st.floats(min_value=0, max_value=1),
)
def test_a_pause_doubles_within_half_and_one_and_a_half(attempt: int, base: float, after: float, chance: float) -> None:
    """And is never shorter than the provider asked for."""
    pause = pause_before_retry(attempt, base=base, after=after, chance=chance)
    assert pause >= after
    nominal = base * 2**attempt
    assert pause <= max(after, nominal * 1.5)
    assert pause_before_retry(attempt, base=base, after=0, chance=chance) >= nominal * 0.5


def effect(kind: str = "once", state: str = "intended", said: object = None) -> StoredEffect:
    return StoredEffect(0, "c1", "act", kind, state, None, said and {"said": said})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("stored", "verdict", "decision"),
    [
        (None, None, "run"),
        (effect("once", "done"), None, "reuse"),
        (effect("once", "in_doubt"), None, "reuse"),
        (effect("idempotent", "done"), "not_done", "reuse"),
        (effect("once"), None, "in_doubt"),
        (effect("local"), None, "run"),
        (effect("idempotent"), None, "run"),
        (effect("read"), None, "run"),
        (effect("once"), "done", "happened"),
        (effect("once"), "not_done", "run"),
        (effect("once"), "unknown", "in_doubt"),
        (effect("idempotent"), "unknown", "run"),
        (effect("local", said={"open": True, "run": "x"}), None, "wait"),
        (effect("local", "done", said={"text": "found", "run": "x"}), None, "reuse"),
    ],
)
def test_after_an_interruption(stored: StoredEffect | None, verdict: Verdict | None, decision: str) -> None:
    """What is known decides; what is not known is never guessed to have failed."""
    assert after_interruption(stored, verdict, there=stored.effect if stored else "read") == decision


@pytest.mark.parametrize("there", [None, *get_args(EffectClass)])
@pytest.mark.parametrize(
    ("stored", "verdict", "decision"),
    [
        (effect("once"), None, "in_doubt"),
        (effect("once"), "done", "happened"),
        (effect("once", "done"), None, "reuse"),
        (effect("local", said={"open": True}), None, "wait"),
    ],
)
def test_what_an_heir_has_for_tools_changes_nothing_of_what_is_stored(
    stored: StoredEffect, verdict: Verdict | None, decision: str, there: str | None
) -> None:
    """Only what would be asked for again by its key needs its tool for that."""
    assert after_interruption(stored, verdict, there=there) == decision
    assert (after_interruption(effect("idempotent"), None, there=there) == "run") == (there == "idempotent")


@pytest.mark.parametrize("kind", get_args(EffectClass))
def test_only_what_is_harmless_runs_again_unproven(kind: str) -> None:
    """A new class must be put on one of the two sides on purpose."""
    assert (after_interruption(effect(kind), None, there=kind) == "run") == (kind in {"read", "idempotent", "local"})


def test_a_call_that_is_proven_to_have_happened_is_told_as_done() -> None:
    """The model goes on from there."""
    result = happened(effect())
    assert result["tool_use_id"] == "c1"
    assert not result.get("is_error")
    assert "'act'" in result["content"]


def test_doubts_are_found_again_in_what_a_run_has_said() -> None:
    """Also when the runtime has added a note to the result."""
    doubt = InDoubt("exec", "c2")
    row = results(("c1", "fine"), ("c2", doubt.for_model()["content"] + "\n\n[system: note]"))
    assert doubts([said("", call("read", "c1"), call("exec", "c2")), row, said("done")]) == [doubt]
    assert doubts([said("", call("read", "c1")), results(("c1", "Error: in doubt. A file says so."))]) == []
