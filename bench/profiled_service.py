"""``python -m bench.profiled_service <service> <file> -c <lucyd.toml>``: a service that samples itself from SIGUSR1 on.

What it saw is in ``file`` when it has been told to stop.
"""

import importlib
import sys
from pathlib import Path

from bench.sampler import Sampler
from shared.runtime.service import run


def main(service: str, file: Path, words: list[str]) -> None:
    """Run the service as its own door would."""
    sampler = Sampler()
    sampler.listen()
    try:
        run(service, importlib.import_module(f"services.{service}.wiring").open_service, words)
    finally:
        sampler.write(file)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
