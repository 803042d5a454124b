"""The reset of everything, through the API's own route and a real Postgres."""

from datetime import timedelta
from typing import Any

import orjson
from starlette.requests import Request
from starlette.types import Message

from services.gateway.edge.bodies import Bodies
from services.gateway.edge.repeats import Repeats
from services.gateway.edge.session_api import SessionApi
from shared.adapters.postgres.answers import PostgresAnswers
from shared.adapters.postgres.history import PostgresHistory
from shared.adapters.postgres.inbox import PostgresInbox
from shared.adapters.postgres.pool import Database
from shared.adapters.postgres.records import PostgresRecords
from shared.adapters.system_clock import SystemClock
from shared.domain.api_key import ApiKey

CONVERSATIONS = """
insert into conversations (key, channel, principal, contact)
select 'http:' || k || ':' || n, 'http', 'key:' || k, 'http-' || n from generate_series(1, 450) n, (values (%s)) v (k)
"""
SESSIONS = """
insert into sessions (id, conversation, contact) select gen_random_uuid(), key, contact from conversations
"""


async def _reset(api: SessionApi, key: str, target: str) -> Any:
    async def receive() -> Message:
        return {"type": "http.request", "body": orjson.dumps({"target": target}), "more_body": False}

    response = await api.reset(Request({"type": "http", "headers": [], "lucyd.key": ApiKey(key)}, receive))
    return orjson.loads(bytes(response.body))


async def test_all_sessions_are_closed_however_many_there_are(database: Database) -> None:
    """All means all; a list that people read has pages, and the rest of it was left open."""
    for key in ("phone", "other"):
        await database.rows(CONVERSATIONS, (key,))
    await database.rows(SESSIONS)
    bodies = Bodies("Lucyd")
    repeats = Repeats(PostgresAnswers(database), bodies, timedelta(hours=24), SystemClock())
    api = SessionApi(
        PostgresHistory(database), PostgresInbox(database), bodies, 0, PostgresRecords(database), repeats, "user"
    )
    answer = await _reset(api, "phone", "all")
    assert (answer["reset"], answer["target"], answer["count"]) == (True, "all", 450)
    assert (await _reset(api, "phone", "all"))["count"] == 0
    left = await database.rows(
        "select principal, count(*) from sessions join conversations on key = conversation"
        " where closed_at is null group by principal"
    )
    assert left == [("key:other", 450)]
