"""The door of ``python -m services.scheduler``."""

from services.scheduler.wiring import open_service
from shared.runtime.service import run

if __name__ == "__main__":
    run("scheduler", open_service)
