"""Turns the events of a run into text for a person, as they come."""

from collections.abc import Callable, Mapping
from typing import Any

from cli.rules.amounts import duration, number, size, whole
from cli.rules.clean_text import clean, one_line, unhidden
from cli.rules.pieces import Kind, Piece
from cli.rules.run_end import end_of
from shared.messages.run_events import STEP, RunEvent, id_order

_NOTHING = "0-0"
_ENDS = ("!", "?", "…")


class Teller:
    """Tells one run. What was written can't be taken back, so what a second attempt makes void is said to be void.

    ``aloud`` False holds the reply back until it is final, for pipes. ``thinking`` shows thoughts, ``tools`` the tools.
    """

    def __init__(self, *, aloud: bool = True, thinking: bool = False, tools: bool = True) -> None:
        self._aloud = aloud
        self._thinking = thinking
        self._tools = tools
        self._line: str = ""  # what the unfinished line holds: "reply", "thinking", a call's id, or nothing
        self._step: tuple[int, int] = (0, 0)
        self._said = ""  # the reply's text of this step, as far as it was written
        self._shown = id_order(_NOTHING)  # the last text; a tool that ran is not undone by anybody
        self._running: dict[str, str] = {}
        self._noticed: set[str] = set()
        self._held: tuple[str, list[Piece]] = ("", [])  # a notice that may be the reason of the failure that follows

    def tell(self, event: RunEvent) -> list[Piece]:
        """What to write for this event."""
        if event.type == "notice":
            before = self._let_go()
            self._held = (str(event.data.get("text") or ""), self._notice(event))
            return before
        if event.type in {"failed", "cancelled"} and _same(self._held[0], _reason(event.data)):
            self._held = ("", [])
        before = self._let_go()
        telling = self._TELLINGS.get(event.type, Teller._other)
        return [*before, *telling(self, event)]

    def _let_go(self) -> list[Piece]:
        _, pieces = self._held
        self._held = ("", [])
        return pieces

    def break_line(self) -> list[Piece]:
        """What ends an unfinished line; nothing when there is none."""
        if not self._line:
            return self._let_go()
        kind: Kind = self._line if self._line in {"reply", "thinking"} else "aside"  # type: ignore[assignment]
        self._line = ""
        return [Piece("\n", kind), *self._let_go()]

    def _silent(self, event: RunEvent) -> list[Piece]:
        del event
        return []

    def _text(self, event: RunEvent) -> list[Piece]:
        kind: Kind = "reply" if event.type == "delta" else "thinking"
        if not (self._aloud if kind == "reply" else self._thinking):
            return []
        text = clean(str(event.data.get("text", "")))
        if not text:
            return []
        self._shown = order = id_order(event.id)
        step = (order[0], order[1] // STEP)
        pieces = [] if self._line == kind else self.break_line()
        if step != self._step:
            self._step, self._said = step, ""
        if kind == "reply":
            self._said += text
        self._line = "" if text.endswith("\n") else kind
        return [*pieces, Piece(text, kind)]

    def _tool_started(self, event: RunEvent) -> list[Piece]:
        if not self._tools:
            return []
        call = str(event.data.get("call_id"))
        told = f"⚙ {one_line(event.data.get('name'), 40)}"
        arguments = event.data.get("arguments")
        if isinstance(arguments, Mapping) and arguments:
            told += f" {one_line(' '.join(str(value) for value in arguments.values()), 60)}"
        self._running[call] = told
        pieces = self.break_line()
        self._line = call
        return [*pieces, Piece(f"{told} …")]

    def _tool_finished(self, event: RunEvent) -> list[Piece]:
        if not self._tools:
            return []
        call = str(event.data.get("call_id"))
        told = self._running.pop(call, f"⚙ {one_line(event.data.get('name'), 40)}")
        took = duration(float(number(event.data.get("duration_ms"))) / 1000)
        ok = bool(event.data.get("ok"))
        end = f" ok {took}" if ok else f" failed {took}: {one_line(event.data.get('preview', ''))}"
        kind: Kind = "aside" if ok else "warning"
        if self._line == call:
            self._line = ""
            return [Piece(f"{end}\n", kind)]
        return [*self.break_line(), Piece(f"{told} …{end}\n", kind)]

    def _attempt(self, event: RunEvent) -> list[Piece]:
        again = whole(event.data.get("attempt"))
        void = self._void(event.data.get("keep"))
        if again < 2 and not void:
            return []
        return [*self.break_line(), Piece(f"↺ another worker goes on (attempt {again}){void}\n", "warning")]

    def _retry(self, event: RunEvent) -> list[Piece]:
        wait = duration(float(number(event.data.get("wait_seconds"))))
        void = self._void(event.data.get("keep"))
        reason = one_line(event.data.get("reason") or "the model gave no answer", 160).rstrip(".")
        said = f"↺ {reason}; again in {wait}{void}\n"
        return [*self.break_line(), Piece(said, "warning")]

    def _void(self, keep: object) -> str:
        """Forget what came after ``keep``, and say so if any of it was shown."""
        try:
            kept = id_order(str(keep))
        except ValueError:
            kept = id_order(_NOTHING)
        shown, self._shown = self._shown, min(self._shown, kept)
        self._running.clear()
        if shown <= kept:
            return ""
        self._said = ""
        return "; the unfinished part above is void"

    def _notice(self, event: RunEvent) -> list[Piece]:
        return self._note(str(event.data.get("text") or ""), "⚠" if event.type == "in_doubt" else "•")

    def _note(self, text: str, sign: str) -> list[Piece]:
        if not text or text in self._noticed:
            return []
        self._noticed.add(text)
        return [*self.break_line(), Piece(f"{sign} {one_line(text, 500)}\n", "warning")]

    def _approval(self, event: RunEvent) -> list[Piece]:
        """A question, whole: what is cut or hidden would be allowed unseen. A pipe gets it as it is."""
        text = str(event.data.get("text") or "")
        if not text:
            return []
        shown = "? " + unhidden(text).strip().replace("\n", "\n  ") if self._aloud else text.rstrip("\n")
        pieces = [*self.break_line(), Piece(f"{shown}\n", "strong")]
        if is_last_question(event) and (of := whole(event.data.get("of"))) > 1:
            pieces.append(Piece(f"One answer goes for all {of}.\n", "warning"))
        return pieces

    def _other(self, event: RunEvent) -> list[Piece]:
        """What a newer gateway tells, if it has words."""
        return self._note(str(event.data.get("text") or ""), "•")

    def _done(self, event: RunEvent) -> list[Piece]:
        outcome = event.data
        pieces: list[Piece] = []
        reply = str(outcome.get("reply") or "")
        if not outcome.get("silent") and not self._was_said(reply):
            text = clean(reply) if self._aloud else reply
            pieces += [*self.break_line(), Piece(text if text.endswith("\n") else f"{text}\n", "reply")]
        pieces += self.break_line()
        for notice in outcome.get("notices") or ():
            pieces += self._note(str(notice), "•")
        if outcome.get("silent"):
            pieces.append(Piece("(no reply: the agent chose to be silent)\n"))
        return [*pieces, *_files(outcome)]

    def _was_said(self, reply: str) -> bool:
        return " ".join(clean(reply).split()) == " ".join(self._said.split())

    def _failed(self, event: RunEvent) -> list[Piece]:
        pieces = self.break_line()
        for notice in event.data.get("notices") or ():
            if not _same(str(notice), _reason(event.data)):
                pieces += self._note(str(notice), "•")
        return [*pieces, *_files(event.data), Piece(f"{failure_sentence(event)}\n", "error")]

    def _merged(self, event: RunEvent) -> list[Piece]:
        if end_of(event) in {"failed", "cancelled"}:
            return self._failed(event)
        if event.data.get("reply") or event.data.get("silent"):
            return self._done(event)
        return [*self.break_line(), Piece("This message was answered together with one before it.\n")]

    _TELLINGS: Mapping[str, Callable[["Teller", RunEvent], list[Piece]]] = {
        "accepted": _silent,
        "delta": _text,
        "thinking": _text,
        "tool_started": _tool_started,
        "tool_finished": _tool_finished,
        "attempt": _attempt,
        "retry": _retry,
        "approval": _approval,
        "notice": _notice,
        "in_doubt": _notice,
        "done": _done,
        "failed": _failed,
        "cancelled": _failed,
        "merged": _merged,
    }


def _files(outcome: Mapping[str, Any]) -> list[Piece]:
    """Where each file is that came with the reply."""
    given = outcome.get("attachments")
    files = [each for each in given if isinstance(each, Mapping)] if isinstance(given, list) else []
    place = f"/api/v1/runs/{one_line(outcome.get('run_id'), 40)}/attachments"
    return [
        Piece(f"+ {one_line(file.get('filename'), 80)}, {size(file.get('size'))}: GET {place}/{number}\n")
        for number, file in enumerate(files, start=1)
    ]


def is_last_question(event: RunEvent) -> bool:
    """Whether nothing more comes of this run until somebody answers."""
    return event.type == "approval" and whole(event.data.get("number")) >= whole(event.data.get("of"))


def failure_sentence(event: RunEvent) -> str:
    """Why a run ended without a reply."""
    return failure_of(event.data, "The run was cancelled" if end_of(event) == "cancelled" else "The run failed")


def failure_of(outcome: Mapping[str, Any], what: str = "The run failed") -> str:
    """The same, of an outcome alone."""
    reason = _reason(outcome)
    if not reason or reason == "cancelled":
        return f"{what}."
    return f"{what}: {reason}" if reason.endswith(_ENDS) else f"{what}: {reason}."


def _reason(outcome: Mapping[str, Any]) -> str:
    return one_line(outcome.get("error") or outcome.get("error_message") or "", 500).rstrip(".")


def _same(notice: str, reason: str) -> bool:
    return bool(reason) and one_line(notice, 500).rstrip(".") == reason
