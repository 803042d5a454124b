"""End sessions, so that the next message begins new ones."""

from uuid import UUID

from cli.edge.gateway_client import Gateway
from cli.rules.amounts import whole
from cli.rules.clean_text import one_line
from cli.rules.failure import Failure
from cli.rules.session_list import newest_of_terminal


def reset_terminal(gateway: Gateway, sender: str | None = None) -> str:
    """End the session in which this terminal talks under this name; returns what happened."""
    session = newest_of_terminal(gateway.sessions(), sender)
    if session is None:
        return "There is no session of this terminal; the next message begins one."
    answer = gateway.reset(str(session["session_id"]))
    if answer.get("reset") is False:
        return f"Nothing was reset: {one_line(answer.get('reason') or 'there was no session')}."
    return "The session was reset; the next message begins a new one."


def reset_sessions(target: str, gateway: Gateway) -> str:
    """End the sessions that ``target`` names: ``all``, a contact, a conversation or an id.

    Returns what happened; raises ``Failure`` when there was nothing to end.
    """
    answer = gateway.reset(target)
    if answer.get("reset") is False:
        raise Failure(f"Nothing was reset: {one_line(answer.get('reason') or 'there was no session')}.")
    if target == "all":
        number = f" ({whole(answer['count'])})" if "count" in answer else ""
        return f"Reset sent for all sessions{number}."
    return f"Reset sent for {'session' if is_id(target) else 'sender'}: {one_line(target)}"


def is_id(target: str) -> bool:
    """Whether a target names one session by its id."""
    try:
        UUID(target)
    except ValueError:
        return False
    return True
