"""Imported first by every process: keeps out what would make each of them bigger and is never used."""

import sys

# structlog takes rich and pygments along wherever they are installed, for coloured tracebacks that we never show: 40 ms
# of CPU and some MB in each process. Whoever wants rich itself, as the command line does, finds it untouched.
if "rich" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]  # which Python takes for: not installed
    try:
        import structlog  # noqa: F401 - imported for everybody who follows
    finally:
        del sys.modules["rich"]
