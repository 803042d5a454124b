"""What a channel's person reads at the end of a run: the reply or why there is none, and what else they must know."""

import contextlib

from services.agent_worker.actions.work_on import INTERNAL
from services.agent_worker.rules.effects import InDoubt
from shared.errors import ModelRejected
from shared.ports.model import ModelAnswer
from tests.builders import CHAT, chat_message
from tests.faults import Interrupted
from tests.unit.agent_worker.actions.workroom import Room, Tools, asks, with_manner

DOUBT = InDoubt("exec", "c0").for_person()


async def goes_out(room: Room, text: str = "hello") -> list[str]:
    """The texts that go out for a message of a chat."""
    await room.send(chat_message(text))
    await room.serve(CHAT)
    return [row.text for row in await room.world.deliveries()]


def nudged(room: Room) -> bool:
    return any("telegram" in batch.outbound for batch in room.bulletin.batches)


async def test_a_reply_goes_out_and_its_bridge_is_told() -> None:
    """Made by the transaction that ends the run; the nudge only makes it quick."""
    room = await Room(ModelAnswer("hi there")).open()
    assert await goes_out(room) == ["hi there"]
    assert nudged(room)


async def test_a_long_reply_goes_out_in_parts_that_fit() -> None:
    """No part is lost, and each is as long as the channel takes at most."""
    text = " ".join(f"word{number}" for number in range(400))
    room = await Room(ModelAnswer(text), manner=with_manner(part_limit=200)).open()
    sent = await goes_out(room)
    assert max(len(part) for part in sent) <= 200
    assert " ".join(sent) == text


async def test_a_silent_reply_goes_nowhere() -> None:
    """The agent has nothing to say; callers over HTTP still see that it was silent."""
    room = await Room(ModelAnswer("NO_REPLY"), manner=with_manner(silent_tokens=("NO_REPLY",))).open()
    assert await goes_out(room) == []


async def test_a_run_that_failed_says_one_plain_sentence() -> None:
    """The operator's own, where there is one."""
    for message, expected in (("Sorry, try later.", "Sorry, try later."), ("", "The model refused it")):
        room = await Room(ModelRejected("The model refused it"), manner=with_manner(error_message=message)).open()
        assert await goes_out(room) == [expected]
        assert nudged(room)


async def test_a_fault_of_our_own_says_so() -> None:
    """Silence would be the worst answer."""
    room = await Room(RuntimeError("a bug")).open()
    assert await goes_out(room) == [INTERNAL]


async def test_an_act_in_doubt_is_told_with_the_reply() -> None:
    """The person may have to look after it."""

    async def die(_: object) -> str:
        raise Interrupted

    tools = Tools({"exec": "once"}, doing={"exec": die})
    room = await Room(asks("exec"), tools=tools).open()
    new = chat_message("do it")
    await room.send(new)
    with contextlib.suppress(Interrupted):
        await room.serve(CHAT)
    tools.doing.clear()
    heir = await room.heir(ModelAnswer("I looked after it."))
    await heir.serve(CHAT)

    assert [row.text for row in await room.world.deliveries()] == [f"I looked after it.\n\n{DOUBT}"]


async def test_an_act_in_doubt_is_told_once_with_a_failure_and_beside_silence() -> None:
    """However the run ends."""

    async def die(_: object) -> str:
        raise Interrupted

    manner = with_manner(silent_tokens=("NO_REPLY",), error_message="Sorry.")
    for line, expected in ((ModelRejected("no"), [f"Sorry.\n\n{DOUBT}"]), (ModelAnswer("NO_REPLY"), [DOUBT])):
        tools = Tools({"exec": "once"}, doing={"exec": die})
        room = await Room(asks("exec"), tools=tools, manner=manner).open()
        await room.send(chat_message("do it"))
        with contextlib.suppress(Interrupted):
            await room.serve(CHAT)
        tools.doing.clear()
        heir = await room.heir(line)
        await heir.serve(CHAT)
        assert [row.text for row in await room.world.deliveries()] == expected


async def test_callers_over_http_fetch_theirs() -> None:
    """Nothing is carried to them."""
    room = await Room(ModelAnswer("hi")).open()
    await room.answer()
    assert list(await room.world.deliveries()) == []
    assert not any(batch.outbound for batch in room.bulletin.batches)


async def test_what_somebody_sends_names_no_model() -> None:
    """None was asked: what the session says of its last model and of its context stays as it was."""
    room = await Room().open()
    new = chat_message("The tea is ready.", kind="outbound", source="http")
    await room.send(new)
    await room.serve(CHAT)
    (ending,) = [write.ending for write in room.runs.writes if write.ending is not None]
    assert ending.session is None
    assert ending.outcome["model"] is None
