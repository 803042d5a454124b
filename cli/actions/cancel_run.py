"""End a run because the person wants it."""

from uuid import UUID

from cli.edge.gateway_client import Gateway
from cli.rules.clean_text import one_line
from cli.rules.failure import Failure
from cli.rules.run_end import cancelled_sentence, had_ended_sentence, has_ended


def cancel_run(named: str, gateway: Gateway) -> str:
    """End the run with this id, or whose id begins so; returns what happened, once its end is stored.

    Raises ``Failure`` when there is none or more than one, and when it takes longer to end than the gateway waits: it
    ends all the same.
    """
    id = named if _is_whole(named) else str(gateway.story(named).get("run_id"))
    run = gateway.run(id)
    if has_ended(run):
        return had_ended_sentence(run)
    run = gateway.cancel(id)
    if not has_ended(run):
        raise Failure(f"The run {one_line(id)} was told to end and is still ending; `lucyd why {one_line(id)}` tells.")
    return cancelled_sentence(run)


def _is_whole(named: str) -> bool:
    try:
        UUID(named)
    except ValueError:
        return False
    return True
