"""The indexer as a process: a job comes in, rows come out."""

import shutil

import orjson
import pytest
from rq.job import Job
from rq.serializers import JSONSerializer

from shared.adapters.postgres.memory import PostgresMemory
from shared.adapters.postgres.pool import Database
from shared.adapters.redis.queues import RqQueues, blocking_client, open_queues
from shared.messages import routes
from tests.integration.services.service_process import Running, Surroundings, started, until


async def result_of(queues: RqQueues, where: Surroundings, job_id: str) -> dict[str, int]:
    assert await queues.enqueue(routes.INDEX_QUEUE, routes.INDEX_JOB, {}, job_id=job_id)
    answer: str | None = None

    async def done() -> bool:
        nonlocal answer
        with blocking_client(where.redis_url) as client:
            job = Job.fetch(job_id, connection=client, serializer=JSONSerializer)
            answer = job.return_value()
            assert job.get_status() != "failed", job.latest_result().exc_string  # type: ignore[union-attr]
        return answer is not None

    await until(done, 15)
    assert answer is not None
    counts: dict[str, int] = orjson.loads(answer)
    return counts


async def _found(database: Database, query: str) -> list[str]:
    """What the search finds, as a worker does it."""
    passages = await PostgresMemory(database).passages(query, limit=10)
    return [f"{each.path}:{each.start_line}-{each.end_line} {each.text}" for each in passages]


async def test_files_of_the_workspace_appear_change_and_vanish(surroundings: Surroundings, database: Database) -> None:
    """What the agent writes into its memory can be found again, and what it throws away can't."""
    workspace = surroundings.data_dir / "workspace"
    (workspace / "MEMORY.md").write_text("likes tea", encoding="utf-8")
    (workspace / "memory" / "2026-01-01.md").write_text("a day", encoding="utf-8")
    async with started("indexer", surroundings) as indexer, open_queues(surroundings.redis_url) as queues:
        await indexer.ready()
        first = await result_of(queues, surroundings, "index_1")
        assert first == {"indexed": 2, "skipped": 0, "removed": 0, "errors": 0, "total": 2}
        assert await database.rows("select path, size, source from files order by path") == [
            ("MEMORY.md", 9, "memory"),
            ("memory/2026-01-01.md", 5, "memory"),
        ]
        assert await _found(database, "TEA") == ["MEMORY.md:1-1 likes tea"]
        (workspace / "MEMORY.md").write_text("likes coffee", encoding="utf-8")
        (workspace / "memory" / "2026-01-01.md").unlink()
        second = await result_of(queues, surroundings, "index_2")
        assert second == {"indexed": 1, "skipped": 0, "removed": 1, "errors": 0, "total": 1}
        assert await _found(database, "tea day likes") == ["MEMORY.md:1-1 likes coffee"]
        assert (await indexer.monitor())["state"] == "ready"
        assert await indexer.stop() == 0


async def test_a_workspace_that_is_not_the_one_is_left_alone(surroundings: Surroundings, database: Database) -> None:
    """An empty mount must not make the agent forget everything."""
    await database.rows("insert into files (path, hash, size, mtime) values ('MEMORY.md', 'x', 1, now())")
    await database.rows("insert into conversations (key, channel, principal, contact) values ('cli', 'cli', 'a', 'a')")
    await database.rows(
        "insert into settings (key, value)"
        " values ('workspace_id', jsonb_build_object('id', gen_random_uuid()::text, 'seen', true))"
    )
    async with started("indexer", surroundings) as indexer, open_queues(surroundings.redis_url) as queues:
        await indexer.ready()
        with pytest.raises(AssertionError, match="not the one"):
            await result_of(queues, surroundings, "index_1")
        assert await database.value("select count(*) from files") == 1
        assert indexer.process.returncode is None
        _told_once(indexer, "not the one")
        assert await indexer.stop() == 0


def _told_once(indexer: Running, words: str) -> None:
    """An operator's mistake is one event with a sentence, and no traceback in the log."""
    assert "Traceback" not in indexer.said()
    (event,) = [event for event in indexer.events() if "job" in str(event["event"])]
    assert (event["event"], event["level"]) == ("job_failed", "error")
    assert words in str(event["reason"])


async def test_a_workspace_that_is_not_there_is_told_in_one_event(surroundings: Surroundings) -> None:
    """A mount that is gone; nothing of it is a fault of the program."""
    async with started("indexer", surroundings) as indexer, open_queues(surroundings.redis_url) as queues:
        await indexer.ready()
        shutil.rmtree(surroundings.data_dir / "workspace")
        with pytest.raises(AssertionError, match="ConfigError"):
            await result_of(queues, surroundings, "index_1")
        _told_once(indexer, "workspace")
        assert await indexer.stop() == 0


async def test_the_job_reads_the_file_that_the_process_was_started_with(
    surroundings: Surroundings, database: Database
) -> None:
    """Jobs are called by name; they still must mean the same workspace and patterns."""
    config = surroundings.data_dir / "other.toml"
    config.write_text('[memory.indexer]\ninclude_patterns = ["notes/**/*.txt"]\n', encoding="utf-8")
    notes = surroundings.data_dir / "workspace" / "notes" / "deep"
    notes.mkdir(parents=True)
    (notes / "a.txt").write_text("a", encoding="utf-8")
    async with (
        started("indexer", surroundings, "-c", str(config)) as indexer,
        open_queues(surroundings.redis_url) as queues,
    ):
        await indexer.ready()
        assert (await result_of(queues, surroundings, "index_1"))["indexed"] == 1
        assert await database.value("select path from files") == "notes/deep/a.txt"
