"""Every key of a run ends by itself, however seldom its life is put off."""

from datetime import timedelta

from shared.adapters.redis.bulletin import RedisBulletin
from shared.adapters.redis.connection import open_redis
from shared.ids import new_id
from shared.messages import routes
from shared.messages.run_events import RunEvent, terminal_id
from shared.ports.bus import Batch
from shared.ports.runs import FinishedRun

HOUR = timedelta(hours=1)


async def test_a_stream_has_an_end_of_life_from_its_first_entry_on_also_in_an_emptied_redis(redis_url: str) -> None:
    """A key without one would stay for ever: nobody else takes it away."""
    run = new_id()
    key = routes.run_events(run)
    async with open_redis(redis_url) as client:
        bulletin = RedisBulletin(client, stream_ttl=HOUR, result_ttl=HOUR)
        await bulletin.mark_filled()
        for number in (1, 2):
            await bulletin.publish(Batch(events=[(run, RunEvent(f"1-{number}", "notice", {}))]))
            assert await client.ttl(key) > 0
        await client.flushall()
        assert await bulletin.is_emptied()
        await bulletin.publish(Batch(events=[(run, RunEvent("1-3", "notice", {}))]))
        assert await client.ttl(key) > 0
        await client.persist(key)
        await bulletin.publish(Batch(finished=[FinishedRun(run, "c", terminal_id(1), {"state": "done"})]))
        assert await client.ttl(key) > 0
        assert await client.ttl(routes.run_result(run)) > 0
