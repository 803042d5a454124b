"""Memory over HTTP, with a real gateway and a real database."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import psycopg
import pytest

from tests.api_keys import bearer, make_key, revoke_key
from tests.stack import TOKEN, Stack, client, open_stack

SEARCH = "/api/v1/memory/search"


@pytest.fixture
def stack(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    with open_stack(tmp_path, database_url, redis_url, '[agent]\nname = "Testbert"\n') as opened:
        yield opened


def remember(stack: Stack, person: str, tea: str) -> None:
    """A fact, an episode and a commitment of a person, each with the word *tea*."""
    with psycopg.connect(stack.database_url, autocommit=True) as database:
        database.execute("insert into persons (id) values (%s) on conflict do nothing", (person,))
        database.execute(
            "insert into facts (person, entity, attribute, value) values (%s, 'anna', %s, %s)",
            (person, f"tea_{tea}", tea),
        )
        database.execute(
            "insert into episodes (person, summary, topics) values (%s, %s, '[\"tea\"]')", (person, f"Tea: {tea}")
        )
        database.execute(
            "insert into commitments (person, who, what, deadline) values (%s, 'I', %s, '2031-01-02T03:04:05Z')",
            (person, f"buy {tea}"),
        )


def index(stack: Stack, *texts: str) -> None:
    """A file of the workspace as the indexer leaves it."""
    lines = list(range(1, len(texts) + 1))
    with psycopg.connect(stack.database_url, autocommit=True) as database:
        database.execute(
            "select lucyd_put_file('MEMORY.md', 'x', 1, now(), 'test', %s::int[], %s::int[], %s::text[], %s::text[])",
            (lines, lines, [str(line) for line in lines], list(texts)),
        )


def found(http: httpx2.Client, headers: dict[str, str] | None = None, **query: str) -> str:
    reply = http.get(SEARCH, params={"q": "Which tea?", **query}, headers=headers)
    assert reply.status_code == 200, reply.text
    return reply.text


def test_what_the_owner_told_is_found_with_all_that_is_known_of_it(stack: Stack) -> None:
    """The same search as the agent's own tool, as data."""
    remember(stack, "owner", "Assam")
    index(stack, "The tea is in the green tin.")
    with client(stack.gateway()) as http:
        reply = http.get(SEARCH, params={"q": "What TEA does Anna drink?"}).json()
        assert reply.pop("agent") == "Testbert"
        assert reply["facts"] == [{"entity": "anna", "attribute": "tea_Assam", "value": "Assam", "confidence": 1.0}]
        (episode,) = reply["episodes"]
        assert (episode["summary"], episode["topics"], episode["decisions"]) == ("Tea: Assam", ["tea"], [])
        assert reply["passages"] == [
            {"path": "MEMORY.md", "start_line": 1, "end_line": 1, "text": "The tea is in the green tin."}
        ]
        (commitment,) = reply["commitments"]
        assert (commitment["what"], commitment["deadline"][:10]) == ("buy Assam", "2031-01-02")
        nothing = http.get(SEARCH, params={"q": "xylophone"}).json()
        assert (nothing["facts"], nothing["episodes"], nothing["passages"]) == ([], [], [])


def test_each_kind_is_bounded(stack: Stack) -> None:
    """Whoever has told for years must not get all of it at once."""
    for number in range(3):
        remember(stack, "owner", f"tea {number}")
    index(stack, *(f"tea {number}" for number in range(3)))
    with client(stack.gateway()) as http:
        reply = http.get(SEARCH, params={"q": "tea", "limit": "2"}).json()
    assert {kind: len(reply[kind]) for kind in ("facts", "episodes", "passages", "commitments")} == {
        "facts": 2, "episodes": 2, "passages": 2, "commitments": 2,
    }  # fmt: skip


def test_nobody_finds_what_another_key_or_another_sender_told(stack: Stack) -> None:
    """Names of senders mean something within their key only; not even the operator's token reads what came over it."""
    for person, tea in (
        ("owner", "Assam"), ("http:shop:berta", "Oolong"), ("http:shop:default", "Sencha"), ("telegram:7", "Mate"),
        ("http:bank:berta", "Lapsang"),
    ):  # fmt: skip
        remember(stack, person, tea)
    shop, bank = (bearer(make_key(stack.database_url, name, "read")) for name in ("shop", "bank"))
    teas = {"Assam", "Oolong", "Sencha", "Mate", "Lapsang"}
    with client(stack.gateway()) as http:
        for headers, sender, own in (
            (None, "", "Assam"), (None, "berta", "Assam"), (shop, "berta", "Oolong"), (shop, "", "Sencha"),
            (bank, "berta", "Lapsang"),
        ):  # fmt: skip
            text = found(http, headers, **({"sender": sender} if sender else {}))
            assert {tea for tea in teas if tea in text} == {own}, (headers, sender)
        for sender in ("carl", "owner", "http:bank:berta", "shop:berta", "telegram:7", "*", "%"):
            text = found(http, shop, sender=sender)
            assert not [tea for tea in teas if tea in text], sender


def test_it_takes_a_key_that_may_read(stack: Stack) -> None:
    """None, one that was revoked, one of other scopes: refused, and nothing is told."""
    remember(stack, "owner", "Assam")
    old = bearer(make_key(stack.database_url, "old", "read"))
    revoke_key(stack.database_url, "old")
    wrong = bearer(make_key(stack.database_url, "wrong", "chat", "admin"))
    with httpx2.Client(base_url=stack.gateway().url, timeout=20) as http:
        for headers, status in (({}, 401), (old, 401), (wrong, 403), (bearer(TOKEN), 200)):
            reply = http.get(SEARCH, params={"q": "tea"}, headers=headers)
            assert (reply.status_code, "Assam" in reply.text) == (status, status == 200)


def test_what_can_not_be_asked_is_refused_in_a_sentence(stack: Stack) -> None:
    """Before the database hears of it."""
    wrong: list[tuple[dict[str, str], str]] = [
        ({}, "q"), ({"q": ""}, "q"), ({"q": " \t"}, "q"), ({"q": "x" * 2001}, "q"),
        ({"q": "tea", "limit": "0"}, "limit"),
        ({"q": "tea", "limit": "101"}, "limit"), ({"q": "tea", "limit": "x"}, "limit"),
        ({"q": "tea", "sender": "x" * 201}, "sender"), ({"q": "tea", "sender": "a\0b"}, "sender"),
    ]  # fmt: skip
    with client(stack.gateway()) as http:
        for query, field in wrong:
            reply = http.get(SEARCH, params=query)
            assert (reply.status_code, f'"{field}"' in reply.json()["error"]) == (400, True), reply.text


def test_no_text_is_an_error(stack: Stack) -> None:
    """Words are looked for, and nothing of it is a language."""
    remember(stack, "owner", "Assam")
    with client(stack.gateway()) as http:
        for question in ("' | & ! \\ :* <-> ()", "a\0b tea", "'; drop table facts; --", "%s %(x)s $1 tea"):
            found(http, q=question)
        assert "Assam" in found(http)
