"""Faults that are planted in the product to see the checker turn red: how each is put in, and how it is provoked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psycopg

from tests.chaos.plan import SENDERS


@dataclass(frozen=True, slots=True)
class Edit:
    """Text to replace in the database's newest function of this name, and in all older ones that have it."""

    function: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Aim:
    """A fault, and the boundaries at which runs are held for it."""

    fault: str
    held: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plant:
    """``edits`` in the database or a port of the same name (``planted_ports``); ``rules`` of which one must see it."""

    says: str
    aims: Sequence[Aim]
    rules: tuple[str, ...]
    edits: Sequence[Edit] = ()
    kinds: tuple[str, ...] = ("echo", "talk", "act", "file")
    seconds: float = 14.0
    in_flight: int = 14
    senders: int = SENDERS


LOCKED = "select * into v_conversation from conversations where key = p_conversation for no key update;"
UNLOCKED = "select * into v_conversation from conversations where key = p_conversation; perform pg_sleep(0.1);"

PLANTS: Mapping[str, Plant] = {
    "claim-unlocked": Plant(
        "a claim does not lock the conversation's row",
        [Aim("wake twice", ("claiming",))],
        ("none_crashed", "history_linear", "asked_once", "claims_explained"),
        edits=[Edit("lucyd_claim", LOCKED, UNLOCKED)],
    ),
    "store-unlocked": Plant(
        "a step does not lock the conversation's row",
        [Aim("late write", ("storing answer", "storing results", "finishing"))],
        ("history_linear", "calls_answered", "asked_once", "one_end", "answered_alike", "none_crashed"),
        edits=[
            Edit("lucyd_store", LOCKED, UNLOCKED.replace("0.1", "case when p_write ? 'settle' then 2.5 else 0 end"))
        ],
        seconds=24.0,
    ),
    "epoch-unchecked": Plant(
        "a step is stored whatever its epoch",
        [Aim("late write", ("storing answer", "storing results", "finishing"))],
        (
            "history_linear",
            "calls_answered",
            "one_end",
            "answered_alike",
            "none_crashed",
            "streams_whole",
            "steps_kept",
        ),
        edits=[
            Edit(
                "lucyd_store",
                "v_held := v_conversation.epoch = p_epoch and v_conversation.owner is not distinct from p_worker"
                " and v_run.state = 'running';",
                "v_held := v_run.state = 'running';",
            )
        ],
    ),
    "never-awake": Plant(
        "nobody looks for runs whose wake-up got lost",
        [Aim("lost wake-ups")],
        ("none_lost", "answered_alike", "none_waits_long"),
        seconds=9.0,
        senders=1000,  # nobody writes again and so wakes a conversation that was forgotten
    ),
    "group-at-the-end": Plant(
        "the group of lucyd:inbound begins at its end",
        [Aim("lost wake-ups")],
        ("inbound_drained",),
    ),
    "ordinal-from-clock": Plant(
        "an ordinal is the time, not the next number",
        [Aim("wake twice")],
        ("ordinals_whole",),
        edits=[Edit("lucyd_accept", "c.last_ordinal + 1", "(extract(epoch from clock_timestamp()) * 1000)::bigint")],
        seconds=8.0,
    ),
    "keep-too-much": Plant(
        "clients are told to keep what was never stored",
        [Aim("kill worker")],
        ("streams_whole", "steps_kept"),
        kinds=("talk",),
    ),
    "keep-too-little": Plant(
        "clients are told to drop what is stored",
        [Aim("kill worker")],
        ("streams_whole", "steps_kept"),
        kinds=("act", "file"),
    ),
    "settle-dropped": Plant(
        "what a call has cost is not booked",
        [Aim("wake twice")],
        ("reservations_settled", "guesses_explained"),
        edits=[Edit("lucyd_store", "perform lucyd_settle(p_write -> 'settle');", "null;")],
        seconds=8.0,
    ),
    "told-before-stored": Plant(
        "the end is told before it is committed",
        [Aim("kill worker", ("finishing",))],
        ("one_end", "answered_alike"),
    ),
    "results-late": Plant(
        "the result of a tool is stored with its step, not when it comes",
        [Aim("kill worker")],
        ("doubts_explained",),
        kinds=("pair",),
        seconds=18.0,
    ),
    "no-intent": Plant(
        "tools run without an intent written down before",
        [Aim("kill worker")],
        ("acted_at_most_once",),
        kinds=("act", "pair"),
    ),
}


def plant_edits(database_url: str, edits: Sequence[Edit]) -> None:
    """Replace the text. Raises ``LookupError`` when the newest function does not have it."""
    with psycopg.connect(database_url, autocommit=True) as database:
        for edit in edits:
            found = database.execute(
                "select proname, pg_get_functiondef(oid) from pg_proc where proname ~ %s"
                " order by length(proname), proname",
                (f"^{edit.function}(_[0-9]+)?$",),
            ).fetchall()
            if not found or edit.old not in found[-1][1]:
                raise LookupError(f"{found[-1][0] if found else edit.function} has no text to replace: {edit.old}")
            for _, text in found:
                database.execute(text.replace(edit.old, edit.new).encode())
