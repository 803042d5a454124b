"""Valid values for tests: name what matters, the rest is made up."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from shared.domain.chat import AssistantMessage, ToolCall, ToolResultsMessage, UserMessage
from shared.domain.money import Rates, Usage
from shared.domain.run import (
    Address,
    AskedApproval,
    Claim,
    Ending,
    IdempotencyKey,
    NewRun,
    Reservation,
    Route,
    RunState,
    Session,
    Settlement,
    Waiting,
    Write,
)
from shared.ids import new_id
from shared.messages.run_events import terminal_id
from shared.ports.fleet import Identity

CONVERSATION = "http:key:anna"
CHAT = "telegram:1"
ROUTE = Route("primary", Decimal("0.75"), "USD")
ROUTES: Mapping[str, Route] = {"*": ROUTE}
RATES = Rates(Decimal(3), Decimal(15), Decimal("0.30"), Decimal("3.75"))
NOON = datetime(2026, 5, 21, 12, 0, tzinfo=UTC)


def identity(**fields: Any) -> Identity:
    """A worker's process."""
    whole = Identity(
        id=new_id(),
        service="agent_worker",
        host="here",
        boot_id="boot-1",
        pid=4711,
        pid_started="100",
        version="0.1.0",
    )
    return replace(whole, **fields)


def address(conversation: str = CONVERSATION, **fields: Any) -> Address:
    """Where a message belongs."""
    return replace(Address(conversation, "http", "key", "anna"), **fields)


def new_run(text: str = "hello", *, conversation: str = CONVERSATION, **fields: Any) -> NewRun:
    """A message that is about to be accepted."""
    return replace(NewRun(id=new_id(), address=address(conversation), text=text), **fields)


def chat_message(text: str = "hello", **fields: Any) -> NewRun:
    """A message of a channel that is carried: what is said to its people goes out by itself."""
    whole = NewRun(id=new_id(), address=Address(CHAT, "telegram", "person:1", "anna"), text=text, source="telegram")
    return replace(whole, **fields)


def key(name: str = "k1", body: bytes = b"body", *, lives: timedelta = timedelta(hours=24)) -> IdempotencyKey:
    """An idempotency key of one API key."""
    return IdempotencyKey("key:/api/v1/chat", name, body, lives)


def call(name: str = "read", id: str = "c1", **arguments: Any) -> ToolCall:
    """A tool call as a model asks for it."""
    return {"id": id, "name": name, "arguments": arguments}


def user(text: str = "hello") -> UserMessage:
    """A stored user row."""
    return {"role": "user", "content": text, "received_at": "2026-05-21T21:33:00+00:00"}


def said(text: str = "", *calls: ToolCall) -> AssistantMessage:
    """A stored answer."""
    message: AssistantMessage = {"role": "assistant", "text": text}
    if calls:
        message["tool_calls"] = list(calls)
    return message


def results(*pairs: tuple[str, str]) -> ToolResultsMessage:
    """Stored results: pairs of call id and content."""
    return {"role": "tool_results", "results": [{"tool_use_id": id, "content": content} for id, content in pairs]}


def settlement(claim: Claim, call_id: UUID | None = None, **fields: Any) -> Settlement:
    """A call of a claimed run, as it was billed: 100 tokens in, 10 out."""
    usage = Usage(input=100, output=10)
    whole = Settlement(
        call_id=call_id or claim.call_id,
        run=claim.run,
        conversation=claim.conversation,
        session=claim.session.id,
        principal=claim.principal,
        call_type="agentic",
        provider="openai",
        model="m1",
        usage=usage,
        rates=(RATES.input, RATES.output, RATES.cache_read, RATES.cache_write),
        cost=RATES.cost(usage),
        currency="USD",
    )
    return replace(whole, **fields)


def reservation() -> Reservation:
    """Money for the next call."""
    return Reservation(new_id(), ROUTE)


def ending(claim: Claim, reply: str = "hi", *, state: RunState = "done", **fields: Any) -> Ending:
    """The end of a claimed run."""
    outcome = {"state": state, "run_id": str(claim.run), "reply": reply}
    return replace(Ending(state, outcome, terminal_id(claim.epoch)), **fields)


def asked(call_index: int = 0, **fields: Any) -> AskedApproval:
    """A call that a person is asked about."""
    return replace(AskedApproval(new_id(), call_index, "exec", "ab" * 32, "May I run 'ls'?"), **fields)


def waiting(*approvals: AskedApproval, **fields: Any) -> Waiting:
    """A run that waits for a person."""
    return replace(Waiting("approval", approvals=approvals or (asked(),)), **fields)


def write(claim: Claim, **fields: Any) -> Write:
    """One transaction of a claimed run."""
    return replace(Write(id=new_id(), run=claim.run), **fields)


def final_write(claim: Claim, reply: str = "hi", **fields: Any) -> Write:
    """Answer and end in one transaction."""
    whole = write(claim, messages=[said(reply)], settle=settlement(claim), ending=ending(claim, reply))
    return replace(whole, **fields)


def session(**fields: Any) -> Session:
    """A session as a claim tells it."""
    whole = Session(
        id=new_id(),
        created_at=NOON,
        last_ordinal=1,
        live_from=1,
        summary=None,
        compaction_count=0,
        context_tokens=0,
        warned=False,
    )
    return replace(whole, **fields)


def bodies(claim: Claim) -> Sequence[Mapping[str, Any]]:
    """The messages that a claim brought, as plain mappings."""
    return [dict(stored.body) for stored in claim.messages]
