"""A bridge over fakes: Telegram by hand, rows in memory."""

import random
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from services.telegram_bridge.actions.deliver import DeliveriesInHand, Postman
from services.telegram_bridge.actions.take_updates import Doorway
from services.telegram_bridge.ports import Bot
from services.telegram_bridge.rules.backoff import Backoff
from services.telegram_bridge.rules.files import FileToSend
from services.telegram_bridge.rules.message import Manner
from services.telegram_bridge.rules.people import People
from services.telegram_bridge.rules.place import Place
from services.telegram_bridge.rules.updates import Button, TextMessage, Update
from shared.adapters.inmemory.blobs import InMemoryBlobs
from shared.adapters.inmemory.bus import InMemoryBus
from shared.adapters.inmemory.clock import ManualClock
from shared.adapters.inmemory.deliveries import InMemoryDeliveries
from shared.adapters.inmemory.fleet import InMemoryFleet
from shared.adapters.inmemory.inbox import InMemoryInbox
from shared.adapters.inmemory.rows import BlobRow
from shared.adapters.inmemory.tables import Tables
from shared.domain.delivery import Reaction
from shared.domain.outgoing_file import OutgoingFile, ShownAs
from shared.ids import new_id
from tests.builders import identity

BOT = 1
BACKOFF = Backoff(timedelta(seconds=1), timedelta(seconds=10), 2.0, 0.0)


class HandPulse:
    """A beat whose age is what a test says."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.fresh_from = 0.0

    @property
    def age(self) -> timedelta:
        return timedelta(0) if self._clock.monotonic() >= self.fresh_from else timedelta(seconds=5)


class HandTelegram:
    """Shows what was sent; meets the faults that a test lists, one for each sending."""

    def __init__(self) -> None:
        self.batches: list[Sequence[Update] | Exception] = []
        self.offsets: list[int | None] = []
        self.sent: list[tuple[Place, str, Button | None]] = []
        self.files: list[tuple[Place, FileToSend]] = []
        self.reactions: list[tuple[Place, Reaction]] = []
        self.faults: list[Exception] = []
        self.answered: list[tuple[str, str]] = []

    async def me(self) -> Bot:
        return Bot(BOT, "lucyd_bot")

    async def updates(self, *, offset: int | None, wait: timedelta) -> Sequence[Update]:
        self.offsets.append(offset)
        batch = self.batches.pop(0)
        if isinstance(batch, Exception):
            raise batch
        return batch

    async def send(self, place: Place, text: str, *, button: Button | None = None) -> str:
        if self.faults:
            raise self.faults.pop(0)
        self.sent.append((place, text, button))
        return str(len(self.sent))

    async def send_file(self, place: Place, file: FileToSend) -> str:
        if self.faults:
            raise self.faults.pop(0)
        self.files.append((place, file))
        return str(len(self.files))

    async def react(self, place: Place, reaction: Reaction) -> None:
        if self.faults:
            raise self.faults.pop(0)
        self.reactions.append((place, reaction))

    async def answer_press(self, press: str, *, text: str) -> None:
        self.answered.append((press, text))
        if self.faults:
            raise self.faults.pop(0)


class HandState:
    """What was noted, by hand."""

    def __init__(self, *, next_update: int | None = None, age: timedelta = timedelta(0), leads: int = 99) -> None:
        self.next_update = next_update
        self.age = age
        self.leads = leads

    async def mark(self, bot: int) -> tuple[int, timedelta] | None:
        return None if self.next_update is None else (self.next_update, self.age)

    async def remember(self, bot: int, next_update: int, *, bridge: UUID, epoch: int) -> bool:
        self.leads -= 1
        if self.leads < 0:
            return False
        self.next_update = next_update
        return True


class BridgeWorld:
    """Everything that the actions need."""

    def __init__(self, people: People | None = None, *, capacity: int = 100) -> None:
        self.clock = ManualClock()
        self.tables = Tables(self.clock)
        self.telegram = HandTelegram()
        self.deliveries = InMemoryDeliveries(self.tables)
        self.fleet = InMemoryFleet(self.tables)
        self.inbox = InMemoryInbox(self.tables)
        self.bus = InMemoryBus(self.clock)
        self.pulse = HandPulse(self.clock)
        chance = random.Random(1)  # noqa: S311 - spreads waits
        self.postman = Postman(
            self.telegram, self.deliveries, self.pulse, self.clock, BACKOFF, chance, InMemoryBlobs(self.tables)
        )
        self.hand = DeliveriesInHand(self.postman)
        self.nudged = 0
        self.door = Doorway(
            bot=BOT,
            account=self.telegram,
            inbox=self.inbox,
            wake_ups=self.bus,
            deliveries=self.deliveries,
            people=people or People(),
            manner=Manner(timedelta(hours=1), capacity),
            clock=self.clock,
            backoff=BACKOFF,
            chance=chance,
            nudge=self._nudge,
        )

    async def bridge(self) -> tuple[UUID, int]:
        """A bridge that leads, and its epoch; those before it are dead."""
        for peer in await self.fleet.peers():
            await self.fleet.fence(peer.identity.id, beat=None, state="fenced")
        me = identity(service="telegram_bridge")
        await self.fleet.register(me)
        epoch = await self.deliveries.lead(me.id)
        assert epoch is not None
        return me.id, epoch

    def due(self, text: str, *, conversation: str = "telegram:7", part: int = 1) -> UUID:
        """Something to be sent."""
        id = new_id()
        self.deliveries.add(id, conversation, ordinal=1, part=part, kind="reply", text=text)
        return id

    def due_file(self, data: bytes | None, *, shown_as: ShownAs = "photo", caption: str = "") -> UUID:
        """A file to be sent; ``None``: its bytes are gone."""
        id, blob = new_id(), new_id()
        if data is not None:
            self.tables.blobs[blob] = BlobRow(blob, new_id(), data)
        file = OutgoingFile(blob, "cat.png", "image/png", len(data or b""), shown_as, caption)
        self.deliveries.add(id, "telegram:7", ordinal=1, part=1, kind="reply", text="", file=file)
        return id

    def due_reaction(self, emoji: str, *, message: str = "12") -> UUID:
        """A reaction to be put below a message."""
        id = new_id()
        reaction = Reaction(message, emoji)
        self.deliveries.add(id, "telegram:7", ordinal=1, part=1, kind="reaction", text="", reaction=reaction)
        return id

    def texts(self) -> list[str]:
        """What was accepted, in its order."""
        return [row.message["text"] for row in self.tables.runs.values()]

    def _nudge(self) -> None:
        self.nudged += 1


def text(update: int, words: str = "hello", *, sender: int = 7, topic: int | None = None) -> TextMessage:
    """What somebody wrote in private."""
    return TextMessage(update, Place(sender, topic), sender, "anna_b", "Anna", words)
