"""The tools of memory over a real Postgres."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import orjson
import psycopg
import pytest

from services.agent_worker.edge.toolbox import LocalToolbox
from services.agent_worker.edge.tools.memory_forget import MemoryForgetTool
from services.agent_worker.edge.tools.memory_search import MemorySearchTool
from services.agent_worker.edge.tools.memory_write import MemoryWriteTool
from services.agent_worker.ports import Tool, ToolFailed, ToolUse
from services.agent_worker.rules.person import People
from services.agent_worker.rules.recall import NOTHING_FOUND, RecallManner
from shared.adapters.postgres.memory import PostgresMemory
from shared.adapters.postgres.pool import Database

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


async def test_identities_that_were_linked_have_one_memory(agent: Agent, database: Database) -> None:
    """Somebody's decision wins over the rule, also when they write again."""
    await agent("memory_write", entity="user", attribute="tea", value="Assam")
    await agent("memory_write", CARL, entity="user", attribute="tea", value="none")
    await database.rows("update identities set person = 'owner', linked = true where name = 'telegram:77'")
    assert "Assam" in await agent("memory_search", CARL, query="user")
    assert (await agent("memory_write", CARL, entity="user", attribute="tea", value="Oolong")).endswith("(was: Assam)")
    assert await database.rows("select person, linked from identities where name = 'telegram:77'") == [("owner", True)]
