"""The consolidator as a process: it reports what waits, and keeps the store in order."""

from uuid import UUID

import orjson
from rq.job import Job
from rq.serializers import JSONSerializer

from shared.adapters.postgres.pool import Database
from shared.adapters.redis.queues import blocking_client, open_queues
from shared.messages import routes
from tests.integration.services.service_process import Surroundings, started, until

SESSION = UUID("01890000-0000-7000-8000-000000000002")
CONVERSATION = "insert into conversations (key, channel, principal, contact) values ('cli', 'cli', 'me', 'me')"
OPENED = "insert into sessions (id, conversation, contact, last_ordinal) values (%s, 'cli', 'me', 5)"
MESSAGES = """
insert into messages (session, ordinal, run, role, body)
select %s, n, gen_random_uuid(), 'user', '{"role": "user", "content": "x"}' from generate_series(1, 5) n
"""


async def test_it_reports_the_backlog_and_counts_the_rows(surroundings: Surroundings, database: Database) -> None:
    """Operators see that something waits, and nothing is changed by looking."""
    await database.rows(CONVERSATION)
    await database.rows(OPENED, (SESSION,))
    await database.rows(MESSAGES, (SESSION,))
    async with started("consolidator", surroundings) as consolidator, open_queues(surroundings.redis_url) as queues:
        await consolidator.ready()
        await queues.enqueue(routes.CONSOLIDATE_QUEUE, routes.CONSOLIDATE_JOB, {}, job_id="consolidate_1")
        await queues.enqueue(routes.MAINTAIN_QUEUE, routes.MAINTAIN_JOB, {}, job_id="maintain_1")
        answers: list[str | None] = []

        async def done() -> bool:
            with blocking_client(surroundings.redis_url) as client:
                answers[:] = [
                    Job.fetch(job, connection=client, serializer=JSONSerializer).return_value()
                    for job in ("consolidate_1", "maintain_1")
                ]
            return all(answers)

        await until(done, 15, consolidator.said)
        backlog, store = (orjson.loads(answer or "") for answer in answers)
        assert backlog == {"sessions": [{"session": str(SESSION), "from": 0, "count": 5}], "total": 1, "messages": 5}
        assert store["sessions"] == {"open": 1, "closed": 0}
        assert (store["messages"], store["runs"], store["costs"], store["files"]) == (5, {}, 0, 0)
        assert await database.value("select count(*) from consolidation_state") == 0
        assert await consolidator.stop() == 0
