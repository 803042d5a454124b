"""What may be done with a tool call whose run was interrupted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from shared.domain.chat import Message, ToolResult
from shared.domain.effect import Verdict
from shared.domain.run import StoredEffect

Decision = Literal["run", "reuse", "happened", "in_doubt", "wait"]


@dataclass(frozen=True, slots=True)
class InDoubt:
    """A call of which nobody can say whether it happened."""

    tool: str
    call_id: str

    def for_model(self) -> ToolResult:
        """What the model reads in place of a result."""
        return {
            "tool_use_id": self.call_id,
            "is_error": True,
            "content": (
                f"Error: in doubt. The process was interrupted while '{self.tool}' ran; it may or may not have "
                "happened, and was not repeated. Check before you do it again."
            ),
        }

    def for_person(self) -> str:
        """What the person reads beside the reply."""
        return (
            f"I was interrupted while using '{self.tool}': it may or may not have happened. "
            "I did not repeat it by myself."
        )


def after_interruption(effect: StoredEffect | None, verdict: Verdict | None, *, there: str | None) -> Decision:
    """Decide from the stored intent (none: nothing but reading was begun) and, for tools that prove themselves, their
    verdict. ``there`` is the class of the tool that the heir has; ``None`` where it has none of that name.

    ``run`` is for a tool of the stored class only; the heir's may be another by now, and then is not run.
    """
    if effect is None:
        return "run"
    if effect.state != "intended":
        return "reuse"
    if "open" in ((effect.result or {}).get("said") or {}):
        return "wait"
    match verdict, effect.effect:
        case "done", _:
            return "happened"
        case ("not_done", _) | (_, "read" | "local"):
            return "run"
        case _, "idempotent" if there == "idempotent":
            return "run"
        case _:
            return "in_doubt"


def doubts(said: Sequence[Message]) -> list[InDoubt]:
    """The calls that earlier attempts of a run left in doubt, as its own messages show: the person is told again."""
    found = []
    asked: dict[str, str] = {}
    for message in said:
        if message["role"] == "assistant":
            asked = {call["id"]: call["name"] for call in message.get("tool_calls", [])}
        elif message["role"] == "tool_results":
            for result in message["results"]:
                doubt = InDoubt(asked.get(result["tool_use_id"], ""), result["tool_use_id"])
                if result["content"].startswith(doubt.for_model()["content"]):
                    found.append(doubt)
    return found


def happened(effect: StoredEffect) -> ToolResult:
    """The result of a call that its proof shows to have happened."""
    return {
        "tool_use_id": effect.call_id,
        "content": f"Done: '{effect.tool}' was interrupted, but its change is in place.",
    }
