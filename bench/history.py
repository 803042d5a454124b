"""Conversations that have a past, written as rows: what eight real chats each would have left behind.

Rows and not chats, because a cell needs hundreds of conversations. A message is 300 characters long, an answer as long
as the model server's.
"""

from collections.abc import Sequence

import psycopg

from bench.wire import reply_text

SEEDED = 16
"""Messages of a conversation before the bench says anything in it; see ``RUNS_PER_CONVERSATION`` for the mean of 20."""

_SAID = ("What we said about this on the day before: the plan stands, two points are open, and I will come back. " * 3)[
    :300
]
_ANSWERED = reply_text("0" * 12)

_CONVERSATIONS = """
insert into conversations (key, channel, principal, contact, last_ordinal)
  select 'http:default:' || sender, 'http', 'key:default', 'http-' || sender, 0
  from unnest(%(senders)s::text[]) as sender
"""
_SESSIONS = """
insert into sessions (id, conversation, contact, last_ordinal, context_tokens)
  select gen_random_uuid(), 'http:default:' || sender, 'http-' || sender, %(seeded)s, 2600
  from unnest(%(senders)s::text[]) as sender
"""
_MESSAGES = """
insert into messages (session, ordinal, run, role, body)
  select sessions.id, ordinal, gen_random_uuid(),
    case when ordinal %% 2 = 1 then 'user' else 'assistant' end,
    case when ordinal %% 2 = 1
      then jsonb_build_object('role', 'user', 'content', %(said)s::text, 'received_at', '2026-01-05T10:00:00+00:00')
      else jsonb_build_object('role', 'assistant', 'text', %(answered)s::text) end
  from sessions, generate_series(1, %(seeded)s::integer) as ordinal
  where sessions.conversation = any(%(conversations)s::text[])
"""


def seed_conversations(database_url: str, senders: Sequence[str]) -> None:
    """Give each of these senders of HTTP a conversation with ``SEEDED`` messages."""
    values = {
        "senders": list(senders),
        "conversations": [f"http:default:{sender}" for sender in senders],
        "seeded": SEEDED,
        "said": _SAID,
        "answered": _ANSWERED,
    }
    with psycopg.connect(database_url) as connection:
        for statement in (_CONVERSATIONS, _SESSIONS, _MESSAGES):
            connection.execute(statement.encode(), values)
