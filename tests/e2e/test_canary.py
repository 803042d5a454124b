"""A secret of the operator, looked for by every road that a model has, and in every place that outlives a run."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import orjson
import psycopg
import pytest
import redis

from tests.scripted_model_server import Say, ScriptedModelServer, Use
from tests.stack import open_stack, text_of

CANARY = "canary-5d1c"
HANDED_OVER = "/tmp/handed-over-by-a-command"
SEARCHES = (
    "cat /proc/[0-9]*/environ | tr '\\0' '\\n'",
    "env; set; cat /proc/self/environ /proc/1/environ /proc/$PPID/environ",
    "cat .env ../../.env ../http_token; ls -la .. ../..",
    "grep -rasl canary- ../.. /proc/[0-9]*/cmdline | head; grep -rasho 'canary-[0-9a-f]*' ../.. | head",
)


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    """A model that looks for secrets with all the tools it has."""
    script: list[Say | Use] = [
        Use([("exec", {"command": command}) for command in SEARCHES]),
        Use([("exec", {"command": f"echo handed-$((40 + 2)) > {HANDED_OVER}; ls -A /tmp /run"})]),
        Use([("read", {"file_path": HANDED_OVER})]),
        Use([("read", {"file_path": path}) for path in ("../../.env", "../http_token", "/proc/self/environ", "..")]),
        Say("Seen."),
    ]
    with ScriptedModelServer({"look": script}).in_thread() as server:
        yield server


def test_a_canary_in_environment_and_dotenv_is_found_nowhere(
    models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str
) -> None:
    """Neither by commands nor by files; not in what the model reads, in logs, in streams or in tables.

    On the way a command hands a file to ``read`` over a ``/tmp`` that is not the machine's.
    """
    (tmp_path / ".env").write_text(f"CANARY_OF_DOTENV={CANARY}-a\n")
    toml = (
        '[agent]\nname = "Testbert"\n[http]\ntoken_env = "CANARY_OF_HTTP"\n'
        f'[tools.filesystem]\nallowed_paths = ["{tmp_path}", "/tmp"]\n'
    )
    with open_stack(tmp_path, database_url, redis_url, toml) as stack:
        stack.environment |= {
            "CANARY_OF_HTTP": f"{CANARY}-b",
            "LUCYD_OPENAI_KEY": f"{CANARY}-c",
            "OPENAI_API_KEY": f"{CANARY}-d",
            "OPENAI_BASE_URL": models.base_url("openai"),
        }
        gateway = stack.gateway()
        (worker,) = stack.workers()
        if "commands_run_in_a_sandbox" not in text_of(worker):
            assert "commands_run_without_a_sandbox" in text_of(worker)
            pytest.skip("this machine has no sandbox, and the worker's log says so")
        reply = httpx2.post(
            f"{gateway.url}/api/v1/chat",
            json={"message": "[[script:look]]"},
            headers={"Authorization": f"Bearer {CANARY}-b"},
            timeout=60,
        )
        assert reply.json()["reply"] == "Seen.", reply.text + text_of(worker)
        logs = text_of(worker) + text_of(gateway)
    assert not Path(HANDED_OVER).exists()
    said = orjson.dumps([request["body"] for request in models.requests]).decode()
    assert said.count("Access denied") == 4
    assert "handed-42" in said
    assert CANARY not in said
    assert CANARY not in logs
    assert CANARY not in _all_rows(database_url)
    assert CANARY not in _all_keys(redis_url)


def _all_rows(database_url: str) -> str:
    with psycopg.connect(database_url) as connection:
        tables = connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
        rows = [connection.execute(f"select t::text from {name} t").fetchall() for (name,) in tables]  # noqa: S608
    return str(rows)


def _all_keys(redis_url: str) -> str:
    client = redis.Redis.from_url(redis_url)
    kept: list[object] = []
    for key in client.scan_iter():
        kind = client.type(key)
        if kind == b"stream":
            kept.append(client.xrange(key))
        elif kind == b"hash":
            kept.append(client.hgetall(key))
        elif kind == b"string":
            kept.append(client.get(key))
    return str(kept)
