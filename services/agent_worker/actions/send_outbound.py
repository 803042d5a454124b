"""Tell a person what somebody sends them: no model is asked, and the session knows of it."""

from services.agent_worker.actions.attempt import Attempt
from services.agent_worker.actions.end_run import end_with_words


async def send_outbound(attempt: Attempt) -> bool:
    """End the run with its own text, as words of the agent; true when more waits in the conversation."""
    return await end_with_words(attempt, attempt.claim.text, attempt.claim.attachments)
