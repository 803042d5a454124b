"""The door of ``python -m services.indexer``."""

from services.indexer.wiring import open_service
from shared.runtime.service import run

if __name__ == "__main__":
    run("indexer", open_service)
