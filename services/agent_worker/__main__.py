"""``python -m services.agent_worker``: runs the agent."""

from services.agent_worker.wiring import open_service
from shared.runtime.service import run

if __name__ == "__main__":
    run("agent_worker", open_service)
