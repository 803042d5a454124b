"""The scheduler as a process: one leads, the others stand by."""

from shared.adapters.postgres.pool import Database
from tests.integration.services.service_process import Running, Surroundings, started, until

OVERDUE = """
with c as (insert into conversations (key, channel, principal, contact, last_ordinal)
           values ('cli', 'cli', 'me', 'me', 1) returning key)
insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message, deadline_at)
select '01890000-0000-7000-8000-000000000001', key, 1, 'message', 'accepted', 'cli', 'full', 'me', 'me', '{}',
       now() - interval '1 second' from c
"""


async def roles(*running: Running) -> list[str]:
    return [(await each.monitor()).get("role", "") for each in running]


async def test_it_leads_asks_for_what_is_due_and_ends_runs_in_time(
    surroundings: Surroundings, database: Database
) -> None:
    """Whoever waits for a run beyond its deadline hears that it failed, without any worker."""
    async with started("scheduler", surroundings) as scheduler:
        await scheduler.ready()

        async def leads() -> bool:
            return await roles(scheduler) == ["leader"]

        await until(leads, 30, scheduler.said)

        async def asked() -> bool:
            return bool(await surroundings.client.llen("rq:queue:lucyd-index"))

        await until(asked, 30, scheduler.said)
        await database.rows(OVERDUE)

        async def told() -> bool:
            result = await surroundings.client.get("lucyd:run:01890000-0000-7000-8000-000000000001:result")
            return result is not None and '"failed"' in result

        await until(told, 30, scheduler.said)
        assert await scheduler.stop() == 0
        assert not await scheduler.monitor()


async def test_when_the_leader_is_killed_another_leads(surroundings: Surroundings) -> None:
    """Reminders and deadlines must not wait for a person to notice."""
    async with started("scheduler", surroundings) as first, started("scheduler", surroundings) as second:
        await first.ready()
        await second.ready()

        async def one_leads() -> bool:
            return sorted(await roles(first, second)) == ["leader", "standby"]

        await until(one_leads, 30, first.said)
        leader, heir = (first, second) if await roles(first) == ["leader"] else (second, first)
        leader.process.kill()
        await leader.process.wait()

        async def heir_leads() -> bool:
            return await roles(heir) == ["leader"]

        await until(heir_leads, 30, heir.said)
        assert await heir.stop() == 0


async def test_a_leader_whose_connection_is_cut_stands_by_and_leads_again(
    surroundings: Surroundings, database: Database
) -> None:
    """Postgres decides who leads, so who can't ask it does not lead."""
    async with started("scheduler", surroundings) as scheduler:
        await scheduler.ready()

        async def led(times: int) -> bool:
            return scheduler.said().count('"leading"') == times and await roles(scheduler) == ["leader"]

        await until(lambda: led(1), 30, scheduler.said)
        cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = %s"
        cut += " and datname = current_database()"
        assert await database.value(cut, ("lucyd leadership",)) == 1
        await until(lambda: led(2), 30, scheduler.said)
        assert "leadership_lost" in scheduler.said()
        assert await scheduler.stop() == 0
