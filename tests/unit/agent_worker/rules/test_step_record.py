"""What a step has told is kept in few pieces, and within bounds."""

from services.agent_worker.rules.step_record import EVENT_COSTS, StepRecord


def test_text_of_one_kind_becomes_one_event() -> None:
    """A long answer is told in a thousand pieces; it is one row all the same."""
    record = StepRecord()
    for sequence, kind, text in [(2, "thinking", "hm"), (3, "delta", "a"), (5, "delta", "bc"), (6, "thinking", "x")]:
        record.add(sequence, kind, {"text": text})
    assert record.events() == (
        (2, "thinking", {"text": "hm"}),
        (5, "delta", {"text": "abc"}),
        (6, "thinking", {"text": "x"}),
    )


def test_notices_are_not_text() -> None:
    """Each stands for itself, also beside another of its kind."""
    record = StepRecord()
    record.add(1, "notice", {"text": "a"})
    record.add(2, "notice", {"text": "b"})
    assert [data["text"] for _, _, data in record.events()] == ["a", "b"]


def test_what_is_too_much_is_left_out_from_there_on() -> None:
    """What is kept is a beginning without a hole; a worker's memory is not given to one endless answer."""
    record = StepRecord(at_most=EVENT_COSTS + 10)
    record.add(1, "notice", {})
    record.add(6, "delta", {"text": "12345"})
    record.add(12, "delta", {"text": "67890x"})
    record.add(13, "delta", {"text": "y"})
    assert [sequence for sequence, _, _ in record.events()] == [1, 6]
