"""Reply bodies in OpenAI's form. Nothing in them but the run decides what they say, so that a repeated request with
the same idempotency key gets the same body."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from shared.domain.run import Question

HOUSE = "lucyd"
"""A name that every agent answers to."""

KNOWN_BEYOND = ("session_id", "notices", "model", "cost", "currency", "turns")
WITHOUT_ANSWER = "the run was cancelled"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a run, in whatever form it is told. ``fault``: why there is no text."""

    run: UUID
    text: str
    tokens: Mapping[str, int]
    beyond: Mapping[str, Any]
    fault: str | None = None

    @property
    def state(self) -> str:
        """As Lucyd calls it: ``done``, ``waiting``, ``failed``, ``cancelled`` or ``running``."""
        return str(self.beyond["state"])


def answer_of(run: UUID, outcome: Mapping[str, Any] | Question | None) -> Answer:
    """The answer in a run's outcome or question; ``None``: there is none yet."""
    own = {"run_id": str(run)}
    if outcome is None:
        return Answer(run, "", {}, {**own, "state": "running"})
    if isinstance(outcome, Question):
        asked = [{"approval_id": str(approval), "tool": tool} for approval, tool in outcome.approvals]
        waits = {"state": "waiting", "session_id": str(outcome.session), "approvals": asked}
        return Answer(run, outcome.text, {}, {**own, **waits})
    state = outcome.get("state")
    beyond = {**own, "state": state if state in ("done", "cancelled") else "failed"}
    beyond |= {name: outcome[name] for name in KNOWN_BEYOND if name in outcome}
    tokens = outcome.get("tokens") or {}
    if state != "done":
        return Answer(run, "", tokens, beyond, fault=str(outcome.get("error") or WITHOUT_ANSWER))
    if outcome.get("silent"):
        beyond["silent"] = True
    return Answer(run, str(outcome.get("reply") or ""), tokens, beyond)


def has_earlier_turns(outcome: Mapping[str, Any] | Question) -> bool:
    """Whether the run may have said something before what it ended with, or asks: all but those of one turn."""
    return isinstance(outcome, Question) or outcome.get("turns") != 1


def slug(agent: str) -> str:
    """The agent's name as the id of a model: small letters, digits and dashes."""
    plain = unicodedata.normalize("NFKD", agent).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-") or HOUSE


def names_agent(model: str, agent: str) -> bool:
    """Whether somebody means this agent."""
    return model.strip().lower() in {agent.lower(), slug(agent), HOUSE}


def model_body(agent: str) -> dict[str, Any]:
    """Body of GET /v1/models/{id}. An agent has no day on which it was made."""
    return {"id": slug(agent), "object": "model", "created": 0, "owned_by": HOUSE}


def seconds_of(run: UUID) -> float:
    """When the run was made, in Unix seconds, as its id tells."""
    return (run.int >> 80) / 1000


def completion_id(run: UUID) -> str:
    """What a chat completion is called."""
    return f"chatcmpl-{run.hex}"


def response_id(run: UUID) -> str:
    """What a response is called."""
    return f"resp_{run.hex}"


def message_id(run: UUID) -> str:
    """What the message in a response is called."""
    return f"msg_{run.hex}"


def completion_body(answer: Answer, model: str) -> dict[str, Any]:
    """Body of POST /v1/chat/completions."""
    message = {"role": "assistant", "content": answer.text, "refusal": None}
    return {
        "id": completion_id(answer.run),
        "object": "chat.completion",
        "created": int(seconds_of(answer.run)),
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": completion_usage(answer.tokens),
        "lucyd": dict(answer.beyond),
    }


def completion_usage(tokens: Mapping[str, int]) -> dict[str, Any]:
    """Tokens in OpenAI's way, which counts what went through a cache as part of the prompt."""
    read, written = tokens.get("cache_read", 0), tokens.get("cache_write", 0)
    prompt, completion = tokens.get("input", 0) + read + written, tokens.get("output", 0)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
    }


def response_body(answer: Answer, model: str, *, previous: UUID | None = None) -> dict[str, Any]:
    """Body of /v1/responses. ``previous`` is only known while it is asked for."""
    status = {"done": "completed", "waiting": "completed", "running": "in_progress"}.get(answer.state, answer.state)
    done = status == "completed"
    return {
        "id": response_id(answer.run),
        "object": "response",
        "created_at": seconds_of(answer.run),
        "status": status,
        "error": None if answer.fault is None else {"code": "server_error", "message": answer.fault},
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": [message_item(answer.run, answer.text)] if done else [],
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "previous_response_id": None if previous is None else response_id(previous),
        "store": True,
        "usage": None if answer.state == "running" else response_usage(answer.tokens),
        "lucyd": dict(answer.beyond),
    }


def message_item(run: UUID, text: str | None) -> dict[str, Any]:
    """The one item of a response's output; ``None``: it is only beginning."""
    return {
        "id": message_id(run),
        "type": "message",
        "role": "assistant",
        "status": "in_progress" if text is None else "completed",
        "content": [] if text is None else [text_part(text)],
    }


def text_part(text: str) -> dict[str, Any]:
    """The one part of that item."""
    return {"type": "output_text", "text": text, "annotations": []}


def response_usage(tokens: Mapping[str, int]) -> dict[str, Any]:
    """The same tokens in the words of responses."""
    usage = completion_usage(tokens)
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": usage["prompt_tokens_details"],
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage["total_tokens"],
    }
