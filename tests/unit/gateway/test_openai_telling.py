"""A run's events as pieces of an OpenAI stream: words once, in order, and one end."""

from typing import Any
from uuid import UUID

import pytest

from services.gateway.rules.openai_telling import CompletionTelling, Kept, ResponseTelling, Telling, question_event
from shared.domain.run import Question
from shared.messages.run_events import RunEvent, accepted_event, event_id, terminal_id

RUN = UUID("0198a1b2-c3d4-7000-8000-000000000001")
ENDED = {"state": "done", "reply": "Tom is a cat.", "tokens": {"input": 3, "output": 2}, "run_id": str(RUN)}


def piece(text: str, *, epoch: int = 1, step: int = 1, offset: int = 1) -> RunEvent:
    return RunEvent(event_id(epoch, step, offset), "delta", {"text": text})


def other(kind: Any, data: dict[str, Any], *, step: int = 1, offset: int = 90) -> RunEvent:
    return RunEvent(event_id(1, step, offset), kind, data)


def end(**more: Any) -> RunEvent:
    return RunEvent(terminal_id(1), "done", {**ENDED, **more})


def told(telling: Telling, *events: RunEvent) -> list[Any]:
    first = accepted_event(RUN, "http:default:x")
    return [data for event in (first, *events) for _, data in telling.frames(event)]


def text_of(frames: list[Any]) -> str:
    return "".join(
        choice["delta"].get("content") or "" for frame in frames if "choices" in frame for choice in frame["choices"]
    )


def chat(*events: RunEvent, **manner: bool) -> list[Any]:
    return told(CompletionTelling(RUN, "lucyd", **manner), *events)


def test_words_come_as_they_are_written_and_end_once() -> None:
    """The first chunk has the role, the last the reason; tools and thinking are not told."""
    frames = chat(
        RunEvent(event_id(1, 0, 1), "attempt", {"epoch": 1, "attempt": 1, "keep": "0-1"}),
        other("thinking", {"text": "hm"}),
        piece("Tom is "),
        other("tool_started", {"call_id": "1", "name": "read", "arguments": {}}),
        piece("a cat.", offset=8),
        end(),
    )
    assert text_of(frames) == "Tom is a cat."
    assert frames[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert frames[-1]["choices"][0]["finish_reason"] == "stop"
    assert len(frames) == 4
    assert len({frame["id"] for frame in frames}) == 1
    assert frames[0]["lucyd"]["run_id"] == str(RUN)
    assert all("usage" not in frame for frame in frames)


def test_the_tokens_come_last_when_they_are_asked_for() -> None:
    """And every chunk before has the field, empty, as OpenAI's do."""
    frames = chat(piece("Tom is a cat."), end(), with_usage=True)
    assert [frame["usage"] for frame in frames[:-1]] == [None] * (len(frames) - 1)
    assert frames[-1]["choices"] == []
    assert frames[-1]["usage"]["total_tokens"] == 5


def test_tools_are_told_to_who_asks() -> None:
    """In chunks without words, which clients of OpenAI pass over."""
    started = other("tool_started", {"call_id": "1", "name": "read", "arguments": {}})
    aside = chat(started, with_tools=True)[1]
    assert aside["lucyd"] == {"event": "tool_started", "call_id": "1", "name": "read", "arguments": {}}
    assert aside["choices"][0]["delta"] == {}


def test_words_of_two_turns_are_kept_apart() -> None:
    """What was said beside a tool call and what was said after it are two sentences."""
    assert text_of(chat(piece("Let me look."), piece("Tom is a cat.", step=2), end())) == (
        "Let me look.\n\nTom is a cat."
    )


def test_a_model_that_does_not_stream_is_told_at_the_end() -> None:
    """No word came before; the reply is all there is."""
    assert text_of(chat(end())) == "Tom is a cat."
    assert text_of(chat(piece("Let me look."), end())) == "Let me look.\n\nTom is a cat."


def test_a_notice_after_the_words_is_told_and_the_words_not_again() -> None:
    """A reply may be what was shown and a sentence more."""
    frames = chat(piece("Let me look."), end(reply="Let me look.\n\nStopped: too many turns."))
    assert text_of(frames) == "Let me look.\n\nStopped: too many turns."


def test_an_attempt_that_says_the_same_is_not_seen() -> None:
    """Nothing can be taken back in this protocol, so what was shown is not shown again."""
    again = RunEvent(event_id(2, 0, 1), "attempt", {"epoch": 2, "attempt": 2, "keep": "0-1"})
    frames = chat(piece("Tom is"), again, piece("Tom ", epoch=2), piece("is a cat.", epoch=2, offset=5), end())
    assert text_of(frames) == "Tom is a cat."


def test_an_attempt_that_says_something_else_follows_after_a_gap() -> None:
    """Both stand there; the second is whole."""
    again = other("retry", {"attempt": 2, "wait_seconds": 1, "reason": "busy", "keep": "0-1"})
    frames = chat(piece("Tom was"), again, piece("Tom ", offset=95), piece("is a cat.", offset=99), end())
    assert text_of(frames) == "Tom was\n\nTom is a cat."


def test_what_is_kept_is_not_told_again() -> None:
    """A step that was stored stands; the next attempt goes on after it."""
    shown = piece("Let me look.", offset=12)
    again = RunEvent(event_id(2, 1, 13), "attempt", {"epoch": 2, "attempt": 2, "keep": shown.id})
    frames = chat(shown, again, piece("Tom is a cat.", epoch=2, step=2), end())
    assert text_of(frames) == "Let me look.\n\nTom is a cat."


def test_an_attempt_that_says_less_goes_on_with_the_next_turn() -> None:
    """What was shown of the first stays, and the next turn is not compared with it."""
    again = RunEvent(event_id(2, 0, 1), "attempt", {"epoch": 2, "attempt": 2, "keep": "0-1"})
    frames = chat(
        piece("Let me look."), again, piece("Let me", epoch=2), piece("Tom is a cat.", epoch=2, step=2), end()
    )
    assert text_of(frames) == "Let me look.\n\nTom is a cat."


def test_a_question_ends_the_stream_as_the_answer_of_the_agent() -> None:
    """The person reads it, and what they say next is the answer."""
    asks = [
        other("approval", {"approval_id": str(RUN), "tool": "exec", "text": f"May I {n}?", "number": n, "of": 2})
        for n in (1, 2)
    ]
    telling = CompletionTelling(RUN, "lucyd")
    frames = told(telling, piece("First."), *asks)
    assert text_of(frames) == "First.\n\nMay I 1?\nMay I 2?"
    assert telling.is_over
    assert frames[-1]["lucyd"]["state"] == "waiting"
    assert [each["tool"] for each in frames[-1]["lucyd"]["approvals"]] == ["exec", "exec"]


def test_a_question_of_a_run_that_is_not_followed_is_told_as_well() -> None:
    """An answer is part of another run; of that one only what comes next is told."""
    telling = CompletionTelling(RUN, "lucyd")
    frames = told(telling, question_event(RUN, Question(RUN, RUN, "May I?", [(RUN, "exec")])))
    assert text_of(frames) == "May I?"
    assert telling.is_over


@pytest.mark.parametrize(("state", "code"), [("failed", "run_failed"), ("cancelled", "run_cancelled")])
def test_a_run_without_an_answer_is_an_error_that_the_sdk_raises(state: Any, code: str) -> None:
    """It looks for ``error`` in the data of an event."""
    telling = CompletionTelling(RUN, "lucyd")
    frames = told(telling, RunEvent(terminal_id(1), state, {"state": state, "error": "no"}))
    assert frames[-1]["error"] == {"message": "no", "type": "server_error", "param": None, "code": code}
    assert telling.break_off() == []


@pytest.mark.parametrize("make", [CompletionTelling, ResponseTelling])
def test_a_stream_that_is_broken_off_says_so(make: Any) -> None:
    """Half an answer must not look like a whole one."""
    telling = make(RUN, "lucyd")
    told(telling, piece("Tom"))
    (_, data), *none = telling.break_off()
    assert none == []
    assert "the run goes on" in str(data)


def test_a_response_is_told_in_typed_events_that_are_numbered() -> None:
    """In the order in which the SDK builds the response up."""
    frames = told(ResponseTelling(RUN, "lucyd", previous=RUN), piece("Tom is "), piece("a cat.", offset=8), end())
    assert [frame["type"].removeprefix("response.") for frame in frames] == [
        "created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.delta",
        "output_text.done", "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    assert [frame["sequence_number"] for frame in frames] == list(range(len(frames)))
    assert frames[-1]["response"]["output"][0]["content"][0]["text"] == "Tom is a cat."
    assert frames[-1]["response"]["previous_response_id"] == f"resp_{RUN.hex}"


def texts(frames: list[Any]) -> tuple[str, str, str]:
    """Of a response: the pieces together, the text that is told as done, and that of the whole."""
    pieces = "".join(frame["delta"] for frame in frames if frame["type"] == "response.output_text.delta")
    (done,) = (frame["text"] for frame in frames if frame["type"] == "response.output_text.done")
    return pieces, done, frames[-1]["response"]["output"][0]["content"][0]["text"]


def kept(*events: RunEvent, last: str) -> str:
    made = Kept()
    for event in events:
        made.take(event)
    return made.text(last)


def test_a_response_says_the_same_in_pieces_in_its_end_and_when_it_is_fetched() -> None:
    """Words beside a tool call are part of it: a client that has shown them must not see them go."""
    turns = [
        piece("Let me "),
        piece("look.", offset=8),
        other("tool_started", {"call_id": "1", "name": "read", "arguments": {}}),
        piece("Tom is a cat.", step=2),
    ]
    whole = "Let me look.\n\nTom is a cat."
    assert texts(told(ResponseTelling(RUN, "lucyd"), *turns, end())) == (whole, whole, whole)
    assert kept(*turns, last="Tom is a cat.") == whole
    assert kept(last="Tom is a cat.") == "Tom is a cat."


def test_a_notice_after_the_words_is_in_the_whole_once() -> None:
    """As in the pieces."""
    reply = "Let me look.\n\nStopped: too many turns."
    assert texts(told(ResponseTelling(RUN, "lucyd"), piece("Let me look."), end(reply=reply))) == (reply, reply, reply)


def test_what_an_attempt_said_that_failed_is_in_the_pieces_only() -> None:
    """They can't be taken back; the end of the stream says what counts, and so does what is fetched."""
    again = RunEvent(event_id(2, 0, 1), "attempt", {"epoch": 2, "attempt": 2, "keep": event_id(1, 1, 5)})
    first, second = piece("Let me look.", offset=5), piece("Tom was", step=2)
    stored = piece("Tom is a cat.", epoch=2, step=2)
    pieces, done, whole = texts(told(ResponseTelling(RUN, "lucyd"), first, second, again, stored, end()))
    assert pieces == "Let me look.\n\nTom was\n\nTom is a cat."
    assert done == whole == kept(first, stored, last="Tom is a cat.") == "Let me look.\n\nTom is a cat."


def test_a_question_is_the_end_of_what_is_fetched_meanwhile() -> None:
    """The same text as its stream had."""
    asks = other("approval", {"approval_id": str(RUN), "tool": "exec", "text": "May I?", "number": 1, "of": 1})
    frames = told(ResponseTelling(RUN, "lucyd"), piece("First."), asks)
    assert texts(frames) == ("First.\n\nMay I?",) * 3
    assert kept(piece("First."), asks, last="May I?") == "First.\n\nMay I?"


def test_a_response_that_failed_says_why() -> None:
    """As an event of its own; no field ``error`` stands beside it, which the SDK would raise."""
    frames = told(ResponseTelling(RUN, "lucyd"), RunEvent(terminal_id(1), "failed", {"state": "failed", "error": "no"}))
    assert frames[-1]["type"] == "response.failed"
    assert frames[-1]["response"]["error"] == {"code": "server_error", "message": "no"}
    assert "error" not in frames[-1]
