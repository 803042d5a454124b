"""What clients see: in order, without gaps, with one end."""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from shared.messages.run_events import ACCEPTED_ID, STEP, TERMINAL_EVENTS, id_order
from tests.chaos.history import History, RunRow, Told
from tests.chaos.violation import Violation

SWEPT_AFTER = 0.9
"""Seconds after which a sweep tells the end of a run for its worker."""

UNSAID_WITHIN = 2.0
"""Seconds between the acceptance of a run and the death of the gateway that had no time to announce it."""

FOREVER = float("inf")


def ids_increase(history: History) -> Iterator[Violation]:
    """Ids are strictly increasing, in the stream and over all connections of a client."""
    for name, events in _all(history):
        for before, after in pairwise(events):
            if id_order(before.id) >= id_order(after.id):
                yield Violation(name, f"{after.type} {after.id} came after {before.type} {before.id}")


def one_end(history: History) -> Iterator[Violation]:
    """There is one terminal event, it is the last, and it is the one that Postgres has."""
    runs = {run.id: run for run in history.runs}
    for name, events in _all(history):
        ends = [event for event in events if event.type in TERMINAL_EVENTS]
        if len(ends) != 1 or events[-1] is not ends[0]:
            yield Violation(name, f"{len(ends)} terminal events; it ends with {[event.type for event in events[-3:]]}")
            continue
        run = runs.get(name.partition(" ")[0])
        if run is not None and (ends[0].id != run.terminal or ends[0].data.get("reply", "") != run.reply):
            yield Violation(name, f"its end {ends[0].id} is not that of the table, {run.terminal}")


def streams_there(history: History) -> Iterator[Violation]:
    """Each run that has ended has a stream, for it is younger than the stream's life."""
    for run in history.runs:
        if run.kind == "message" and run.published and not history.streams.get(run.id):
            yield Violation(run.id, "has no stream")


def streams_whole(history: History) -> Iterator[Violation]:
    """What is kept of the pieces is the reply, wherever Redis lost nothing."""
    late = _gapped(history)
    for run in history.runs:
        events = history.streams.get(run.id, ())
        if run.id not in late and run.state == "done" and events and not _is_wiped(history, run):
            yield from _is_whole(run.id, events, may_lack_beginning=_went_unsaid(history, run))
    for follower in history.followers:
        if follower.events and not history.wiped_between(follower.began, follower.ended):
            yield from _is_whole(f"{follower.run} (a client)", follower.events)


def resumed_without_gaps(history: History) -> Iterator[Violation]:
    """A client that came and went was told all that the stream has, and nothing else but what a sweep left out."""
    late = _gapped(history)
    for follower in history.followers:
        stream = history.streams.get(follower.run, ())
        if not follower.events or history.wiped_between(follower.began, FOREVER):
            continue
        swept = follower.run in late
        there, seen = _ids(stream), _ids(follower.events)
        gap, more = sorted(set(there) - set(seen)), sorted(set(seen) - set(there))
        if gap if swept else there != seen:
            yield Violation(follower.run, f"in {follower.connections} connections missed {gap}, had beyond it {more}")


def _ids(events: Sequence[Told]) -> list[str]:
    """Ids but those of text: the table of steps has neighbouring pieces as one; ``steps_kept`` compares the text."""
    return [event.id for event in events if event.id != ACCEPTED_ID and event.type not in {"delta", "thinking"}]


def steps_kept(history: History) -> Iterator[Violation]:
    """What clients are told to keep of each step is what is stored of it.

    A stream that lacks something (``_gapped``) has beginnings of what is stored. It may lack also the ``retry`` that
    makes void what a spoiled call has said: of a run with such a call only clients are asked.
    """
    said: dict[str, list[str]] = {}
    for row in history.messages:
        if row.role == "assistant" and row.text.strip() and not row.dropped:
            said.setdefault(row.run, []).append(row.text.strip())
    late = _gapped(history)
    spoiled = {row.run for row in history.reservations if row.call in history.spoiled}
    for run in history.runs:
        events = history.streams.get(run.id, ())
        if run.state == "done" and events and not _is_wiped(history, run):
            keeps = _keeps_nothing_else if run.id in late else _keeps
            if run.id not in late or run.id not in spoiled:
                yield from keeps(run.id, events, said.get(run.id, []))
    done = {run.id for run in history.runs if run.state == "done"}
    for follower in history.followers:
        if follower.run in done and not history.wiped_between(follower.began, follower.ended):
            yield from _keeps(f"{follower.run} (a client)", follower.events, said.get(follower.run, []))


def _keeps(name: str, events: Sequence[Told], said: Sequence[str]) -> Iterator[Violation]:
    kept = [text.strip() for text in kept_texts(events) if text.strip()]
    if kept != said:
        yield Violation(name, f"clients keep {_shown(kept)}, stored are {_shown(said)}")


def _keeps_nothing_else(name: str, events: Sequence[Told], said: Sequence[str]) -> Iterator[Violation]:
    """What such a stream has of the steps is a beginning of what is stored of them, in their order."""
    kept, stored = [text.strip() for text in kept_texts(events) if text.strip()], iter(said)
    if not all(any(text.startswith(piece) for text in stored) for piece in kept):
        yield Violation(name, f"its stream has {_shown(kept)}, stored are {_shown(said)}")


def _is_wiped(history: History, run: RunRow) -> bool:
    return history.wiped_between(run.accepted_at, FOREVER)


def _gapped(history: History) -> set[str]:
    """Runs whose worker was held up, or gone, before it told what it had stored.

    A sweep told the end, or an heir went on after a step of which the stream has nothing. Clients have what is missing
    from the table of steps; only the stream lacks it.
    """
    ended: dict[str, float] = {}
    gapped: set[str] = set()
    told: set[str] = set()
    for note in history.notes:
        if note.mark == "telling":
            ended[note.run] = note.at
        elif note.mark == "told" and note.run not in told:
            told.add(note.run)
            if note.at - ended.get(note.run, 0.0) > SWEPT_AFTER:
                gapped.add(note.run)
    for run, events in history.streams.items():
        ids = {event.id for event in events} | {ACCEPTED_ID}
        if any(event.type == "attempt" and str(event.data.get("keep", ACCEPTED_ID)) not in ids for event in events):
            gapped.add(run)
    return gapped


def _shown(texts: Sequence[str]) -> str:
    return str([text if len(text) <= 30 else f"{text[:12]}...{text[-12:]}" for text in texts])


def kept_text(events: Sequence[Told]) -> str:
    """The text of the last step, after dropping what each new attempt told clients to drop."""
    return (kept_texts(events) or [""])[-1]


def kept_texts(events: Sequence[Told]) -> list[str]:
    """The text of each step that has one."""
    kept: list[Told] = []
    for event in events:
        if event.type in {"attempt", "retry"}:
            last = id_order(str(event.data.get("keep", "0-1")))
            kept = [told for told in kept if id_order(told.id) <= last]
        kept.append(event)
    pieces = [(id_order(event.id)[1] // STEP, str(event.data["text"])) for event in kept if event.type == "delta"]
    return ["".join(text for _, text in step) for _, step in groupby(pieces, key=lambda piece: piece[0])]


def _went_unsaid(history: History, run: RunRow) -> bool:
    """Whether nobody may have told the stream of its acceptance; clients are told by the gateway all the same.

    The gateway gives Redis 200 ms, and says so when that was too short; or it was killed before, and its client came
    back when a sweep had found the run.
    """
    since = run.accepted_at + history.mono
    return run.id in history.unwoken or any(
        each.fault == "kill gateway" and since - 0.1 <= each.began <= since + UNSAID_WITHIN
        for each in history.disturbances
    )


def _is_whole(name: str, events: Sequence[Told], *, may_lack_beginning: bool = False) -> Iterator[Violation]:
    swept = may_lack_beginning and events[0].type == "attempt" and events[0].data.get("keep") == ACCEPTED_ID
    if events[0].type != "accepted" and not swept:
        yield Violation(name, f"begins with {events[0].type}")
    if events[-1].type == "done":
        text, reply = kept_text(events), str(events[-1].data.get("reply", ""))
        if text.strip() != reply.strip():
            yield Violation(name, f"its pieces say {text[-80:]!r}, its reply {reply[-80:]!r}")


def _all(history: History) -> Iterator[tuple[str, Sequence[Told]]]:
    yield from ((run, events) for run, events in history.streams.items() if events)
    yield from ((f"{seen.run} (a client)", seen.events) for seen in history.followers if seen.events)
