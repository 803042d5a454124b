"""``python -m deploy.local``: Lucyd on this machine, with one command."""

import argparse
import os
import sys
from pathlib import Path

from deploy.local.launch import Options, launch
from shared.errors import ConfigError


def main(argv: list[str] | None = None) -> int:
    """Run Lucyd in the foreground; 0 when it was asked to stop, 1 with one sentence per fault when it can't run."""
    options = _parse(argv)
    try:
        launch(options, os.environ)
    except ConfigError as fault:
        for error in fault.errors:
            print(f"lucyd: {error}", file=sys.stderr)
        return 1
    except OSError as fault:
        print(f"lucyd: {fault}", file=sys.stderr)
        return 1
    return 0


def _parse(argv: list[str] | None) -> Options:
    parser = argparse.ArgumentParser(
        prog="lucyd up", description="Run Lucyd on this machine: its servers, its six services, until Ctrl-C."
    )
    parser.add_argument("-c", "--config", type=Path, metavar="PATH", help="lucyd.toml (default: $LUCYD_CONFIG)")
    parser.add_argument(
        "--workers", type=_count, default=os.environ.get("LUCYD_WORKERS", "1"), metavar="N",
        help="how many agent workers to start (default: $LUCYD_WORKERS, else 1)",
    )  # fmt: skip
    chosen = parser.parse_args(argv)
    return Options(chosen.config, chosen.workers)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of workers from 1 to 64")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
