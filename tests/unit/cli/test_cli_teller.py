"""What a person reads of a run."""

from typing import Any, cast

import pytest

from cli.rules.teller import Teller
from shared.messages.run_events import EventType, RunEvent
from tests.fake_gateway import SCRIPTS, Event, at, attempt, done, echo, failed


def told(steps: Any, **options: bool) -> str:
    """Everything a teller writes of the events of a script."""
    teller = Teller(**options)
    events = [RunEvent(each.id, cast(EventType, each.type), each.data) for each in steps if isinstance(each, Event)]
    return "".join(piece.text for event in events for piece in teller.tell(event))


def test_a_reply_is_told_as_it_is_written_and_only_once() -> None:
    """The end repeats the whole reply; nobody wants to read it twice."""
    assert told(echo("hello")) == "You said: hello\n"


def test_a_pipe_gets_exactly_the_final_reply() -> None:
    """What was written to a pipe can't be taken back, so drafts never go there."""
    assert told(SCRIPTS["second-attempt"], aloud=False, tools=False).endswith("second draft\n")
    assert "first" not in told(SCRIPTS["second-attempt"], aloud=False)
    assert told(echo("hello"), aloud=False) == "You said: hello\n"


def test_a_tool_runs_on_one_line() -> None:
    """The line begins when the tool does, and ends with how it went."""
    lines = told(SCRIPTS["tools"]).splitlines()
    assert lines == ["I will read.", "⚙ read MEMORY.md … ok 12 ms", "• The context is 80 % full.", "All is well."]


def test_thoughts_are_shown_only_when_asked_for() -> None:
    """They are long, and most people want the reply."""
    assert "Let me see." not in told(SCRIPTS["tools"])
    assert told(SCRIPTS["tools"], thinking=True).startswith("Let me see.\nI will read.\n")


def test_a_second_attempt_says_that_the_draft_is_void() -> None:
    """A person must not act on text that no worker stands for any more."""
    lines = told(SCRIPTS["second-attempt"]).splitlines()
    assert lines[0] == "first draft "
    assert "attempt 2" in lines[1]
    assert "void" in lines[1]
    assert lines[2:] == ["second draft"]


def test_what_was_stored_before_the_second_attempt_stays() -> None:
    """Only the step that was not stored is lost; saying more would be a lie."""
    steps = [
        attempt(1),
        Event(at(1, 0, 4), "delta", {"text": "kept"}),
        attempt(2, 2, keep=at(1, 0, 4)),
        Event(at(2, 1, 4), "delta", {"text": "more"}),
        done("more", epoch=2),
    ]
    assert "void" not in told(steps)
    assert told(steps).splitlines()[-1] == "more"


def test_a_tool_that_ran_before_the_second_attempt_is_not_called_void() -> None:
    """It may have happened; an event of its own tells when that is in doubt."""
    steps = [
        attempt(1),
        Event(at(1, 1, 1), "tool_started", {"call_id": "c", "name": "exec", "arguments": {"command": "ls"}}),
        attempt(2, 2, keep=at(1, 0, 1)),
        done("ok", epoch=2),
    ]
    assert told(steps).splitlines() == ["⚙ exec ls …", "↺ another worker goes on (attempt 2)", "ok"]


def test_a_reply_whose_pieces_were_lost_is_told_at_the_end() -> None:
    """A stream may be trimmed; the reply in the last event is the truth."""
    steps = [attempt(1), Event(at(1, 0, 4), "delta", {"text": "half"}), done("half and half")]
    assert told(steps) == "half\nhalf and half\n"


def test_a_retry_tells_reason_and_wait() -> None:
    """Otherwise a pause of a minute looks like a crash."""
    lines = told(SCRIPTS["retry"]).splitlines()
    assert lines[1] == "↺ overloaded; again in 500 ms; the unfinished part above is void"
    assert lines[-1] == "whole"


def test_two_tools_at_once_end_on_lines_of_their_own() -> None:
    """Tools run side by side; the first to end must not be written behind the other's name."""
    started = [
        Event(at(1, 0, place), "tool_started", {"call_id": name, "name": name, "arguments": {}})
        for place, name in enumerate(("a", "b"), 1)
    ]
    ended = [
        Event(
            at(1, 0, place),
            "tool_finished",
            {"call_id": name, "name": name, "ok": ok, "duration_ms": 5, "preview": "no"},
        )
        for place, (name, ok) in enumerate((("a", True), ("b", False)), 3)
    ]
    assert told([*started, *ended]).splitlines() == ["⚙ a …", "⚙ b …", "⚙ a … ok 5 ms", "⚙ b … failed 5 ms: no"]


def test_doubt_is_told_once_and_never_lost() -> None:
    """A tool that may have run is the one thing a person has to look after; the end repeats it."""
    text = "exec may have run"
    doubt = Event(at(1, 0, 1), "in_doubt", {"tool": "exec", "call_id": "c", "text": text})
    assert told([attempt(1), doubt, done("ok", notices=[text])]).count(text) == 1
    assert told([attempt(1), done("ok", notices=[text])]).count(text) == 1


def test_silence_is_told() -> None:
    """Nothing at all would look like a fault."""
    assert "silent" in told(SCRIPTS["silent"])


def test_files_of_a_reply_are_named_with_the_place_where_they_are() -> None:
    """Whoever sits at a terminal can't see a picture; also where the run failed behind it."""
    files = [{"filename": "cat.png", "content_type": "image/png", "size": 2048}, "odd"]
    line = "+ cat.png, 2K: GET /api/v1/runs/r1/attachments/1"
    assert told([attempt(1), done("ok", attachments=files, run_id="r1")]).splitlines() == ["ok", line]
    end = failed("too long")
    ended = Event(end.id, end.type, {**end.data, "attachments": files, "run_id": "r1"})
    assert told([attempt(1), ended]).splitlines() == [line, "The run failed: too long."]


def test_a_failure_is_one_sentence() -> None:
    """Whoever reads it wants to know what to change."""
    assert told([attempt(1), failed("too long.")]) == "The run failed: too long.\n"


@pytest.mark.parametrize("said", ["The cost cap is reached.", "The cost cap is reached"])
def test_a_failure_that_was_also_a_notice_is_told_once(said: str) -> None:
    """Twice the same sentence looks like two faults; a notice about something else stays."""
    notice = Event(at(1, 0, 1), "notice", {"text": said})
    other = Event(at(1, 0, 2), "notice", {"text": "80 % full"})
    end = failed("The cost cap is reached.")
    with_list = Event(end.id, end.type, {**end.data, "notices": [said]})
    for steps in ([attempt(1), notice, end], [attempt(1), notice, with_list], [attempt(1), with_list]):
        assert told(steps) == "The run failed: The cost cap is reached.\n"
    assert told([attempt(1), other, notice, end]) == "• 80 % full\nThe run failed: The cost cap is reached.\n"
    assert told([attempt(1), notice, done("ok")]) == f"• {said}\nok\n"


def test_sentences_end_once() -> None:
    """Reasons come with their own period, or with another end."""
    assert told([failed("Why?")]) == "The run failed: Why?\n"
    retry = Event(at(1, 0, 5), "retry", {"attempt": 1, "wait_seconds": 1, "reason": "It broke.", "keep": "0-1"})
    assert told([retry]) == "↺ It broke; again in 1.0 s\n"


def test_no_control_character_of_the_agent_reaches_a_terminal() -> None:
    """A reply can quote a web page, and a page must not write into somebody's clipboard."""
    text = told(SCRIPTS["escape"])
    assert text == "]52;c;ZXZpbA==[2Jred\n"


@pytest.mark.parametrize("data", [{}, {"text": None}, {"arguments": "x", "duration_ms": "?", "notices": None}])
def test_missing_fields_are_no_crash(data: dict[str, Any]) -> None:
    """The gateway may be older or newer than this command."""
    types = ("accepted", "attempt", "thinking", "delta", "tool_started", "tool_finished", "notice", "retry", "in_doubt",
             "approval", "done", "failed", "cancelled", "merged", "something-new")  # fmt: skip
    told([Event(at(1, 0, place), kind, data) for place, kind in enumerate(types, 1)], thinking=True)
