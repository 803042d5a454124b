"""``python -m services.gateway``: HTTP in and out."""

from services.gateway.wiring import open_service
from shared.runtime.service import run

if __name__ == "__main__":
    run("gateway", open_service)
