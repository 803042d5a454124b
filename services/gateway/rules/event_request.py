"""Messages of machines and of bridges: notices, events, what came over a channel; checked before anything is stored."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import orjson
from pydantic import Field

from services.gateway.rules.attachments import Attachments
from services.gateway.rules.chat_request import (
    Filled,
    Name,
    Sender,
    SpokenBody,
    Tier,
    address_of,
    storable,
)
from services.gateway.rules.incoming import Incoming
from services.gateway.rules.request_body import RequestBody, read_as
from shared.domain.api_key import ApiKey
from shared.domain.run import Address, Source
from shared.errors import BadInput

MACHINE = "[AUTOMATED SYSTEM MESSAGE]"
"""What the agent reads first when nobody wrote the message."""

OPERATIONAL = "operational"
"""The tier of what no person has written, as in the original."""

DATA_BYTES = 65_536
DATA_DEPTH = 32

SYSTEM_SENDERS = ("maintenance", "automation", "error")
ACTION_SENDERS = ("self", "other")


class NoticeBody(RequestBody):
    """Something that happened. It goes to the agent, and what is known of it back to the webhook."""

    message: Filled = Field(description="What happened.")
    source: Name | None = Field(None, description="Where it comes from; the agent reads `[source: ...]`.")
    ref: Name | None = Field(None, description="What it is about; the agent reads `[ref: ...]`.")
    data: Any = Field(None, description=f"Given back in `notify_meta`: JSON of at most {DATA_BYTES} bytes.")
    tier: Tier | None = Field(None, description=f"Which workspace files are shown; `{OPERATIONAL}` when left out.")

    says: ClassVar[Mapping[str, str]] = {
        "message": '"message" field is required',
        "tier": '"tier" must be the name of a context tier',
    }


class NotifyBody(NoticeBody):
    """A notice for the conversation of a sender."""

    sender: Sender | None = Field(None, description="Whose conversation it joins; `default` when left out.")
    attachments: Attachments | None = Field(None, description="Files that come with it.")


class SystemEventBody(NoticeBody):
    """Something that the house tells the agent."""

    sender: Literal["maintenance", "automation", "error"] = Field("automation", description="What kind of event it is.")


class AgentActionBody(NoticeBody):
    """Something that an agent did, this one or another."""

    sender: Literal["self", "other"] = Field("self", description="Which agent.")


class InboundBody(SpokenBody):
    """What a person wrote on a channel whose bridge speaks to this API."""


class UnknownSender(BadInput):
    """The sender is none of those that may write here."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__(f'"sender" must be one of {", ".join(allowed)}')
        self.allowed = allowed


def read_notify(body: object, *, key: ApiKey, primary: str = "") -> Incoming:
    """A notice: it joins the conversation of the sender that it names, else that of the operator's ``primary`` sender.

    Raises ``BadInput``.
    """
    asked = read_as(NotifyBody, body)
    sender = asked.sender or (primary if key.is_operator else "") or "default"
    address = address_of("http", sender, key=key)
    return replace(_notice(asked, sender, address), files=asked.attachments or ())


def read_system_event(body: object, *, key: ApiKey) -> Incoming:
    """An event of the house: the operator's stand in ``system:<sender>``. Raises ``BadInput``."""
    asked = read_as(SystemEventBody, _of_one_of(SYSTEM_SENDERS, body))
    return _notice(asked, asked.sender, _machine_address("system", asked.sender, key))


def read_agent_action(body: object, *, key: ApiKey) -> Incoming:
    """What an agent did: the operator's stand in ``system:agent-<sender>``. Raises ``BadInput``."""
    asked = read_as(AgentActionBody, _of_one_of(ACTION_SENDERS, body))
    return _notice(asked, asked.sender, _machine_address("agent", asked.sender, key))


def read_inbound(body: object, *, source: Source, person: str, key: ApiKey) -> Incoming:
    """What ``person`` wrote. All channels lead to that person's one conversation of this key. Raises ``BadInput``."""
    asked = read_as(InboundBody, body)
    address = address_of("http", person, key=key)
    return Incoming(asked.text(), person, source, asked.tier or "full", address, files=asked.attachments or ())


def _of_one_of(allowed: tuple[str, ...], body: object) -> object:
    if isinstance(body, dict) and "sender" in body and body["sender"] not in allowed:
        raise UnknownSender(allowed)
    return body


def _machine_address(talker: Literal["system", "agent"], sender: str, key: ApiKey) -> Address:
    """Machines have no person's conversation; those of other keys stay within that key's own."""
    label = sender if talker == "system" else f"agent-{sender}"
    if key.is_operator:
        return Address(f"system:{label}", "system", key.principal, f"system-{label}")
    return Address(f"http:{key.name}:system:{label}", "http", key.principal, f"system-{label}")


def _notice(asked: NoticeBody, sender: str, address: Address) -> Incoming:
    labels = [MACHINE]
    labels += [f"[{name}: {value}]" for name, value in (("source", asked.source), ("ref", asked.ref)) if value]
    given = {"source": asked.source, "ref": asked.ref, "data": _bounded(asked.data)}
    meta = {name: value for name, value in given.items() if value is not None}
    text = storable(f"{' '.join(labels)}\n{asked.message}")
    return Incoming(text, sender, "system", asked.tier or OPERATIONAL, address, {"notify_meta": meta} if meta else {})


def _bounded(data: Any) -> Any:
    """The same, if it is neither too deep nor too long."""
    level, depth = [data], 0
    while level:
        depth += 1
        if depth > DATA_DEPTH:
            raise BadInput(f'"data" is nested deeper than {DATA_DEPTH} levels')
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
    try:
        size = len(orjson.dumps(data))
    except TypeError as fault:
        raise BadInput('"data" has a number that is too long') from fault
    if size > DATA_BYTES:
        raise BadInput(f'"data" has more than {DATA_BYTES} bytes')
    return data
