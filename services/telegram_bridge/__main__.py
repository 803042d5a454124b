"""The door of ``python -m services.telegram_bridge``."""

from services.telegram_bridge.wiring import open_service
from shared.runtime.service import run

if __name__ == "__main__":
    run("telegram_bridge", open_service)
