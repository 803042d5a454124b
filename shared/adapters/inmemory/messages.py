"""What an agent tells people, without a Postgres; see ``0021_messages.sql``."""

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from shared.adapters.inmemory.accept import accept
from shared.adapters.inmemory.acts import Doing
from shared.adapters.inmemory.conclude import add_parts, is_carried
from shared.adapters.inmemory.rows import ConversationRow, DeliveryMade, RunRow
from shared.adapters.inmemory.tables import Tables
from shared.domain.delivery import Reaction
from shared.domain.run import Address, NewRun
from shared.errors import Full

TOO_OFTEN = "this run has told people something %s times already, and no more may be"


def messaging(tables: Tables) -> Doing:
    """The act ``message``."""

    def message(context: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        run, name = tables.runs[UUID(context["run"])], arguments["name"]
        told = tables.told_people.setdefault(run.id, [])
        if len(told) >= arguments["most"]:
            return {"error": TOO_OFTEN % len(told)}
        if arguments["place"] is None:
            root = root_of(tables, run)
            channel = tables.conversations[root.conversation].channel
            if not is_carried(channel):
                return {
                    "error": f"nothing was sent: you answer over {channel}, where nobody carries words out before your "
                    "reply is fetched. Say it in your reply"
                }
            add_parts(tables, root, "reply", arguments["parts"])
            told.append(root.conversation)
            return {"text": f"Sent to {name}: it goes out now, before your reply.", "nudge": [channel]}
        place = within_reach(tables, arguments["place"], run.principal, keyless=arguments["keyless"])
        if place is None:
            return {
                "error": f"nothing was sent: {name} has not written to you yet, and only whoever has can be written to"
            }
        id = _id("message of", context)
        try:
            accept(tables, _outbound(id, place, run, arguments))
        except Full:
            return {"error": f"nothing was sent: too much waits to be told to {name} already"}
        for block in arguments.get("blocks") or ():
            tables.blobs[UUID(block["id"])].run = id
        told.append(place.key)
        return {"text": f"Sent to {name}: it goes out in its turn.", "wake": [place.key]}

    return message


def reacting(tables: Tables) -> Doing:
    """The act ``react``."""

    def react(context: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        run, name, emoji = tables.runs[UUID(context["run"])], arguments["name"], arguments["emoji"]
        root, told = root_of(tables, run), tables.told_people.setdefault(run.id, [])
        if len(told) >= arguments["most"]:
            return {"error": TOO_OFTEN % len(told)}
        place = tables.conversations[root.conversation]
        if arguments["place"] is not None:
            found = within_reach(tables, arguments["place"], run.principal, keyless=arguments["keyless"])
            if found is None:
                return {"error": f"no message of {name} is remembered that could be reacted to"}
            place = found
        if not is_carried(place.channel):
            return {"error": f"there are no reactions over {place.channel}"}
        last = _last_message(tables, place.key, arguments["sender"])
        if last is None:
            return {"error": f"no message of {name} is remembered that could be reacted to"}
        body = Reaction(last, emoji).body()
        if place.key == root.conversation:
            add_parts(tables, root, "reaction", [body])
        else:
            row = DeliveryMade(None, place.key, place.channel, place.last_ordinal, 32767, "reaction", body)
            tables.deliveries.append(row)
        told.append(place.key)
        return {"text": f"Reacted with {emoji} to the last message of {name}.", "nudge": [place.channel]}

    return react


def _last_message(tables: Tables, conversation: str, sender: str | None) -> str | None:
    """What the channel calls the last one that somebody wrote there."""
    found = [
        row
        for row in tables.runs.values()
        if row.conversation == conversation and "message_id" in row.message and sender in {None, row.sender}
    ]
    return str(max(found, key=lambda row: row.ordinal).message["message_id"]) if found else None


def root_of(tables: Tables, run: RunRow) -> RunRow:
    """For whom a run works in the end."""
    child = tables.children.get(run.id)
    return tables.runs[child.root] if child is not None else run


def within_reach(tables: Tables, place: str, principal: str, *, keyless: bool) -> ConversationRow | None:
    """The conversation of that key, if a message of this principal may go there."""
    found = tables.conversations.get(place)
    if found is None or found.principal == principal:
        return found
    return found if keyless and not found.principal.startswith("key:") else None


def _outbound(id: UUID, place: ConversationRow, run: RunRow, arguments: Mapping[str, Any]) -> NewRun:
    return NewRun(
        id=id,
        address=Address(place.key, place.channel, place.principal, place.contact),
        text=arguments["text"],
        kind="outbound",
        source="system",
        sender=run.sender,
        details={"attachments": arguments["blocks"]} if arguments.get("blocks") else {},
        deadline=timedelta(seconds=arguments["seconds"]),
        capacity=arguments["capacity"],
    )


def _id(what: str, context: Mapping[str, Any]) -> UUID:
    return UUID(hashlib.md5(f"{what} {context['key']}".encode(), usedforsecurity=False).hexdigest())
