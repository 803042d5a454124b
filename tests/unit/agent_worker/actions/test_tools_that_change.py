"""Tools come and go while a round of calls is on its way: what was offered and what is stored decide, on any worker."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from services.agent_worker.actions.desk import Manner, SkillManner
from services.agent_worker.edge.toolbox import LocalToolbox
from services.agent_worker.edge.tools.sessions_spawn import SessionsSpawnTool
from services.agent_worker.ports import Tool, ToolUse
from services.agent_worker.rules.effects import InDoubt
from services.agent_worker.rules.prompt import ContextFiles
from services.agent_worker.rules.run_loop import COST_NOTICE, Limits
from services.agent_worker.rules.spawning import SESSIONS_SPAWN, SpawnTerms
from shared.adapters.inmemory.rows import EffectRow
from shared.domain.effect import EffectClass, ToolSpec
from shared.domain.money import Usage
from shared.domain.run import Stored, Write
from shared.domain.skill import Skill, SkillBook, book_of
from shared.ports.model import ModelAnswer
from tests.builders import CONVERSATION, new_run
from tests.faults import FaultyRuns, Interrupted
from tests.unit.agent_worker.actions.workroom import Room, asks, contents, until, with_manner

ASKING = with_manner(ask_first=frozenset({"act"}))


@dataclass
class Noting:
    """A tool that notes what it did; ``then`` happens with it."""

    name: str
    effect: EffectClass
    done: list[str]
    then: Callable[[], None] = lambda: None

    @property
    def spec(self) -> ToolSpec:
        """A tool that takes what the calls of these tests give."""
        return ToolSpec(self.name, "Does it.", {"type": "object", "properties": {"x": {}, "name": {}}}, self.effect)

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        self.done.append(self.name)
        self.then()
        return f"{self.name} did it"


@dataclass
class Shelf:
    """The tools that there are now, and what they have done."""

    held: dict[str, Tool] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)

    def tools(self) -> Sequence[Tool]:
        """See ``ToolSource``."""
        return list(self.held.values())

    def put(self, name: str, effect: EffectClass = "once", then: Callable[[], None] = lambda: None) -> None:
        """From now on it is there, and is this."""
        self.held[name] = Noting(name, effect, self.done, then)

    def take(self, name: str) -> None:
        """It is gone."""
        del self.held[name]


class ChangingRuns(FaultyRuns):
    """Something happens right behind a write, from 1."""

    def __init__(self, room: Room, then: Mapping[int, Callable[[], None]]) -> None:
        super().__init__(room.world.runs)
        self._then = then

    async def store(self, conversation: str, *, worker: UUID, epoch: int, write: Write) -> Stored:
        stored = await super().store(conversation, worker=worker, epoch=epoch, write=write)
        self._then.get(len(self.writes), lambda: None)()
        return stored


async def opened(
    shelf: Shelf,
    *script: ModelAnswer | BaseException | asyncio.Event,
    manner: Manner | None = None,
    after: Mapping[int, Callable[[], None]] | None = None,
    before: Room | None = None,
) -> Room:
    """A room with the real toolbox over this shelf; with ``before``, it is an heir's."""
    if before is not None:
        await before.world.fence(before.worker)
    room = Room(
        *script,
        manner=manner,
        world=before.world if before else None,
        bus=before.bus if before else None,
        control=before.control if before else None,
    )
    room.runs = ChangingRuns(room, after or {})
    await room.open()
    box = LocalToolbox([], output_truncation=1000, max_parallel=4, sources=[shelf])
    room.desk = replace(room.desk, toolbox=box)
    return room


def effects(room: Room) -> dict[str, EffectRow]:
    """What is stored of calls, by the tool."""
    return {row.tool: row for row in room.world.tables.effects.values()}


async def crash(room: Room) -> None:
    with pytest.raises(Interrupted):
        await room.serve()


async def say(room: Room, text: str) -> None:
    """The person answers what they were asked."""
    assert (await room.send(new_run(text))).into is not None


def die() -> None:
    raise Interrupted


async def test_a_tool_that_comes_behind_the_answer_is_not_run_without_an_intent() -> None:
    """A server connects between two looks: the model had guessed the name, and a crash would repeat the call."""
    shelf = Shelf()
    shelf.put("read", "read")
    room = await opened(shelf, asks("act"), ModelAnswer("ok"), after={1: lambda: shelf.put("act")})
    assert (await room.answer())["reply"] == "ok"
    assert shelf.done == []
    assert contents(room) == ["Error: Unknown tool 'act'. Available tools: read"]
    assert effects(room) == {}


async def test_a_tool_that_comes_while_the_model_thinks_is_offered_with_the_next_turn() -> None:
    """What the model was not offered it can't have meant."""
    shelf, thinking = Shelf(), asyncio.Event()
    shelf.put("read", "read")
    room = await opened(shelf, thinking, asks("act"), asks("act"), ModelAnswer("ok"))
    await room.accept()
    serving = asyncio.create_task(room.serve())
    await until(lambda: room.model.requests)
    shelf.put("act")
    thinking.set()
    await serving
    assert contents(room) == ["Error: Unknown tool 'act'. Available tools: read", "act did it"]
    assert [[tool.name for tool in request.tools] for request in room.model.requests[:2]] == [["read"], ["read", "act"]]
    assert shelf.done == ["act"]


async def test_nobody_is_passed_over_by_a_tool_that_comes_in_the_middle_of_a_round() -> None:
    """The operator wants a person to be asked; the question was past when the tool came."""
    shelf = Shelf()
    shelf.put("read", "read", then=lambda: shelf.put("act"))
    room = await opened(shelf, asks("read", "act"), ModelAnswer("ok"), manner=ASKING)
    assert (await room.answer())["reply"] == "ok"
    assert shelf.done == ["read"]
    assert contents(room)[1] == "Error: Unknown tool 'act'. Available tools: read"


async def test_a_tool_that_was_offered_and_is_gone_gives_an_error() -> None:
    """And the run goes on."""
    shelf = Shelf()
    shelf.put("act")
    room = await opened(shelf, asks("act"), ModelAnswer("ok"), after={1: lambda: shelf.take("act")})
    assert (await room.answer())["reply"] == "ok"
    assert contents(room) == ["Error: Unknown tool 'act'. Available tools: none"]
    assert [(row.effect, row.state) for row in effects(room).values()] == [("once", "done")]


@pytest.mark.parametrize(("offered", "now"), [("read", "once"), ("idempotent", "once"), ("local", "once")])
async def test_a_tool_that_has_become_another_is_not_run(offered: EffectClass, now: EffectClass) -> None:
    """What is stored of the call would let an heir run it again."""
    shelf = Shelf()
    shelf.put("act", offered)
    room = await opened(shelf, asks("act"), ModelAnswer("ok"), after={1: lambda: shelf.put("act", now)})
    assert (await room.answer())["reply"] == "ok"
    assert shelf.done == []
    assert contents(room) == ["Error: Tool 'act' is another one by now. Nothing was done; ask again"]


async def test_a_skill_that_goes_in_the_middle_of_a_round_gives_no_tool_back() -> None:
    """Its file was removed behind the answer; the cut was made when the model was asked."""
    shelf = Shelf()
    for name, effect in (("load_skill", "read"), ("look", "read"), ("act", "once")):
        shelf.put(name, effect)  # type: ignore[arg-type]
    books = Books(book_of([Skill("brewing", "How", "Do so.", "SKILL.md", allowed_tools=("look",))], []))
    script = asks("load_skill"), asks("act"), ModelAnswer("ok")
    script[0].tool_calls[0]["arguments"] = {"name": "brewing"}
    manner = Manner(retry_base=2.0, skills=SkillManner(tiers=frozenset({"full"})))
    room = await opened(shelf, *script, manner=manner, after={3: books.clear})
    room.desk = replace(room.desk, skills=books)
    assert (await room.answer("hello"))["reply"] == "ok"
    assert shelf.done == ["load_skill"]
    assert contents(room)[1] == "Error: Unknown tool 'act'. Available tools: load_skill, look"


@dataclass
class Draining:
    """A workspace; when somebody reads it, the worker is told to end."""

    told: asyncio.Event

    async def context_files(self, tier: str) -> ContextFiles:
        """See ``Workspace``."""
        self.told.set()
        return ContextFiles(stable=[], semi_stable=[])


@dataclass
class Books:
    """Skills that a test may take away."""

    book: SkillBook

    def clear(self) -> None:
        """All are gone."""
        self.book = SkillBook()


@pytest.mark.parametrize("back", [True, False], ids=["comes back", "stays away"])
async def test_a_no_is_heeded_whatever_has_become_of_the_tool(back: bool) -> None:
    """Its server was away when the answer came, and is back when the call would run."""
    shelf = Shelf()
    shelf.put("read", "read", then=lambda: shelf.put("act") if back else None)
    shelf.put("act")
    room = await opened(shelf, asks("read", "act"), ModelAnswer("ok"), manner=ASKING)
    run = await room.accept()
    await room.serve()
    shelf.take("act")
    await say(room, "no, leave it")
    await room.serve()
    assert (await room.outcome(run))["reply"] == "ok"
    assert shelf.done == ["read"]
    assert contents(room)[1] == "Error: the person did not allow this. They said: no, leave it"


async def test_a_no_is_heeded_where_nobody_would_be_asked_any_more() -> None:
    """The operator changed the settings while the person thought."""
    shelf = Shelf()
    shelf.put("act")
    room = await opened(shelf, asks("act"), manner=ASKING)
    run = await room.accept()
    await room.serve()
    await say(room, "no")
    other = await opened(shelf, ModelAnswer("ok"), before=room)
    await other.serve()
    assert (await other.outcome(run))["reply"] == "ok"
    assert shelf.done == []
    assert contents(other) == ["Error: the person did not allow this. They said: no"]


async def test_an_heir_writes_down_what_does_more_than_read_by_now() -> None:
    """The one that died had it as a tool that reads; the heir's may not run twice either."""
    shelf = Shelf()
    shelf.put("first", then=die)
    shelf.put("act", "read")
    room = await opened(shelf, asks("first", "act"))
    await room.accept()
    await crash(room)
    assert set(effects(room)) == {"first"}

    shelf.put("first")
    shelf.put("act", "once", then=die)
    heir = await opened(shelf, before=room)
    await crash(heir)
    assert (effects(heir)["act"].effect, effects(heir)["act"].state) == ("once", "intended")
    assert shelf.done == ["first", "act", "act"]  # it was read before, and nobody minds
    third = await opened(shelf, ModelAnswer("ok"), before=heir)
    await third.serve()
    assert shelf.done == ["first", "act", "act"]
    assert contents(third) == [InDoubt(name, f"c{x}").for_model()["content"] for x, name in enumerate(("first", "act"))]


async def test_an_heir_that_drains_leaves_nothing_that_looks_as_if_it_had_begun() -> None:
    """What it would have written down is written by whoever comes next: nobody has to be told of a doubt."""
    shelf = Shelf()
    shelf.put("first", then=die)
    shelf.put("act", "read")
    room = await opened(shelf, asks("first", "act"))
    run = await room.accept()
    await crash(room)
    shelf.put("act", "once")
    heir = await opened(shelf, before=room)
    heir.desk = replace(heir.desk, workspace=Draining(heir.desk.draining))
    await heir.serve()
    third = await opened(shelf, ModelAnswer("ok"), before=heir)
    await third.serve()
    assert (await third.outcome(run))["notices"] == [InDoubt("first", "c0").for_person()]
    assert contents(third)[1] == "act did it"


@pytest.mark.parametrize("now", ["once", "read", None])
async def test_what_may_have_happened_and_has_no_such_tool_any_more_is_in_doubt(now: EffectClass | None) -> None:
    """It could have been asked for again with its key; without that nobody can say anything."""
    shelf = Shelf()
    shelf.put("act", "idempotent", then=die)
    room = await opened(shelf, asks("act"))
    run = await room.accept()
    await crash(room)
    shelf.take("act")
    if now is not None:
        shelf.put("act", now)
    heir = await opened(shelf, ModelAnswer("ok"), before=room)
    await heir.serve()
    assert shelf.done == ["act"]
    assert (await heir.outcome(run))["notices"] == [InDoubt("act", "c0").for_person()]


async def test_an_act_that_has_not_happened_is_not_done_by_a_tool_of_another_class() -> None:
    """The next heir would do that once more, since acts are never in doubt."""
    shelf = Shelf()
    shelf.put("act", "local", then=die)
    room = await opened(shelf, asks("act"))
    run = await room.accept()
    await crash(room)
    shelf.put("act", "once")
    heir = await opened(shelf, ModelAnswer("ok"), before=room)
    await heir.serve()
    assert shelf.done == ["act"]
    assert contents(heir) == ["Error: Tool 'act' is another one by now. Nothing was done; ask again"]
    assert (await heir.outcome(run))["notices"] == []


def spawning(shelf: Shelf) -> SessionsSpawnTool:
    terms = SpawnTerms("primary", deny=frozenset({SESSIONS_SPAWN}))
    return SessionsSpawnTool(terms, roles=["primary"], offered=lambda: list(shelf.held), output_limit=1000)


def spawns(*beside: str, usage: Usage | None = None) -> ModelAnswer:
    """A sub-agent, and these beside it."""
    answer = asks(SESSIONS_SPAWN, *beside)
    answer.tool_calls[0]["arguments"] = {"prompt": "look it up"}
    return replace(answer, usage=usage or Usage())


async def test_an_heir_that_may_not_spawn_waits_for_a_child_that_is_there() -> None:
    """Its operator has disabled the tool: what was asked for before is paid for, and answers."""
    shelf = Shelf()
    shelf.held[SESSIONS_SPAWN] = spawning(shelf)
    shelf.put("act", then=die)
    room = await opened(shelf, spawns("act"))
    run = await room.accept()
    await crash(room)
    (child,) = room.world.tables.children

    shelf.take(SESSIONS_SPAWN)
    heir = await opened(shelf, ModelAnswer("found"), ModelAnswer("Well."), before=room)
    await heir.serve()
    row = heir.world.tables.runs[run]
    assert (row.state, row.wait_reason) == ("waiting", "child")
    assert heir.world.tables.conversations[CONVERSATION].owner is None
    await heir.serve(heir.world.tables.runs[child].conversation)
    await heir.serve()
    assert (await heir.outcome(run))["reply"] == "Well."
    assert contents(heir) == ["found", InDoubt("act", "c1").for_model()["content"]]
    assert list(heir.world.tables.children) == [child]


async def test_the_money_of_a_message_is_one_also_where_the_tool_is_gone() -> None:
    """What its sub-agent has spent is gone, whoever goes on with the run."""
    dear = Usage(input=1000, output=1000)  # 0.018
    manner = with_manner(limits=Limits(max_turns=50, max_cost=Decimal("0.05")))
    shelf = Shelf()
    shelf.held[SESSIONS_SPAWN] = spawning(shelf)
    shelf.put("look", "read")
    script = spawns(usage=dear), replace(asks("look"), usage=dear), ModelAnswer("found", usage=dear)
    room = await opened(shelf, *script, manner=manner)
    run = await room.accept()
    await room.serve()
    (child,) = room.world.tables.children
    shelf.take(SESSIONS_SPAWN)
    await room.serve(room.world.tables.runs[child].conversation)
    await room.serve()
    assert (await room.outcome(run))["notices"] == [COST_NOTICE]
    assert len(room.model.requests) == 3


async def test_a_name_that_reaches_no_tool_is_stored_as_none() -> None:
    """Nobody can say of it that it only reads; beside a sub-agent all results are kept but that of nothing."""
    shelf = Shelf()
    shelf.held[SESSIONS_SPAWN] = spawning(shelf)
    shelf.put("look", "read")
    room = await opened(shelf, spawns("look", "nonsense"), ModelAnswer("found"), ModelAnswer("ok"))
    run = await room.accept()
    await room.serve()
    assert {name: row.effect for name, row in effects(room).items()} == {SESSIONS_SPAWN: "local", "look": "read"}
    (child,) = room.world.tables.children
    await room.serve(room.world.tables.runs[child].conversation)
    await room.serve()
    assert (await room.outcome(run))["reply"] == "ok"
    assert contents(room)[:2] == ["found", "look did it"]
    assert contents(room)[2].startswith("Error: Unknown tool 'nonsense'.")
    assert shelf.done == ["look"]
