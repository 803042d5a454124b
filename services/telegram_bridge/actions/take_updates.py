"""Take what people write to the bot: accepted first, then noted as taken. Nothing is lost, nothing accepted twice."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TypeVar
from uuid import UUID

import structlog

from services.telegram_bridge.ports import BotAccount, Refused, TelegramState, TokenRefused, Unclear
from services.telegram_bridge.rules.backoff import Backoff
from services.telegram_bridge.rules.message import (
    DONE_BEFORE,
    FULL,
    NO_MORE,
    NOT_TAKEN,
    SENT_AGAIN,
    Manner,
    full_id,
    notice_of,
    run_of,
    sentence_id,
)
from services.telegram_bridge.rules.people import People
from services.telegram_bridge.rules.place import Place
from services.telegram_bridge.rules.updates import ButtonPressed, OtherMessage, PassedOver, TextMessage, Update
from shared.actions.accept_message import Door, accept_message
from shared.errors import BadInput, Full, TryLater
from shared.ids import new_id
from shared.ports.bus import WakeUps
from shared.ports.clock import Clock
from shared.ports.deliveries import Deliveries

Done = TypeVar("Done")

log = structlog.get_logger(__name__)

MARK_LIVES = timedelta(hours=36)
"""After a week of silence Telegram counts from anywhere, also from below. It keeps what was not taken for a day, so
beyond that an old mark is of no use and could make it forget what is new."""

QUICK = 0.5
"""Seconds; who says within that time that there is nothing has not waited, and is not asked again without a pause."""

TOKEN_PAUSE = 60.0
"""Seconds; a token that was good in the beginning was taken away, which only an operator can mend."""

ANSWERS = {"again": SENT_AGAIN, "used": DONE_BEFORE, "unknown": NO_MORE}


@dataclass(frozen=True, slots=True)
class Doorway:
    """Where messages go, and who is let in. ``nudge`` says that something is to be sent."""

    bot: int
    account: BotAccount
    inbox: Door
    wake_ups: WakeUps
    deliveries: Deliveries
    people: People
    manner: Manner
    clock: Clock
    backoff: Backoff
    chance: random.Random
    nudge: Callable[[], None]


async def take_updates(door: Doorway, state: TelegramState, *, bridge: UUID, epoch: int, poll: timedelta) -> None:
    """Go on until another bridge leads; what Telegram or Postgres refuse for now is waited for."""
    offset: int | None
    offset, age = await state.mark(door.bot) or (None, timedelta(0))
    noted_at = door.clock.monotonic() - age.total_seconds()
    failures = 0
    while True:
        if door.clock.monotonic() - noted_at > MARK_LIVES.total_seconds():
            offset = None
        asked_at = door.clock.monotonic()
        try:
            updates = await door.account.updates(offset=offset, wait=poll)
        except (TokenRefused, TryLater) as fault:
            failures += 1
            await _pause(door, fault, failures, "telegram_not_reached")
            continue
        failures = 0
        if not updates:
            if door.clock.monotonic() - asked_at < QUICK:
                await door.clock.sleep(QUICK)
            continue
        for update in updates:
            await _insist(door, partial(take_update, door, update))
        offset = updates[-1].update + 1
        if not await _insist(door, partial(state.remember, door.bot, offset, bridge=bridge, epoch=epoch)):
            return
        noted_at = door.clock.monotonic()


async def take_update(door: Doorway, update: Update) -> None:
    """Take one update; taking it again changes nothing. Raises ``TryLater`` when it could not be taken now."""
    match update:
        case PassedOver():
            log.info("update_passed_over", update=update.update, why=update.why)
        case _ if not door.people.may_write(update.sender):
            log.info("sender_refused", sender=update.sender)
        case TextMessage():
            await _accept(door, update)
        case OtherMessage():
            await _decline(door, update)
        case ButtonPressed():
            await _send_again(door, update)


async def _accept(door: Doorway, message: TextMessage) -> None:
    run = run_of(new_id(), message, bot=door.bot, people=door.people, manner=door.manner)
    try:
        accepted = await accept_message(run, inbox=door.inbox, wake_ups=door.wake_ups)
    except Full as fault:
        if fault.of_all:
            raise  # nobody's fault in particular: Telegram keeps it, with all that come after it
        await _turn_away(door, message, fault)
    except BadInput as fault:
        # Waiting would hold up everybody behind it, and no repetition makes it good.
        log.error("update_refused", update=message.update, reason=str(fault))  # noqa: TRY400 - it is one sentence
    else:
        log.info("message_accepted", run=str(accepted.run), update=message.update, new=accepted.created)


async def _turn_away(door: Doorway, message: TextMessage, fault: Full) -> None:
    """Waiting would hold up everybody for one who writes faster than is answered; that one is told, once a minute."""
    log.warning("message_turned_away", update=message.update, sender=message.sender, reason=str(fault))
    notice = full_id(message, bot=door.bot, minute=int(door.clock.now().timestamp() // 60))
    if await door.deliveries.notice(notice, message.place.conversation, text=FULL):
        door.nudge()


async def _decline(door: Doorway, message: OtherMessage) -> None:
    log.info("message_not_taken", update=message.update, kind=message.kind)
    if await door.deliveries.notice(sentence_id(message, bot=door.bot), message.place.conversation, text=NOT_TAKEN):
        door.nudge()


async def _send_again(door: Doorway, pressed: ButtonPressed) -> None:
    notice = notice_of(pressed.data)
    place = Place(pressed.chat).conversation
    answer = await door.deliveries.again(notice, place=place) if notice is not None else "unknown"
    log.info("button_pressed", update=pressed.update, answer=answer)
    if answer == "again":
        door.nudge()
    try:
        await door.account.answer_press(pressed.press, text=ANSWERS[answer])
    except (Refused, Unclear, TokenRefused, TryLater) as fault:
        log.info("press_not_answered", reason=str(fault))  # it only takes the button's spinning away


async def _insist(door: Doorway, act: Callable[[], Awaitable[Done]]) -> Done:
    """Do it as often as it takes: nothing may be noted as taken before it was."""
    failures = 0
    while True:
        try:
            return await act()
        except TryLater as fault:
            failures += 1
            await _pause(door, fault, failures, "update_put_off")


async def _pause(door: Doorway, fault: Exception, failures: int, event: str) -> None:
    asked = TOKEN_PAUSE if isinstance(fault, TokenRefused) else getattr(fault, "after", 0.0)
    pause = door.backoff.pause(failures, chance=door.chance.random(), asked=asked)
    log.warning(event, reason=str(fault), again_in=round(pause.total_seconds(), 1))
    await door.clock.sleep(pause.total_seconds())
