"""A sub-agent never gets more than whoever asks for it."""

from datetime import timedelta

import pytest

from services.agent_worker.rules.spawning import (
    LONGEST,
    SpawnRefused,
    SpawnTerms,
    child_model,
    child_seconds,
    child_tools,
    child_turns,
)

TERMS = SpawnTerms("subagent", deny=frozenset({"sessions_spawn", "tts"}), ask_first=frozenset({"exec"}), max_turns=20)
OFFERED = ("read", "write", "exec", "sessions_spawn", "tts")


def test_without_a_list_it_has_all_that_is_not_denied() -> None:
    """Nor what must be asked about."""
    assert child_tools(None, offered=OFFERED, scope=None, terms=TERMS) == ["read", "write"]


def test_a_list_is_held_against_the_deny_list() -> None:
    """A denied tool is left out without a word: the list is what the original's users write."""
    asked = ["write", "tts", "sessions_spawn", "exec"]
    assert child_tools(asked, offered=OFFERED, scope=None, terms=TERMS) == ["write"]
    assert child_tools([], offered=OFFERED, scope=None, terms=TERMS) == []


def test_nobody_gives_what_they_do_not_have() -> None:
    """A child with one tool can't give its own child another."""
    assert child_tools(None, offered=OFFERED, scope={"read"}, terms=TERMS) == ["read"]
    with pytest.raises(SpawnRefused, match=r"^Unknown tool 'write'. Available tools: read$"):
        child_tools(["write"], offered=OFFERED, scope={"read"}, terms=TERMS)


def test_a_name_that_is_no_tool_is_told_with_those_that_are() -> None:
    """The model can correct itself. What it invents is cut: it may be a page."""
    with pytest.raises(SpawnRefused) as refused:
        child_tools(["x" * 100, "read"], offered=["read"], scope=None, terms=TERMS)
    assert str(refused.value) == f"Unknown tool '{'x' * 60}'. Available tools: read"
    with pytest.raises(SpawnRefused, match="Available tools: none"):
        child_tools(["read"], offered=[], scope=None, terms=TERMS)


def test_the_model_is_the_one_that_was_named_or_configured() -> None:
    """A name that there is not is refused, not replaced."""
    assert child_model(None, roles=["primary", "subagent"], terms=TERMS) == "subagent"
    assert child_model("", roles=["primary", "subagent"], terms=TERMS) == "subagent"
    assert child_model("primary", roles=["primary", "subagent"], terms=TERMS) == "primary"
    with pytest.raises(SpawnRefused, match=r"^Unknown model 'big'. Available models: primary, subagent$"):
        child_model("big", roles=["subagent", "primary"], terms=TERMS)


def test_turns_can_only_be_lowered() -> None:
    """The operator's number is the most."""
    assert [child_turns(asked, terms=TERMS) for asked in (None, 5, 500)] == [20, 5, 20]
    for asked in (0, -1):
        with pytest.raises(SpawnRefused, match="at least 1"):
            child_turns(asked, terms=TERMS)


def test_time_can_only_be_lowered() -> None:
    """Without any limit the time of its parent is the limit."""
    limited = SpawnTerms("primary", timeout=timedelta(seconds=60))
    assert [child_seconds(asked, terms=limited) for asked in (None, 5, 500)] == [60, 5, 60]
    assert [child_seconds(asked, terms=TERMS) for asked in (None, 5.5)] == [None, 5.5]
    assert child_seconds(float("inf"), terms=TERMS) == LONGEST.total_seconds()
    for asked in (0, -3, float("nan")):
        with pytest.raises(SpawnRefused, match="more than 0"):
            child_seconds(asked, terms=TERMS)
