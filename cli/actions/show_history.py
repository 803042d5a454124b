"""Show what was said in a session."""

from cli.edge.gateway_client import Gateway
from cli.edge.screen import Screen
from cli.rules.clean_text import one_line
from cli.rules.failure import Failure
from cli.rules.history_view import history_pieces
from cli.rules.session_list import find_session, newest_of_terminal


def show_history(wanted: str | None, gateway: Gateway, screen: Screen, *, full: bool) -> None:
    """The session with this id, contact or conversation; ``None``: the newest of this terminal.

    A closed session is found by its id. Raises ``Failure`` when there is none.
    """
    sessions = gateway.sessions()
    session = newest_of_terminal(sessions) if wanted is None else find_session(sessions, wanted)
    if session is None and wanted is None:
        raise Failure("Nothing was said from this terminal yet; `lucyd sessions` lists the other sessions.")
    session_id = str(session["session_id"]) if session else str(wanted)
    history = gateway.history(session_id, full=full)
    events = [each for each in history.get("events") or () if isinstance(each, dict)]
    if not events:
        if session is None:
            raise Failure(f"No session found for: {one_line(wanted)}")
        screen.say(f"No history found for: {one_line(session.get('contact'))} ({session_id})")
        return
    contact = str(session.get("contact") or session_id) if session else session_id
    agent = one_line(history.get("agent") or "Lucyd", 40)
    screen.show(history_pieces(events, contact=contact, session_id=session_id, agent=agent, full=full))
