"""The story of a run in sentences, and dead letters as tables and pages."""

from typing import Any

import pytest

from cli.rules.dead_view import dead_pieces, dead_table, retried_sentence
from cli.rules.story_view import story_pieces
from cli.rules.table import plain_lines
from tests.fake_gateway import DEAD, DEAD_RUN, RUN, STORY, WORKER


def told(*entries: dict[str, Any], **changes: Any) -> str:
    story = {**STORY, **changes, **({"story": entries} if entries else {})}
    return "".join(piece.text for piece in story_pieces(story))


def entry(what: str, after: float = 1.0, **facts: Any) -> dict[str, Any]:
    return {"what": what, "at": "2026-05-21T21:33:01+00:00", "after_seconds": after, **facts}


def test_a_story_has_a_head_its_lines_and_what_it_came_to() -> None:
    """Readable without knowing a single table."""
    lines = told().splitlines()
    assert lines[0] == f"Run {RUN}: done after 12.0 s"
    assert lines[1].startswith("cli, number 3, 2026-05-2")
    assert lines[3:7] == [
        "  +0 ms  Accepted from cli.",
        f" +20 ms  Worker …{WORKER[-8:]} took it in hand: attempt 1, epoch 7.",
        f" +7.5 s  Its worker …{WORKER[-8:]} (pid 42 on here) was counted as dead while it had this in hand.",
        "+12.0 s  Ended: done.",
    ]
    assert lines[8:] == [
        "Of 12.0 s: 20 ms until a worker had it, 1.8 s in the model.",
        "It cost $0.0042 in 2 calls (1 booked as a guess).",
    ]


def test_one_that_goes_on_says_for_how_long_it_does() -> None:
    """It has no end yet."""
    assert f"Run {RUN}: waiting, accepted 12.0 s ago\n" in told(state="waiting", finished_at=None)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (entry("accepted", source="http", idempotency_scope="x", when_busy="steer"),
         "Accepted from http (steer), with an idempotency key."),
        (entry("merged", ordinal=4, run="r2"), "Message number 4 came in, and is answered with this one: r2."),
        (entry("waiting", reason="retry", seconds=30), "It waits for 30.0 s: retry."),
        (entry("waiting", reason="child"), "It waits: child."),
        (entry("child_spawned", child="r2"), "It gave a task to a sub-agent: r2."),
        (entry("suspected", worker=WORKER, level=2),
         f"Its worker …{WORKER[-8:]} died with it: this run is under suspicion, level 2 of 4."),
        ({**entry("tool", tool="exec", step=1), "class": "once"}, "Tool exec (once) began, in step 1."),
        (entry("tool_ended", tool="exec", state="in_doubt"),
         "Tool exec: nobody can say whether it happened. It was not repeated."),
        (entry("approval_decided", tool="exec", state="allowed", decided_by="ada"),
         "Asked about exec: allowed by ada."),
        (entry("model", model="m1", input_tokens=1000, cache_read_tokens=200, output_tokens=10, cost=0.5,
               currency="USD", took_seconds=0.9), "m1 answered in 900 ms: 1,200 tokens in, 10 out, $0.5000."),
        (entry("model", model="m1", cost=0.75, currency="EUR", estimated=True),
         "A call of m1 was booked as a guess: €0.7500."),
        (entry("call_open", model="m1", worst_case=0.75, currency="USD"),
         "m1 was asked, and that call is not booked yet: $0.7500 at most."),
        (entry("ended", state="dead", error="Four workers died with it."), "Ended: dead. Four workers died with it."),
        (entry("webhook", target="callback", state="pending", attempts=2, error="the receiver answered 503"),
         "A webhook to callback was put in: pending, 2 tries; the receiver answered 503."),
        (entry("delivery", channel="telegram", state="in_doubt", attempts=1),
         "A message to telegram was put in: in doubt, 1 try."),
        (entry("a_new_thing", colour="red"), "A new thing: colour red."),
    ],
)  # fmt: skip
def test_each_thing_that_happened_is_a_plain_sentence(given: dict[str, Any], sentence: str) -> None:
    """What a newer gateway tells is shown as well as can be."""
    assert f"+1.0 s  {sentence}\n" in told(given)


def test_a_story_of_others_moves_no_cursor() -> None:
    """Names in it may come from anywhere."""
    assert "\x1b" not in told(entry("ended", state="failed", error="\x1b[2J"), entry("\x1b[2Jx", y="\x1b]52;c;"))


def test_what_was_given_up_is_a_table() -> None:
    """Ids whole, since they are typed again."""
    lines = plain_lines(dead_table(DEAD))
    assert lines[0] == "Given up (2)"
    assert lines[4].split()[:3] == [DEAD_RUN, "run", "dead"]
    assert lines[4].endswith("Four workers died with it.")


def test_one_that_was_given_up_says_what_can_be_done() -> None:
    """Until somebody has decided."""
    page = "".join(piece.text for piece in dead_pieces(DEAD[0]))
    assert "Reason:       Four workers died with it.\n" in page
    assert f"Last worker:  {WORKER}\n" in page
    assert f"lucyd dead retry {DEAD_RUN}\n" in page
    decided = "".join(piece.text for piece in dead_pieces({**DEAD[0], "state": "retried", "retried_as": RUN}))
    assert "dead retry" not in decided
    assert f"Retried as:   {RUN}\n" in decided


def test_what_was_done_is_said() -> None:
    """A run becomes a new one; the rest goes out itself."""
    assert retried_sentence({"kind": "run", "run_id": RUN}) == f"The message is tried again as run {RUN}."
    assert retried_sentence({"kind": "webhook"}) == "The webhook goes out again now."
