"""The story of a run in plain sentences, each with the time since the message was accepted."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cli.rules.amounts import count, duration, money, number, whole
from cli.rules.clean_text import one_line
from cli.rules.moments import local_time
from cli.rules.pieces import Kind, Piece

Entry = Mapping[str, Any]

_ALARMS = frozenset({"worker_fenced", "suspected", "call_open", "webhook_dead", "delivery_failed", "delivery_in_doubt"})


def story_pieces(story: Mapping[str, Any]) -> list[Piece]:
    """Head, one line for each thing that happened, and what it came to."""
    entries: Sequence[Entry] = [each for each in story.get("story") or () if isinstance(each, dict)]
    pieces = [Piece(_head(story), "strong")]
    width = max((len(_after(entry)) for entry in entries), default=0)
    pieces += [Piece(f"{_after(entry):>{width}}  {_sentence(entry)}\n", _kind(entry)) for entry in entries]
    return [*pieces, Piece(_account(story), "reply")]


def _head(story: Mapping[str, Any]) -> str:
    seconds = number((story.get("times") or {}).get("total_seconds"))
    state = one_line(story.get("state", "?"), 12)
    how = f"{state} after" if story.get("finished_at") else f"{state}, accepted"
    ago = "" if story.get("finished_at") else " ago"
    place = f"{one_line(story.get('conversation', '?'), 60)}, number {whole(story.get('ordinal'))}"
    run = one_line(story.get("run_id", "?"))
    return f"Run {run}: {how} {duration(float(seconds))}{ago}\n{place}, {local_time(story.get('accepted_at'))}\n\n"


def _after(entry: Entry) -> str:
    seconds = float(number(entry.get("after_seconds")))
    return f"+{duration(seconds)}" if seconds >= 0 else f"-{duration(-seconds)}"


def _kind(entry: Entry) -> Kind:
    if entry.get("what") in _ALARMS or entry.get("state") in {"in_doubt", "dead", "failed"}:
        return "warning"
    return "reply"


def _sentence(entry: Entry) -> str:
    telling = _TELLINGS.get(str(entry.get("what")))
    return telling(entry) if telling else _unknown(entry)


def _unknown(entry: Entry) -> str:
    """What a newer gateway tells."""
    told = one_line(entry.get("what", "?"), 40).replace("_", " ")
    facts = [f"{name} {one_line(value, 60)}" for name, value in entry.items() if name not in _FRAME]
    return f"{told[:1].upper()}{told[1:]}{': ' + ', '.join(facts) if facts else ''}."


_FRAME = frozenset({"what", "at", "after_seconds"})


def _worker(entry: Entry) -> str:
    """Ids begin with the time, so their ends tell workers apart."""
    worker = one_line(entry.get("worker") or "?")
    return f"worker …{worker[-8:]}"


def _word(entry: Entry, name: str, default: str = "?") -> str:
    return one_line(entry.get(name) or default, 200)


def _accepted(entry: Entry) -> str:
    told = f"Accepted from {_word(entry, 'source')}"
    if entry.get("when_busy") not in {None, "queue"}:
        told += f" ({_word(entry, 'when_busy')})"
    if entry.get("retry_of"):
        told += f", in place of the dead run {_word(entry, 'retry_of')}"
    if entry.get("idempotency_scope"):
        told += ", with an idempotency key"
    return f"{told}."


def _merged(entry: Entry) -> str:
    return (
        f"Message number {whole(entry.get('ordinal'))} came in, and is answered with this one: {_word(entry, 'run')}."
    )


def _claimed(entry: Entry) -> str:
    told = (
        f"{_worker(entry)} took it in hand: attempt {whole(entry.get('attempt'))}, epoch {whole(entry.get('epoch'))}."
    )
    return told[:1].upper() + told[1:]


def _waiting(entry: Entry) -> str:
    reason = _word(entry, "reason", "something")
    seconds = f" for {duration(float(number(entry['seconds'])))}" if entry.get("seconds") is not None else ""
    return f"It waits{seconds}: {reason}."


def _fenced(entry: Entry) -> str:
    where = f" (pid {whole(entry.get('pid'))} on {_word(entry, 'host')})"
    return f"Its {_worker(entry)}{where} was counted as dead while it had this in hand."


def _suspected(entry: Entry) -> str:
    return f"Its {_worker(entry)} died with it: this run is under suspicion, level {whole(entry.get('level'))} of 4."


def _tool(entry: Entry) -> str:
    return f"Tool {_word(entry, 'tool')} ({_word(entry, 'class')}) began, in step {whole(entry.get('step'))}."


def _tool_ended(entry: Entry) -> str:
    if entry.get("state") == "in_doubt":
        return f"Tool {_word(entry, 'tool')}: nobody can say whether it happened. It was not repeated."
    return f"Tool {_word(entry, 'tool')} ended."


def _approval(entry: Entry) -> str:
    by = f" by {_word(entry, 'decided_by')}" if entry.get("decided_by") else ""
    return f"Asked about {_word(entry, 'tool')}: {_word(entry, 'state')}{by}."


def _model(entry: Entry) -> str:
    took = f" in {duration(float(number(entry['took_seconds'])))}" if entry.get("took_seconds") is not None else ""
    read = sum(whole(entry.get(f"{kind}_tokens")) for kind in ("input", "cache_read", "cache_write"))
    tokens = f"{count(read)} tokens in, {count(entry.get('output_tokens'))} out"
    price = money(entry.get("cost"), entry.get("currency"))
    if entry.get("estimated"):
        return f"A call of {_word(entry, 'model')} was booked as a guess: {price}."
    return f"{_word(entry, 'model')} answered{took}: {tokens}, {price}."


def _call_open(entry: Entry) -> str:
    most = money(entry.get("worst_case"), entry.get("currency"))
    return f"{_word(entry, 'model')} was asked, and that call is not booked yet: {most} at most."


def _ended(entry: Entry) -> str:
    told = f"Ended: {_word(entry, 'state')}"
    if entry.get("merged_into"):
        told += f", answered with {_word(entry, 'merged_into')}"
    if entry.get("silent"):
        told += ", without a reply by choice"
    if entry.get("error"):
        told += f". {one_line(entry['error'], 500).rstrip('.')}"
    return f"{told}."


def _out(name: str, where: str) -> Callable[[Entry], str]:
    def tell(entry: Entry) -> str:
        told = f"A {name} to {_word(entry, where)} was put in: {_word(entry, 'state').replace('_', ' ')}"
        tries = whole(entry.get("attempts"))
        if tries:
            told += f", {tries} {'try' if tries == 1 else 'tries'}"
        if entry.get("error"):
            told += f"; {one_line(entry['error'], 300).rstrip('.')}"
        return f"{told}."

    return tell


def _about(said: str) -> Callable[[Entry], str]:
    return lambda _: said


_TELLINGS: Mapping[str, Callable[[Entry], str]] = {
    "accepted": _accepted,
    "merged_into": lambda entry: f"It is answered together with an earlier message: {_word(entry, 'run')}.",
    "merged": _merged,
    "session_opened": _about("A new session began with it."),
    "claimed": _claimed,
    "handed_back": lambda entry: (
        f"Its {_worker(entry)} was being stopped and handed it back; that attempt does not count."
    ),
    "waiting": _waiting,
    "answered": lambda entry: "It got its answer and may go on.",
    "cancel_asked": _about("Somebody asked to cancel it."),
    "worker_fenced": _fenced,
    "suspected": _suspected,
    "child_spawned": lambda entry: f"It gave a task to a sub-agent: {_word(entry, 'child')}.",
    "tool": _tool,
    "tool_ended": _tool_ended,
    "approval_asked": lambda entry: f"It asked whether it may use {_word(entry, 'tool')}.",
    "approval_decided": _approval,
    "model": _model,
    "call_open": _call_open,
    "step_stored": lambda entry: f"Step {whole(entry.get('step'))} was stored.",
    "ended": _ended,
    "published": _about("Its end was told to everybody who waits."),
    "delivery": _out("message", "channel"),
    "delivery_sent": lambda entry: f"{_word(entry, 'channel')} has part {whole(entry.get('part'))}.",
    "webhook": _out("webhook", "target"),
    "webhook_sent": lambda entry: f"The receiver of {_word(entry, 'target')} has its webhook.",
    "webhook_dead": lambda entry: f"Its webhook was given up: {_word(entry, 'reason').rstrip('.')}.",
    "webhook_revived": _about("An operator had its webhook sent again."),
    "delivery_revived": _about("An operator had its message sent again."),
    "dismissed": _about("An operator has looked at it."),
}


def _account(story: Mapping[str, Any]) -> str:
    times: Mapping[str, Any] = story.get("times") or {}
    named = (
        ("for_a_worker_seconds", "until a worker had it"),
        ("in_model_seconds", "in the model"),
        ("in_tools_seconds", "in tools"),
        ("waiting_seconds", "waiting"),
    )
    spans = [f"{duration(float(number(times[key])))} {what}" for key, what in named if number(times.get(key)) > 0]
    lines = [f"Of {duration(float(number(times.get('total_seconds'))))}: {', '.join(spans)}."] if spans else []
    lines += [_cost(each) for each in story.get("costs") or () if isinstance(each, dict)]
    return "".join(f"\n{line}" for line in lines) + "\n" if lines else ""


def _cost(sums: Mapping[str, Any]) -> str:
    calls = whole(sums.get("calls"))
    told = f"It cost {money(sums.get('cost'), sums.get('currency'))} in {calls} {'call' if calls == 1 else 'calls'}"
    doubts = [f"{whole(sums[name])} {what}" for name, what in _DOUBTS if whole(sums.get(name))]
    return f"{told}{' (' + ', '.join(doubts) + ')' if doubts else ''}."


_DOUBTS = (("estimated", "booked as a guess"), ("unsettled", "not booked yet"))
