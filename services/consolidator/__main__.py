"""The door of ``python -m services.consolidator``."""

from services.consolidator.wiring import open_service
from shared.runtime.service import run

if __name__ == "__main__":
    run("consolidator", open_service)
