"""What a person's message becomes, and what the bridge says by itself."""

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid5

from services.telegram_bridge.rules.people import People
from services.telegram_bridge.rules.place import CHANNEL
from services.telegram_bridge.rules.updates import OtherMessage, TextMessage
from shared.domain.run import Address, IdempotencyKey, NewRun

NOT_TAKEN = "I can only take text messages for now. What you sent has not reached me."
FULL = "Too many of your messages wait to be answered. What you send now does not reach me; please send it again later."
SENT_AGAIN = "I send it again."
DONE_BEFORE = "That was done before."
NO_MORE = "That is no longer possible."

AGAIN = "again:"
KEY_LIVES = timedelta(hours=48)
"""Telegram keeps an update for a day; so long may it come back."""

_SENTENCES = UUID("5d1f9e0c-8a55-4f0e-9d56-0c5a1a3b7e42")


@dataclass(frozen=True, slots=True)
class Manner:
    """How messages are accepted: how long a run may take, how many may wait in one conversation, and where ends are
    posted to, by name."""

    deadline: timedelta
    capacity: int
    webhook: str | None = None


def run_of(id: UUID, message: TextMessage, *, bot: int, people: People, manner: Manner) -> NewRun:
    """The run that answers this message; the same update gives the same run, whoever meets it again."""
    body = f"{message.place.conversation}\n{message.sender}\n{message.text}"
    return NewRun(
        id=id,
        address=Address(
            conversation=message.place.conversation,
            channel=CHANNEL,
            principal=f"person:{CHANNEL}:{message.sender}",
            contact=people.label(message.sender, username=message.username, first_name=message.first_name),
        ),
        text=message.text,
        source="telegram",
        sender=str(message.sender),
        details={"message_id": str(message.message)} if message.message is not None else {},
        idempotency=IdempotencyKey(
            scope=f"{CHANNEL} {bot}",
            key=str(message.update),
            body_hash=hashlib.sha256(body.encode("utf-8", "surrogatepass")).digest(),
            lives=KEY_LIVES,
        ),
        deadline=manner.deadline,
        capacity=manner.capacity,
        webhook=manner.webhook,
    )


def sentence_id(message: OtherMessage, *, bot: int) -> UUID:
    """The id of what is said about this message: one for each update, and one for all parts of an album."""
    part = f"album {message.album}" if message.album is not None else str(message.update)
    return uuid5(_SENTENCES, f"{bot} {message.place.conversation} {part}")


def full_id(message: TextMessage, *, bot: int, minute: int) -> UUID:
    """The id of what is said when no more is taken: once a minute, however many messages come."""
    return uuid5(_SENTENCES, f"{bot} {message.place.conversation} full {minute}")


def again_data(notice: UUID) -> str:
    """What stands behind the button of a notice that offers to send something again."""
    return f"{AGAIN}{notice}"


def notice_of(data: str) -> UUID | None:
    """The notice whose button was pressed; ``None`` for anything else."""
    try:
        return UUID(data.removeprefix(AGAIN)) if data.startswith(AGAIN) else None
    except ValueError:
        return None
