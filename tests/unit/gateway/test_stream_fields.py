"""What the original's clients find in our streams."""

import pytest

from services.gateway.edge.event_stream import frame
from services.gateway.rules.stream_fields import data_of
from shared.messages.run_events import EventType, RunEvent


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("done", "end_turn"), ("failed", "error"), ("cancelled", "cancelled"), ("merged", "merged")],
)
def test_every_end_says_that_it_is_one(kind: EventType, reason: str) -> None:
    """The original's clients read until then, and never look at the name of an event."""
    outcome = {"reply": "Hello.", "error": None}
    told = RunEvent("1-2", kind, outcome)
    assert data_of(told) == {**outcome, "done": True, "stop_reason": reason}
    assert outcome == {"reply": "Hello.", "error": None}


def test_only_a_piece_of_the_answer_is_a_text() -> None:
    """The original's clients join each ``text``: what was thought, asked or noticed would be read as the answer."""
    assert data_of(RunEvent("1-2", "thinking", {"text": "hm"})) == {"thinking": "hm"}
    assert data_of(RunEvent("1-2", "delta", {"text": "Hello"})) == {"text": "Hello"}
    asked: tuple[EventType, ...] = ("notice", "approval", "in_doubt")
    for kind in asked:
        asks = RunEvent("1-2", kind, {"tool": "exec", "text": "May I?"})
        assert data_of(asks) == {"tool": "exec", "status": "May I?"}


def test_the_stream_sends_them() -> None:
    """On the wire, where it counts."""
    sent = frame(RunEvent("1-2", "done", {"reply": ""}))
    assert sent == b'id: 1-2\nevent: done\ndata: {"reply":"","done":true,"stop_reason":"end_turn"}\n\n'
