"""What happens next in a run."""

from decimal import Decimal

import pytest

from services.agent_worker.rules.run_loop import (
    COST_NOTICE,
    EMPTY_NOTICE,
    AskModel,
    Finish,
    Limits,
    UseTools,
    compose_reply,
    next_step,
    own_messages,
    turn_notice,
    turns_left_note,
)
from shared.domain.chat import Message
from shared.domain.run import StoredMessage
from shared.ids import new_id
from tests.builders import call, results, said, user

ASKED = said("a", call())
DONE = results(("c1", "x"))
FREE = Limits(3, Decimal(0))


@pytest.mark.parametrize(
    ("spoken", "spent", "limits", "step"),
    [
        ([], "0", FREE, AskModel(1)),
        ([ASKED], "0", FREE, UseTools(ASKED)),
        ([ASKED, DONE], "0", FREE, AskModel(2)),
        ([ASKED, DONE, said("hi")], "0", FREE, Finish("answered")),
        ([ASKED, DONE, ASKED, DONE, ASKED], "0", FREE, Finish("turn_limit", ASKED)),
        ([ASKED, DONE, ASKED, DONE, ASKED, DONE], "0", FREE, Finish("turn_limit")),
        ([ASKED, DONE, ASKED, DONE, said("hi")], "0", FREE, Finish("answered")),
        ([ASKED], "1", Limits(3, Decimal(1)), Finish("cost_limit", ASKED)),
        ([ASKED], "0.99", Limits(3, Decimal(1)), UseTools(ASKED)),
        ([ASKED, DONE], "1", Limits(3, Decimal(1)), Finish("cost_limit")),
        ([said("hi")], "9", Limits(3, Decimal(1)), Finish("answered")),
        ([ASKED], "1", Limits(1, Decimal(1)), Finish("cost_limit", ASKED)),
        ([], "9", Limits(3, Decimal(1)), AskModel(1)),
        ([ASKED], "999", FREE, UseTools(ASKED)),
    ],
)
def test_the_next_step(spoken: list[Message], spent: str, limits: Limits, step: object) -> None:
    """A finished answer always counts; money is asked before turns, and both before tools."""
    assert next_step(spoken, spent=Decimal(spent), limits=limits) == step


@pytest.mark.parametrize(("made", "told"), [(0, False), (7, False), (8, True), (9, False), (10, False)])
def test_the_note_comes_when_two_turns_are_left(made: int, told: bool) -> None:
    """Once: earlier it is noise, later it is of no use."""
    assert (turns_left_note(turns_made=made, max_turns=10) is not None) == told


def test_a_run_reads_its_own_messages_only() -> None:
    """What others said in the session counts for neither its turns nor its reply."""
    mine, other = new_id(), new_id()
    rows = [
        StoredMessage(1, other, user("q")),
        StoredMessage(2, other, said("a")),
        StoredMessage(3, mine, user("q2")),
        StoredMessage(4, mine, ASKED),
    ]
    assert own_messages(rows, mine) == [ASKED]


@pytest.mark.parametrize(
    ("spoken", "reason", "text", "notices"),
    [
        ([said(" hi ")], "answered", "hi", ()),
        ([ASKED, DONE, said("")], "answered", "a", ()),
        ([said("")], "answered", EMPTY_NOTICE, (EMPTY_NOTICE,)),
        ([ASKED, DONE, said("better")], "answered", "better", ()),
        ([ASKED], "cost_limit", "a", (COST_NOTICE,)),
        ([said("", call())], "cost_limit", COST_NOTICE, (COST_NOTICE,)),
        ([ASKED], "turn_limit", f"a\n\n{turn_notice(5)}", (turn_notice(5),)),
        ([said("", call())], "turn_limit", turn_notice(5), (turn_notice(5),)),
    ],
)
def test_the_reply(spoken: list[Message], reason: str, text: str, notices: tuple[str, ...]) -> None:
    """A person never gets an empty message, and always the best there is."""
    reply = compose_reply(spoken, reason, max_turns=5)  # type: ignore[arg-type]
    assert (reply.text, reply.notices) == (text, notices)
