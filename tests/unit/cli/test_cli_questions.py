"""What a person reads when the agent asks, and how a run that asked ends."""

from typing import Any, cast

import pytest

from cli.rules.asking import asks, how_to_answer
from cli.rules.clean_text import unhidden
from cli.rules.refusal import refusal
from cli.rules.run_end import cancelled_sentence, end_of, had_ended_sentence, has_ended
from cli.rules.slash import Order, understand
from cli.rules.teller import Teller, is_last_question
from shared.messages.run_events import EventType, RunEvent
from tests.fake_gateway import RUN, approval, at
from tests.fake_gateway import Event as Told

OTHER = "01890000-0000-7000-8000-000000000009"


def event(told: Told) -> RunEvent:
    return RunEvent(told.id, cast(EventType, told.type), told.data)


def merged(**data: Any) -> RunEvent:
    return RunEvent(at(1, 2, 1), "merged", {"merged_into": RUN, **data})


def told(teller: Teller, *events: RunEvent) -> str:
    return "".join(piece.text for each in events for piece in teller.tell(each))


def test_a_question_stands_on_a_line_of_its_own() -> None:
    """It must not drown behind half a sentence of the agent."""
    teller = Teller()
    teller.tell(RunEvent(at(1, 0, 4), "delta", {"text": "Well"}))
    said = told(teller, event(approval(1, "ls")))
    asked = "? May I use 'exec' with command = ls? Answer yes to allow it; anything else means no."
    assert said == f"\n{asked}\n"


def test_a_question_is_never_cut_and_hides_nothing() -> None:
    """What a person does not see must not be what they allow: lines, directions of writing, the tail of a command."""
    said = told(Teller(), event(approval(1, "ls " + "a" * 400 + "\nrm -rf \u202ekeep\x1b[2K")))
    assert "a" * 400 in said
    assert "\n  rm -rf \\u202ekeep[2K" in said
    assert unhidden("a\u2066b\u200ec") == "a\\u2066b\\u200ec"


def test_one_answer_goes_for_all_and_that_is_said() -> None:
    """Two calls at once are allowed or denied together."""
    first, last = (event(approval(1, "ls", number=number, of=2)) for number in (1, 2))
    assert (is_last_question(first), is_last_question(last)) == (False, True)
    assert "One answer" not in told(Teller(), first)
    assert told(Teller(), first, last).endswith("One answer goes for all 2.\n")


def test_a_pipe_gets_the_question_as_it_is() -> None:
    """A script shows it to whom it likes."""
    assert told(Teller(aloud=False), event(approval(1, "ls"))).startswith("May I use 'exec'")


@pytest.mark.parametrize(
    ("data", "end", "said"),
    [
        ({"state": "done", "reply": "It is done."}, "done", "It is done.\n"),
        ({"state": "done", "reply": "", "silent": True}, "done", "(no reply: the agent chose to be silent)\n"),
        ({"state": "failed", "error": "No model."}, "failed", "The run failed: No model.\n"),
        ({"state": "dead", "error": "Four workers died."}, "failed", "The run failed: Four workers died.\n"),
        (
            {"state": "cancelled", "error": "A newer message took its place."},
            "cancelled",
            "The run was cancelled: A newer message took its place.\n",
        ),
        ({"reply": "As before."}, "done", "As before.\n"),
    ],
)
def test_a_merged_message_ends_as_the_run_that_took_it_in(data: dict[str, Any], end: str, said: str) -> None:
    """Its caller waited for that end, and the exit code must tell it."""
    assert end_of(merged(**data)) == end
    assert told(Teller(), merged(**data)) == said


@pytest.mark.parametrize(
    ("state", "whats", "waits"),
    [
        ("waiting", ["accepted", "approval_asked"], True),
        ("waiting", ["approval_asked", "approval_asked", "approval_decided"], True),
        ("waiting", ["approval_asked", "approval_decided"], False),
        ("waiting", ["waiting"], False),
        ("running", ["approval_asked"], False),
    ],
)
def test_a_run_asks_while_a_question_is_open(state: str, whats: list[str], waits: bool) -> None:
    """One that waits for a busy model, or was answered a moment ago, asks nothing."""
    assert asks({"state": state, "story": [{"what": what} for what in whats]}) is waits


@pytest.mark.parametrize("story", [{}, {"state": "waiting", "story": None}, {"state": "waiting", "story": ["x", 1]}])
def test_a_story_of_another_version_asks_nothing(story: dict[str, Any]) -> None:
    """And is no crash."""
    assert not asks(story)


def test_the_way_to_answer_can_be_pasted() -> None:
    """Names have spaces."""
    assert "`lucyd send yes`" in how_to_answer(RUN, None)
    assert "`lucyd send --sender 'Ada L' yes`" in how_to_answer(RUN, "Ada L")
    assert f"`lucyd cancel {RUN}`" in how_to_answer(RUN, None)


def test_what_came_of_a_cancel() -> None:
    """Ended by it, ended before, ended by itself meanwhile, or as a part of another."""
    gone = {"run_id": RUN, "state": "cancelled", "finished_at": "x", "outcome": {"state": "cancelled"}}
    assert has_ended(gone)
    assert not has_ended({"run_id": RUN, "state": "merged", "finished_at": None})
    assert cancelled_sentence(gone) == f"The run {RUN} was cancelled."
    assert had_ended_sentence(gone) == f"The run {RUN} had ended before: cancelled."
    finished = {**gone, "state": "done", "outcome": {"state": "done"}}
    assert cancelled_sentence(finished) == f"The run {RUN} ended before it could be cancelled: done."
    part = {**gone, "run_id": OTHER, "state": "merged", "outcome": {"state": "cancelled", "merged_into": RUN}}
    assert cancelled_sentence(part) == f"The run {RUN} was cancelled, and {OTHER}, which was a part of it."
    assert cancelled_sentence({}) == "The run ? ended before it could be cancelled: ?."


def test_a_busy_conversation_is_one_plain_sentence() -> None:
    """Whoever asked to be refused knows why; another conflict keeps its own words."""
    said = refusal(409, '{"error":"the conversation is busy"}', "http://x")
    assert said == "The conversation is busy with an earlier message; this one was not taken."
    assert "idempotency" in refusal(409, '{"error":"the idempotency key was used with another body"}', "http://x")


def test_stop_is_an_order() -> None:
    """And not a message to the agent."""
    assert understand("/STOP") == Order("stop", "", "/STOP")
