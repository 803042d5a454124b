"""A run's events as the pieces of an OpenAI stream. In that protocol nothing that was sent can be taken back."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from services.gateway.rules.openai_errors import openai_error
from services.gateway.rules.openai_replies import (
    Answer,
    answer_of,
    completion_id,
    completion_usage,
    message_id,
    message_item,
    response_body,
    seconds_of,
    text_part,
)
from shared.domain.run import Question
from shared.messages.run_events import RunEvent, id_order, step_of

Json = dict[str, Any]
Frame = tuple[str | None, Json]
"""The name of an event, where the form has one, and its data."""

GAP = "\n\n"
"""Stands between what is said in one turn and in the next."""

BROKEN_OFF = "this stream is broken off; the run goes on"
"""The gateway is being stopped, or the client's key was revoked."""
QUESTION_ID = "0-2"
TOOL_EVENTS = frozenset({"tool_started", "tool_finished"})


def question_event(run: UUID, question: Question) -> RunEvent:
    """What a run asks, where its own events are not followed."""
    answer = answer_of(run, question)
    return RunEvent(QUESTION_ID, "question", {"text": answer.text, "beyond": answer.beyond})


class Shown:
    """What of a run's words a client has seen, and what it is to see next.

    What is told anew after a failed attempt is not sent twice: as long as the new words are those that were shown,
    nothing is sent; where they part, all of the new words of that turn follow after a gap.
    """

    def __init__(self) -> None:
        self._step: int | None = None
        self._seen = ""
        self._words = ""
        self._last = ""
        self._again = False
        self._any = False

    def word(self, event: RunEvent) -> str:
        """What is sent for a piece of text."""
        step = step_of(event.id)[1]
        self._last = event.id
        if step != self._step:
            self._step, self._seen, self._again = step, "", False
        return self._add(str(event.data["text"]))

    def drop(self, keep: str) -> None:
        """What came after the event ``keep`` is told again."""
        if self._last and id_order(self._last) > id_order(keep):
            self._again, self._words = True, ""

    def rest(self, text: str) -> str:
        """What is sent at the end, when the whole is ``text``: what was not shown of it yet."""
        if self._again:
            self._words = ""
            return self._add(text)
        if not text.strip() or self._seen.strip().endswith(text.strip()):
            return ""
        if self._seen and text.startswith(self._seen):
            return self._add(text[len(self._seen) :])
        self._seen = ""
        return self._add(text)

    def _add(self, text: str) -> str:
        if not self._again:
            gap = GAP if self._any and not self._seen and text else ""
            self._seen += text
            self._any = self._any or bool(text)
            return gap + text
        self._words += text
        if self._seen.startswith(self._words):
            return ""
        said, self._again = self._words, False
        more = said[len(self._seen) :] if said.startswith(self._seen) else GAP + said
        self._seen = said
        return more


class Kept:
    """What of a run's words counts in the end: those of attempts that failed do not.

    Out of a run's events, as they came or as they are stored, comes the same text.
    """

    def __init__(self) -> None:
        self._steps: dict[tuple[int, int], tuple[str, list[str]]] = {}

    def take(self, event: RunEvent) -> None:
        """The next event. What came after the one that a new attempt keeps is told again."""
        match event.type:
            case "delta":
                _, words = self._steps.setdefault(step_of(event.id), (event.id, []))
                words.append(str(event.data["text"]))
            case "attempt" | "retry":
                kept = id_order(str(event.data["keep"]))
                self._steps = {step: told for step, told in self._steps.items() if id_order(told[0]) <= kept}

    def text(self, last: str) -> str:
        """All of it, when the run has ended with the text ``last``, or asks that."""
        shown = Shown()
        words = [shown.word(RunEvent(id, "delta", {"text": "".join(told)})) for id, told in self._steps.values()]
        return "".join([*words, shown.rest(last)])


class Telling(ABC):
    """One stream to one client; ``frames`` of each event in order, until ``is_over``."""

    def __init__(self, run: UUID, model: str, *, with_tools: bool) -> None:
        self._run = run
        self._model = model
        self._with_tools = with_tools
        self._shown = Shown()
        self._questions: list[Mapping[str, Any]] = []
        self.is_over = False

    def frames(self, event: RunEvent) -> list[Frame]:
        """What is sent for an event; often nothing."""
        match event.type:
            case "accepted":
                return list(self._begin())
            case "attempt" | "retry":
                self._shown.drop(str(event.data["keep"]))
            case "delta":
                return self._said(self._shown.word(event))
            case "approval":
                return self._asked(event.data)
            case "question":
                return self.end(Answer(self._run, str(event.data["text"]), {}, event.data["beyond"]))
            case "done" | "failed" | "cancelled" | "merged":
                return self.end(answer_of(self._run, event.data))
            case kind if kind in TOOL_EVENTS and self._with_tools:
                return [self._aside({"event": kind, **event.data})]
        return []

    def end(self, answer: Answer) -> list[Frame]:
        """What is sent when the run has an answer, or will have none."""
        self.is_over = True
        if answer.fault is not None:
            return list(self._fail(answer))
        return [*self._said(self._shown.rest(answer.text)), *self._finish(answer)]

    def break_off(self) -> list[Frame]:
        """What is sent when the stream ends before the run does."""
        if self.is_over:
            return []
        self.is_over = True
        return list(self._fail(replace(answer_of(self._run, None), fault=BROKEN_OFF)))

    def _asked(self, data: Mapping[str, Any]) -> list[Frame]:
        self._questions.append(data)
        if data.get("number") != data.get("of"):
            return []
        asked = [{"approval_id": each["approval_id"], "tool": each["tool"]} for each in self._questions]
        beyond = {"run_id": str(self._run), "state": "waiting", "approvals": asked}
        return self.end(Answer(self._run, "\n".join(str(each["text"]) for each in self._questions), {}, beyond))

    def _said(self, text: str) -> list[Frame]:
        return list(self._text(text)) if text else []

    @abstractmethod
    def _begin(self) -> Iterator[Frame]: ...

    @abstractmethod
    def _text(self, text: str) -> Iterator[Frame]: ...

    @abstractmethod
    def _aside(self, beyond: Json) -> Frame: ...

    @abstractmethod
    def _finish(self, answer: Answer) -> Iterator[Frame]: ...

    @abstractmethod
    def _fail(self, answer: Answer) -> Iterator[Frame]: ...


class CompletionTelling(Telling):
    """Chunks of a chat completion; ``with_usage`` adds one with the tokens. The form ends with ``[DONE]``."""

    def __init__(self, run: UUID, model: str, *, with_tools: bool = False, with_usage: bool = False) -> None:
        super().__init__(run, model, with_tools=with_tools)
        self._with_usage = with_usage

    def _chunk(self, delta: Json, finish: str | None = None, **more: Any) -> Frame:
        return None, {**self._head([{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]), **more}

    def _head(self, choices: list[Json]) -> Json:
        head: Json = {
            "id": completion_id(self._run),
            "object": "chat.completion.chunk",
            "created": int(seconds_of(self._run)),
            "model": self._model,
            "choices": choices,
        }
        return {**head, "usage": None} if self._with_usage else head

    def _begin(self) -> Iterator[Frame]:
        beyond = answer_of(self._run, None).beyond
        yield self._chunk({"role": "assistant", "content": ""}, lucyd=dict(beyond))

    def _text(self, text: str) -> Iterator[Frame]:
        yield self._chunk({"content": text})

    def _aside(self, beyond: Json) -> Frame:
        return self._chunk({}, lucyd=beyond)

    def _finish(self, answer: Answer) -> Iterator[Frame]:
        yield self._chunk({}, "stop", lucyd=dict(answer.beyond))
        if self._with_usage:
            yield None, {**self._head([]), "usage": completion_usage(answer.tokens)}

    def _fail(self, answer: Answer) -> Iterator[Frame]:
        code = "run_" + answer.state if answer.state != "running" else "broken_off"
        yield None, openai_error(answer.fault or "", 500, code=code, **answer.beyond)


class ResponseTelling(Telling):
    """Typed events of a response, numbered from 0. Its last ones tell the text that counts, as a response that is
    fetched does, and so without what an attempt has said that failed."""

    def __init__(self, run: UUID, model: str, *, with_tools: bool = False, previous: UUID | None = None) -> None:
        super().__init__(run, model, with_tools=with_tools)
        self._previous = previous
        self._number = 0
        self._kept = Kept()
        self._is_open = False

    def frames(self, event: RunEvent) -> list[Frame]:
        """See ``Telling.frames``."""
        self._kept.take(event)
        return super().frames(event)

    def _event(self, kind: str, **data: Any) -> Frame:
        event = {"type": kind, "sequence_number": self._number, **data}
        self._number += 1
        return kind, event

    def _whole(self, answer: Answer) -> Json:
        return response_body(answer, self._model, previous=self._previous)

    def _begin(self) -> Iterator[Frame]:
        response = self._whole(answer_of(self._run, None))
        yield self._event("response.created", response=response)
        yield self._event("response.in_progress", response=response)

    def _text(self, text: str) -> Iterator[Frame]:
        yield from self._opened()
        yield self._event("response.output_text.delta", **self._place(), delta=text, logprobs=[])

    def _opened(self) -> Iterator[Frame]:
        if self._is_open:
            return
        self._is_open = True
        item = message_item(self._run, None)
        yield self._event("response.output_item.added", output_index=0, item=item)
        yield self._event("response.content_part.added", **self._place(), part=text_part(""))

    def _place(self) -> Json:
        return {"item_id": message_id(self._run), "output_index": 0, "content_index": 0}

    def _aside(self, beyond: Json) -> Frame:
        return self._event(f"lucyd.{beyond['event']}", lucyd=beyond)

    def _finish(self, answer: Answer) -> Iterator[Frame]:
        yield from self._opened()
        text = self._kept.text(answer.text)
        yield self._event("response.output_text.done", **self._place(), text=text, logprobs=[])
        yield self._event("response.content_part.done", **self._place(), part=text_part(text))
        yield self._event("response.output_item.done", output_index=0, item=message_item(self._run, text))
        yield self._event("response.completed", response=self._whole(replace(answer, text=text)))

    def _fail(self, answer: Answer) -> Iterator[Frame]:
        if answer.state == "running":
            yield self._event("error", code="broken_off", message=answer.fault, param=None, lucyd=dict(answer.beyond))
        else:
            yield self._event("response.failed", response={**self._whole(answer), "status": "failed"})
