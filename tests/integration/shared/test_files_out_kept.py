"""Files that go out, in a real Postgres: what is kept for whom, and what code of the release before is given."""

from datetime import timedelta
from uuid import UUID

import pytest

from shared.adapters.postgres.deliveries import PostgresDeliveries
from shared.adapters.postgres.documents import to_json
from shared.adapters.postgres.fleet import PostgresFleet
from shared.adapters.postgres.pool import Database
from shared.adapters.postgres.upkeep import PostgresUpkeep
from shared.domain.outgoing_file import OutgoingFile
from shared.ids import new_id
from tests.builders import identity
from tests.deliveries_worlds import CHAT, PostgresDeliveriesWorld

RUN = """
insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message, deadline_at,
                  finished_at, published_at, outcome)
values (%s, %s, 1, 'outbound', 'done', 'http', 'full', 'me', 'me', '{}', now(), now() - interval '9 days',
        now() - interval '9 days', '{}')
"""
BLOB = """
insert into blobs (id, run, position, content_type, filename, is_voice, size, data, created_at)
values (%s, %s, 0, 'image/png', 'cat.png', false, 3, 'cat', now() - interval '9 days')
"""
CONVERSATION = "insert into conversations (key, channel, principal, contact) values (%s, 'telegram', 'me', 'Anna')"
DAY = timedelta(days=1)


def a_file(blob: UUID) -> OutgoingFile:
    return OutgoingFile(blob, "cat.png", "image/png", 3, "photo")


@pytest.mark.parametrize("state", ["pending", "sending", "in_doubt", "failed", "sent", "dropped"])
async def test_bytes_are_kept_as_long_as_somebody_may_send_them(database: Database, state: str) -> None:
    """What was put off, doubted or given up may yet go out; what is settled needs them no more."""
    blob, run = new_id(), new_id()
    await database.rows(CONVERSATION, (CHAT,))
    await database.rows(RUN, (run, CHAT))
    await database.rows(BLOB, (blob, run))
    await database.rows(
        "insert into deliveries (run, conversation, channel, ordinal, part, body, state)"
        " values (%s, %s, 'telegram', 1, 1, %s::jsonb, %s)",
        (run, CHAT, to_json(a_file(blob).body()), state),
    )
    upkeep = PostgresUpkeep(database)
    settled = state in {"sent", "dropped"}
    assert await upkeep.forget_blobs(older_than=DAY, limit=10) == int(settled)
    assert await upkeep.forget_runs(older_than=timedelta(0), limit=10) == int(settled)  # it goes behind its bytes


async def test_a_bridge_of_the_release_before_leaves_files_and_what_follows_them(database: Database) -> None:
    """It would find nothing to send, and say that this has failed."""
    world = PostgresDeliveriesWorld(database)
    await world.put("", file=a_file(new_id()))
    await world.put("what follows", part=2)
    await world.put("other", conversation="telegram:8")
    me = identity(service="telegram_bridge")
    await PostgresFleet(database).register(me)
    epoch = await PostgresDeliveries(database, channel="telegram").lead(me.id)
    claimed = await database.value(
        "select lucyd_deliveries_claim('telegram', %s, %s, '{}'::uuid[], 10)", (me.id, epoch)
    )
    assert [each["body"] for each in claimed] == [{"text": "other"}]
