"""The tools of memory over a real Postgres."""

import itertools
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import orjson
import psycopg
import pytest

from services.agent_worker.edge.toolbox import LocalToolbox
from services.agent_worker.edge.tools.commitment_update import CommitmentUpdateTool
from services.agent_worker.edge.tools.memory_forget import MemoryForgetTool
from services.agent_worker.edge.tools.memory_get import MemoryGetTool
from services.agent_worker.edge.tools.memory_search import MemorySearchTool
from services.agent_worker.edge.tools.memory_write import MemoryWriteTool
from services.agent_worker.edge.tools.record_episode import RecordEpisodeTool
from services.agent_worker.ports import Tool, ToolFailed, ToolUse
from services.agent_worker.rules.recall import NOTHING_FOUND, RecallManner
from shared.adapters.postgres.memory import PostgresMemory
from shared.adapters.postgres.pool import Database
from shared.domain.person import People
from shared.domain.run import Address, Claim
from shared.ports.acts import Act
from tests.contract.test_children_contract import asking, spawn, the_child, with_spawns_open
from tests.runs_worlds import PostgresWorld

OWNER = ("key:default", "anna", "http:default:anna")
BERTA = ("key:shop", "berta", "http:shop:berta")
CARL = ("person:telegram:77", "77", "telegram:77")
HOSTILE = (
    "' | & ! \\ :* <-> ()",
    "a & !",
    "foo:*",
    '"',
    "\x00",
    "\ud800",
    "%s %(x)s $1",
    "\\",
    "(((",
    "'; drop table facts; --",
)

EVERY_CHARACTER = """
select count(lucyd_any_of(characters)) from (
  select string_agg('x' || chr(n) || chr(n) || ' ', '') as characters from generate_series(1, 131071) n
  where n not between 55296 and 57343 group by n / 64) every
"""
FINDS_ITSELF = """
select bool_and(lucyd_any_of(text) is null or to_tsvector('simple', lucyd_words(text)) @@ lucyd_any_of(text))
from unnest(%s::text[]) as text
"""


@dataclass
class Agent:
    """Uses the tools for one person as a run does; acts are done by the functions of the database."""

    database: Database
    session: str

    def tools(self) -> list[Tool]:
        memory, people = PostgresMemory(self.database), People(frozenset({1, 2}))
        manner = RecallManner(facts=20, episodes=3)
        return [
            MemoryWriteTool(people),
            MemoryForgetTool(people),
            MemorySearchTool(memory, people, manner=manner, default_top_k=10),
            MemoryGetTool(memory),
            CommitmentUpdateTool(people),
            RecordEpisodeTool(people),
        ]

    async def __call__(self, tool: str, who: tuple[str, str, str] = OWNER, **arguments: Any) -> str:
        toolbox = LocalToolbox(self.tools(), output_truncation=30_000, max_parallel=4)
        principal, sender, conversation = who
        use = ToolUse(uuid4(), uuid4(), conversation, "k", act=self._act, principal=principal, sender=sender)
        result = await toolbox.use({"id": "c", "name": tool, "arguments": arguments}, use)
        assert result.get("is_error", False) == result["content"].startswith("Error")
        return result["content"]

    async def _act(self, name: str, arguments: Mapping[str, Any]) -> str:
        context = orjson.dumps({"session": self.session, "contact": "Anna"}).decode()
        given = orjson.dumps(dict(arguments)).decode()
        said = await self.database.value(f"select lucyd_act_{name}(%s::jsonb, %s::jsonb)", (context, given))
        if "error" in said:
            raise ToolFailed(said["error"])
        text: str = said["text"]
        return text

    async def promise(self, person: str, what: str, deadline: str | None = None) -> int:
        """A commitment, as it is drawn out of a conversation."""
        await self.database.rows("insert into persons (id) values (%s) on conflict do nothing", (person,))
        number: int = await self.database.value(
            "insert into commitments (person, who, what, deadline) values (%s, 'I', %s, %s::timestamptz) returning id",
            (person, what, deadline),
        )
        return number

    async def index(self, path: str, *chunks: tuple[int, int, str]) -> None:
        """A file of the workspace as the indexer leaves it."""
        firsts, lasts, texts = (list(column) for column in zip(*chunks, strict=True))
        ids = [str(number) for number in range(len(chunks))]
        put = "select lucyd_put_file(%s, 'x', 1, now(), 'test', %s::int[], %s::int[], %s::text[], %s::text[])"
        await self.database.rows(put, (path, firsts, lasts, ids, texts))


@pytest.fixture
def agent(database: Database) -> Agent:
    """Somebody with an empty memory."""
    return Agent(database, str(uuid4()))


async def test_a_fact_is_stored_updated_known_and_forgotten(agent: Agent, database: Database) -> None:
    """The first words are those that the original's users and prompts know."""
    said = [
        await agent("memory_write", entity="Anna Smith", attribute="Favourite Tea", value="Assam"),
        await agent("memory_write", entity="anna_smith", attribute="favourite tea", value=" Assam "),
        await agent("memory_write", entity="anna_smith", attribute="favourite_tea", value="Darjeeling"),
        await agent("memory_forget", entity="ANNA  SMITH", attribute="favourite_tea"),
        await agent("memory_forget", entity="anna_smith", attribute="favourite_tea"),
        await agent("memory_write", entity="anna_smith", attribute="favourite_tea", value="Assam"),
    ]
    assert said == [
        "Stored: anna_smith.favourite_tea = Assam",
        "Already known: anna_smith.favourite_tea = Assam",
        "Updated: anna_smith.favourite_tea = Darjeeling (was: Assam)",
        "Forgotten: anna_smith.favourite_tea",
        "No current fact found for anna_smith.favourite_tea",
        "Stored: anna_smith.favourite_tea = Assam",
    ]
    rows = await database.rows(
        "select value, invalidated_at is null, source_session::text, confidence from facts order by id"
    )
    assert [row[:2] for row in rows] == [("Assam", False), ("Darjeeling", False), ("Assam", True)]
    assert {row[2:] for row in rows} == {(agent.session, 1.0)}


async def test_names_that_an_entity_has_besides_lead_to_it(agent: Agent, database: Database) -> None:
    """Else what is known of one person is spread over two."""
    await agent("memory_write", entity="anna_smith", attribute="tea", value="Assam")
    await database.rows("insert into entity_aliases values ('owner', 'the_boss', 'anna_smith')")
    assert await agent("memory_write", entity="The Boss", attribute="tea", value="Oolong") == (
        "Updated: anna_smith.tea = Oolong (was: Assam)"
    )
    assert "anna smith \u2014 tea: Oolong" in await agent("memory_search", query="What does the boss drink?")
    assert await agent("memory_forget", entity="the boss", attribute="tea") == "Forgotten: anna_smith.tea"
    # Others may call somebody else so.
    assert (
        await agent("memory_write", BERTA, entity="the boss", attribute="tea", value="none")
        == "Stored: the_boss.tea = none"
    )


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ({"entity": " _ ", "attribute": "a", "value": "v"}, "Error: 'entity' must not be empty"),
        ({"entity": "e", "attribute": "\n", "value": "v"}, "Error: 'attribute' must not be empty"),
        ({"entity": "e", "attribute": "a", "value": "  "}, "Error: 'value' must not be empty"),
        (
            {"entity": "e" * 121, "attribute": "a", "value": "v"},
            "Error: 'entity' must have at most 120 characters, not 121",
        ),
        (
            {"entity": "e", "attribute": "a" * 500, "value": "v"},
            "Error: 'attribute' must have at most 120 characters, not 500",
        ),
        (
            {"entity": "e", "attribute": "a", "value": "v" * 2001},
            "Error: 'value' must have at most 2000 characters, not 2001",
        ),
        (
            {"entity": "e", "attribute": "a"},
            "Error: Invalid arguments for 'memory_write': missing required argument 'value'",
        ),
    ],
)
async def test_what_is_no_fact_is_refused(
    agent: Agent, database: Database, arguments: dict[str, Any], refusal: str
) -> None:
    """A sentence for the model, and nothing is changed."""
    assert await agent("memory_write", **arguments) == refusal
    assert await database.value("select count(*) from facts") == 0


async def test_the_longest_names_are_stored(agent: Agent) -> None:
    """An index has bounds of its own, which must lie beyond ours."""
    longest = ("key:" + "k" * 63, "\U0001f600" * 200, "http:" + "k" * 63 + ":" + "\U0001f600" * 200)
    entity, attribute = "\U0001f600" * 120, "\u00df" * 120
    assert (await agent("memory_write", longest, entity=entity, attribute=attribute, value="v" * 2000)).startswith(
        "Stored: "
    )
    assert (await agent("memory_forget", longest, entity=entity, attribute=attribute)).startswith("Forgotten: ")


async def test_nobody_keeps_more_facts_than_there_is_room_for(agent: Agent, database: Database) -> None:
    """A model in a loop must not fill the disk; an update is always possible."""
    await agent("memory_write", entity="e", attribute="a", value="v")
    await database.rows(
        "insert into facts (person, entity, attribute, value)"
        " select 'owner', 'e', 'a' || n, 'v' from generate_series(1, 9999) n"
    )
    assert await agent("memory_write", entity="e", attribute="b", value="v") == (
        "Error: there are 10000 facts already, which is the limit; forget some first"
    )
    assert (await agent("memory_write", entity="e", attribute="a", value="w")).startswith("Updated: ")
    assert (await agent("memory_write", BERTA, entity="e", attribute="b", value="v")).startswith("Stored: ")
    await agent("memory_forget", entity="e", attribute="a1")
    assert (await agent("memory_write", entity="e", attribute="b", value="v")).startswith("Stored: ")


async def test_of_earlier_values_the_newest_are_kept(agent: Agent, database: Database) -> None:
    """A counter that is written each minute must not grow for ever."""
    for number in range(30):
        await agent("memory_write", entity="e", attribute="a", value=str(number))
    values = await database.rows("select value from facts order by id")
    assert [int(row[0]) for row in values] == list(range(9, 30))


async def test_one_live_value_whoever_writes_at_once(agent: Agent, database: Database, database_url: str) -> None:
    """The owner's terminal and telephone are two conversations."""
    await agent("memory_write", entity="e", attribute="a", value="0")
    fact = {"identity": "key:default", "person": "owner", "entity": "e", "attribute": "b"}
    write = "select lucyd_act_memory_write('{}', %s::jsonb)"
    one, two = (orjson.dumps({**fact, "value": value}).decode() for value in "12")
    async with await psycopg.AsyncConnection.connect(database_url) as first:
        await first.execute(write, (one,))
        async with await psycopg.AsyncConnection.connect(database_url) as second:
            await second.execute("set lock_timeout = '100ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                await second.execute(write, (two,))
        await first.commit()
    assert (await agent("memory_write", entity="e", attribute="b", value="2")).endswith("(was: 1)")
    assert await database.value("select count(*) from facts where attribute = 'b' and invalidated_at is null") == 1


async def test_what_is_asked_for_is_found(agent: Agent) -> None:
    """By the entity, by a word of the fact, in whatever writing."""
    await agent("memory_write", entity="user", attribute="cat", value="called Tom")
    await agent("memory_write", entity="berta_jones", attribute="home", value="a flat in Z\u00fcrich")
    for query in ("what do you know about my cat", "TOM?", "user"):
        assert "user \u2014 cat: called Tom" in await agent("memory_search", query=query)
    for query in ("Berta Jones's home", "zurich", "Z\u00dcRICH!", "Zu\u0308rich"):
        found = await agent("memory_search", query=query)
        assert found.startswith(
            "[Known facts]\n  berta jones \u2014 home: a flat in Z\u00fcrich\n\n[Memory loaded: Known facts | "
        )
        assert "Tom" not in found


async def test_what_is_not_there_gives_a_hint(agent: Agent) -> None:
    """The model shall know where else to look, and not search in circles."""
    assert await agent("memory_search", query="anything at all") == NOTHING_FOUND
    assert NOTHING_FOUND.startswith("No results found")
    assert await agent("memory_search", query="  ") == "Error: 'query' must not be empty"


@pytest.mark.parametrize("query", HOSTILE)
async def test_no_query_is_a_fault(agent: Agent, query: str) -> None:
    """Models write quotes, brackets, operators, and half characters."""
    await agent("memory_write", entity="e", attribute="a", value="a plain fact of Foo")
    found = await agent("memory_search", query=query)
    assert found.startswith(("[Known facts]", "No results found"))
    assert await agent(
        "memory_write", entity=f"x{query.encode(errors='replace').decode()}".replace("\0", ""), attribute="a", value="v"
    )


async def test_no_text_at_all_is_a_fault(database: Database) -> None:
    """Every character by itself and between others, and pieces of query languages in any order."""
    assert await database.value(EVERY_CHARACTER, patience=timedelta(seconds=30)) == 2016
    chance = random.Random(7)  # noqa: S311 - the same texts each time
    pieces = ["a", "\u00e4", " ", "'", '"', "\\", "&|!:*", "<->", "(", ")", "-", ".", "/", "@", "1e9", "\u6771"]
    texts = ["".join(chance.choices(pieces, k=12)) for _ in range(2000)]
    assert await database.value(FINDS_ITSELF, (texts,), patience=timedelta(seconds=30)) is True


async def test_facts_of_an_entity_come_before_others_and_the_surer_ones_first(agent: Agent, database: Database) -> None:
    """A list is cut at its end."""
    await agent("memory_write", entity="anna", attribute="guess", value="likes jazz")
    await agent("memory_write", entity="anna", attribute="known", value="plays the flute")
    await agent("memory_write", entity="tom", attribute="friend", value="anna")
    await database.rows("update facts set confidence = 0.6 where attribute = 'guess'")
    found = await agent("memory_search", query="anna")
    assert [line.strip() for line in found.splitlines()[1:4]] == [
        "anna \u2014 known: plays the flute",
        "anna \u2014 guess: likes jazz",
        "tom \u2014 friend: anna",
    ]


async def test_what_is_found_counts_as_read(agent: Agent, database: Database) -> None:
    """Upkeep tells what nobody has asked for in months."""
    await agent("memory_write", entity="anna", attribute="tea", value="Assam")
    await agent("memory_write", entity="tom", attribute="tea", value="none")
    long_ago = datetime.now(UTC) - timedelta(days=90)
    await database.rows("update facts set accessed_at = %s", (long_ago,))
    await agent("memory_search", query="anna")
    read = await database.rows("select entity, accessed_at > %s from facts order by entity", (long_ago,))
    assert read == [("anna", True), ("tom", False)]


async def test_nobody_reads_writes_or_forgets_what_another_person_told(agent: Agent, database: Database) -> None:
    """Memory goes by person: this is what people trust an agent with."""
    people = (OWNER, BERTA, CARL, ("person:telegram:78", "77", "telegram:77"), ("key:pub", "berta", "http:pub:berta"))
    for number, who in enumerate(people):
        assert await agent("memory_search", who, query="diary secret") == NOTHING_FOUND
        said = await agent("memory_write", who, entity="diary", attribute="secret", value=f"number {number}")
        assert said == f"Stored: diary.secret = number {number}"
    await agent("memory_forget", CARL, entity="diary", attribute="secret")
    for number, who in enumerate(people):
        found = await agent("memory_search", who, query="diary secret number")
        assert [f"number {other}" in found for other in range(len(people))] == [
            other == number and who != CARL for other in range(len(people))
        ]
    assert await database.value("select count(*) from persons") == len(people)


async def as_run(world: PostgresWorld, database: Database, claim: Claim) -> Callable[..., Awaitable[str]]:
    """Uses the tools of memory as this run does: its acts are stored with it, one call after the other."""
    agent, calls = Agent(database, str(claim.session.id)), itertools.count()
    await asking(world, claim, 9)

    async def act(name: str, arguments: Mapping[str, Any]) -> str:
        done = await world.acts.act(
            Act(claim.conversation, world.me, claim.epoch, claim.run, 1, next(calls), name, arguments)
        )
        return done.text

    async def use(tool: str, **arguments: Any) -> str:
        toolbox = LocalToolbox(agent.tools(), output_truncation=30_000, max_parallel=4)
        works_in = claim.child.works_in if claim.child is not None else ""
        used = ToolUse(
            claim.run,
            claim.session.id,
            claim.conversation,
            "k",
            act=act,
            principal=claim.principal,
            sender=claim.sender,
            works_in=works_in,
        )
        return (await toolbox.use({"id": "c", "name": tool, "arguments": arguments}, used))["content"]

    return use


async def test_a_sub_agent_remembers_what_its_root_would_and_nothing_else(agent: Agent, database: Database) -> None:
    """An event of a key is none of its people, whatever it is called; nor is what works for it."""
    await agent("memory_write", ("key:shop", "alarm", "http:shop:alarm"), entity="user", attribute="pin", value="1234")
    world = PostgresWorld(database)
    world.me = await world.hire()
    event = Address("http:shop:system:alarm", "http", "key:shop", "Alarm")
    root = await with_spawns_open(
        world, address=event, conversation=event.conversation, sender="alarm", source="system"
    )
    child = await asking(world, await the_child(world, await spawn(world, root)))
    grandchild = await the_child(world, await spawn(world, child))
    use = await as_run(world, database, grandchild)
    assert await use("memory_search", query="user pin") == NOTHING_FOUND
    await use("memory_write", entity="door", attribute="state", value="open")
    await use("record_episode", topics=["door"], decisions=[], summary="The door of the shop was open.")
    owner = "http:shop:system:alarm"
    assert await database.rows("select person, source_session from facts where entity = 'door'") == [
        (owner, root.session.id)
    ]
    assert await database.rows("select person, session, participants from episodes") == [
        (owner, root.session.id, ["Alarm"])
    ]


async def test_identities_that_were_linked_have_one_memory(agent: Agent, database: Database) -> None:
    """Somebody's decision wins over the rule, also when they write again."""
    await agent("memory_write", entity="user", attribute="tea", value="Assam")
    await agent("memory_write", CARL, entity="user", attribute="tea", value="none")
    await database.rows("update identities set person = 'owner', linked = true where name = 'telegram:77'")
    assert "Assam" in await agent("memory_search", CARL, query="user")
    assert (await agent("memory_write", CARL, entity="user", attribute="tea", value="Oolong")).endswith("(was: Assam)")
    assert await database.rows("select person, linked from identities where name = 'telegram:77'") == [("owner", True)]


async def test_an_episode_is_recorded_once_and_found_by_its_words(agent: Agent, database: Database) -> None:
    """What was talked about in May is asked for in autumn."""
    trip: dict[str, Any] = {
        "summary": "We planned the  trip to Lisbon.\n It will be warm.",
        "topics": ["travel", " "],
        "decisions": ["leave on Friday"],
        "emotional_tone": "excited",
    }
    assert await agent("record_episode", **trip) == "Recorded: episode #1"
    assert await agent("record_episode", **trip) == "Already recorded: episode #1"
    assert await agent("record_episode", summary="We talked of nothing but the weather.") == "Recorded: episode #2"
    told = "select session::text, participants, topics, decisions, emotional_tone from episodes order by id"
    assert await database.rows(told) == [
        (agent.session, ["Anna"], ["travel"], ["leave on Friday"], "excited"),
        (agent.session, ["Anna"], [], [], "neutral"),
    ]
    for query in ("lisbon", "When do we leave?", "Friday", "travel plans"):
        found = await agent("memory_search", query=query)
        assert "[Recent conversations]" in found, query
        assert "We planned the trip to Lisbon. It will be warm. (tone: excited)" in found
        assert "weather" not in found
    assert await agent("memory_search", BERTA, query="lisbon") == NOTHING_FOUND
    assert await agent("record_episode", BERTA, **trip) == "Recorded: episode #3"


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ({"summary": "Hi there."}, "this is trivial: a summary of less than 20 characters is not worth keeping"),
        ({"summary": " " * 40}, "this is trivial: a summary of less than 20 characters is not worth keeping"),
        ({"summary": "s" * 4001}, "'summary' must have at most 4000 characters, not 4001"),
        ({"summary": "s" * 30, "topics": ["t"] * 21}, "'topics' must have at most 20 items, not 21"),
        ({"summary": "s" * 30, "decisions": ["t" * 301]}, "each of 'decisions' must have at most 300 characters"),
        (
            {"summary": "s" * 30, "emotional_tone": "t" * 101},
            "'emotional_tone' must have at most 100 characters, not 101",
        ),
        (
            {"summary": "s" * 30, "topics": "t"},
            "Invalid arguments for 'record_episode': 'topics' must be an array, not a string",
        ),
    ],
)
async def test_what_is_no_episode_is_refused(
    agent: Agent, database: Database, arguments: dict[str, Any], refusal: str
) -> None:
    """Small talk would bury the rest."""
    assert await agent("record_episode", **arguments) == f"Error: {refusal}"
    assert await database.value("select count(*) from episodes") == 0


async def test_open_commitments_are_always_told_and_end_once(agent: Agent, database: Database) -> None:
    """Whatever is asked for: a promise must not depend on the right word."""
    late = await agent.promise("owner", "water the plants")
    soon = await agent.promise("owner", "call Tom", "2026-06-01 10:00+00")
    found = await agent("memory_search", query="unrelated")
    block = f"[Open commitments]\n  #{soon} - I: call Tom (by 2026-06-01)\n  #{late} - I: water the plants\n"
    assert found.startswith(block)
    update: dict[str, Any] = {"commitment_id": soon, "status": "done"}
    assert await agent("commitment_update", **update) == f"Commitment #{soon} marked as done"
    assert await agent("commitment_update", **update) == f"No open commitment found with ID #{soon}"
    assert "call Tom" not in await agent("memory_search", query="unrelated")
    assert await database.value("select status from commitments where id = %s", (soon,)) == "done"


@pytest.mark.parametrize("number", [0, -1, 10**30, 12345])
async def test_a_commitment_that_is_not_there_is_told(agent: Agent, number: int) -> None:
    """Models make numbers up, of any length."""
    said = await agent("commitment_update", commitment_id=number, status="done")
    assert said.startswith("No open commitment found with ID #")
    wrong = await agent("commitment_update", commitment_id=1, status="open")
    assert wrong == (
        "Error: Invalid arguments for 'commitment_update': 'status' must be one of done, expired, cancelled"
    )


async def test_nobody_sees_or_ends_what_another_person_was_promised(agent: Agent, database: Database) -> None:
    """Numbers can be guessed."""
    number = await agent.promise("owner", "call Tom")
    assert await agent("memory_search", BERTA, query="Tom") == NOTHING_FOUND
    for who in (BERTA, CARL):
        said = await agent("commitment_update", who, commitment_id=number, status="cancelled")
        assert said == f"No open commitment found with ID #{number}"
    assert await database.value("select status from commitments") == "open"


async def test_passages_of_files_are_found_best_first_by_everybody(agent: Agent) -> None:
    """The workspace is the agent's."""
    await agent.index(
        "MEMORY.md", (1, 2, "# Notes\nThe kettle is blue."), (2, 3, "The kettle is blue.\nTom has a cat.")
    )
    await agent.index("memory/2026-05-21.md", (1, 1, "The cat of Tom is called Tomcat; the cat is old."))
    for who in (OWNER, BERTA, CARL):
        found = await agent("memory_search", who, query="Where is Tom's CAT?")
        assert found.splitlines()[:3] == [
            "[Memory search]",
            "  memory/2026-05-21.md:1-1 \u2014 The cat of Tom is called Tomcat; the cat is old.",
            "  MEMORY.md:2-3 \u2014 Tom has a cat.",
        ]
    one = await agent("memory_search", query="cat", top_k=-5)
    assert one.count("\u2014") == 1
    assert (await agent("memory_search", query="cat", top_k=10**9)).count("\u2014") == 2


async def test_many_passages_leave_room_for_what_is_known(agent: Agent) -> None:
    """The budget is the model's window; facts come last in it, and still come."""
    await agent.index("MEMORY.md", *[(number, number, f"cat {number} " + "x" * 150) for number in range(1, 101)])
    await agent("memory_write", entity="user", attribute="cat", value="Tom")
    found = await agent("memory_search", query="cat", top_k=100)
    assert "user \u2014 cat: Tom" in found
    assert "[Memory loaded: Memory search, Known facts | " in found
    assert found.splitlines()[-1].startswith("[Cut (over budget): Memory search (")


async def test_words_of_other_scripts_are_found(agent: Agent) -> None:
    """People write as they speak."""
    await agent.index(
        "MEMORY.md",
        (
            1,
            4,
            "\u6771\u4eac\u30bf\u30ef\u30fc\u3078\u884c\u304f\n\u0418\u0420\u0418\u041d\u0410\nStra\u00dfe\n\u0130stanbul",
        ),
    )
    for query in ("\u6771\u4eac", "\u0438\u0440\u0438\u043d\u0430", "STRASSE", "istanbul"):
        assert "MEMORY.md:1-4" in await agent("memory_search", query=query), query


async def test_a_file_is_read_by_its_lines(agent: Agent) -> None:
    """From the index, with each line once."""
    lines = [f"line {number}" for number in range(1, 101)]
    chunks = [(first, first + 11, "\n".join(lines[first - 1 : first + 11])) for first in range(1, 90, 10)]
    await agent.index("memory/a.md", *chunks)
    start = await agent("memory_get", file_path="./memory/a.md")
    assert start.splitlines() == [*lines[:52], "[memory/a.md, lines 1-52]"]
    part = await agent("memory_get", file_path="memory/a.md", start_line=30, end_line=31)
    assert part.splitlines() == [*lines[20:42], "[memory/a.md, lines 21-42]"]
    rest = await agent("memory_get", file_path="memory/a.md", start_line=80)
    assert rest.splitlines()[-2:] == ["line 92", "[memory/a.md, lines 71-92]"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"file_path": "absent.md"}, "No chunks found for absent.md lines 0-50"),
        ({"file_path": "a.md", "start_line": 7}, "No chunks found for a.md lines 7-57"),
        ({"file_path": "../a.md", "end_line": 10**40}, "No chunks found for ../a.md lines 0-2147483647"),
        ({"file_path": "\x00'%s", "start_line": -3}, "No chunks found for \ufffd'%s lines 0-50"),
        ({"file_path": "a.md", "start_line": 5, "end_line": 5}, "Error: 'end_line' must be greater than 'start_line'"),
        ({}, "Error: Invalid arguments for 'memory_get': missing required argument 'file_path'"),
    ],
)
async def test_lines_that_are_not_there_are_told(agent: Agent, arguments: dict[str, Any], said: str) -> None:
    """Not an empty text, which would read like an empty file."""
    await agent.index("a.md", (1, 2, "a\nb"))
    assert await agent("memory_get", **arguments) == said
