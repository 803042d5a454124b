"""Ask a person before a call runs, where the operator wants that. The run waits without owner or slot."""

from collections.abc import Mapping, Sequence

import structlog

from services.agent_worker.actions.attempt import Attempt, Suspend
from services.agent_worker.rules.tool_arguments import arguments_hash
from shared.domain.chat import ToolCall
from shared.domain.delivery import is_carried, parts
from shared.domain.plain_text import unhidden
from shared.domain.run import AskedApproval, StoredApproval, Waiting
from shared.ids import new_id

log = structlog.get_logger(__name__)

SHOWN = 2000
"""Characters of an argument that a question shows. What it leaves out it says, for it would be allowed unseen."""


def must_ask(attempt: Attempt, calls: Sequence[ToolCall]) -> bool:
    """Whether a person has a say in any of these calls."""
    return any(_is_asked_about(attempt, call) for call in calls)


async def asked_first(attempt: Attempt, calls: Sequence[ToolCall]) -> Mapping[int, str]:
    """The calls that were not allowed, by index, with what the person said.

    Raises ``Suspend`` when somebody is still to be asked. An answer counts for the tool and the arguments it was given
    for, and for nothing else. A no stays one, whatever has become of the tool and of the settings meanwhile.
    """
    answered = {approval.call_index: approval for approval in attempt.claim.approvals}
    denials: dict[int, str] = {}
    open_calls: list[tuple[int, ToolCall]] = []
    for index, call in enumerate(calls):
        answer = answered.get(index) if attempt.step == attempt.claim.step else None
        if answer is not None and _is_about(answer, call):
            if answer.state != "allowed":
                denials[index] = answer.answer or ""
        elif _is_asked_about(attempt, call):
            open_calls.append((index, call))
    if open_calls:
        raise _question(attempt, open_calls)
    return denials


def _is_asked_about(attempt: Attempt, call: ToolCall) -> bool:
    return call["name"] in attempt.desk.manner.ask_first and attempt.spec(call["name"]) is not None


def _is_about(answer: StoredApproval, call: ToolCall) -> bool:
    return answer.tool == call["name"] and answer.args_hash == arguments_hash(call["arguments"])


def _question(attempt: Attempt, calls: Sequence[tuple[int, ToolCall]]) -> Suspend:
    asked = [
        AskedApproval(new_id(), index, call["name"], arguments_hash(call["arguments"]), _sentence(call))
        for index, call in calls
    ]
    for number, (approval, (_, call)) in enumerate(zip(asked, calls, strict=True), start=1):
        attempt.teller.event_once_stored(
            "approval",
            {
                "approval_id": str(approval.id),
                "call_id": call["id"],
                "tool": approval.tool,
                "arguments": {name: _shown(value) for name, value in call["arguments"].items()},
                "text": approval.question,
                "number": number,
                "of": len(asked),
            },
        )
    log.info("run_waits_for_approval", run=str(attempt.claim.run), tools=[approval.tool for approval in asked])
    text = "\n\n".join(approval.question for approval in asked)
    carried = parts(text, limit=attempt.desk.manner.part_limit) if is_carried(attempt.claim.channel) else ()
    return Suspend(Waiting("approval", retries=attempt.tried, approvals=asked, parts=carried))


def _sentence(call: ToolCall) -> str:
    shown = ", ".join(f"{name} = {_shown(value)}" for name, value in call["arguments"].items())
    detail = f" with {shown}" if shown else ""
    return f"May I use '{call['name']}'{detail}? Answer yes to allow it; anything else means no."


def _shown(value: object) -> str:
    text = unhidden(str(value))
    if len(text) <= SHOWN:
        return text
    return f"{text[:SHOWN]} [and {len(text) - SHOWN} more characters, which are not shown here]"
