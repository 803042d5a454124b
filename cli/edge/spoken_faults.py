"""The door of a command line program: what goes wrong is said in sentences, and decides the exit code."""

import contextlib
import os
import sys
from collections.abc import Iterator

from cli.rules.failure import Failure
from shared.errors import ConfigError

INTERRUPTED = 130
BROKEN_PIPE = 141


@contextlib.contextmanager
def spoken_faults(program: str) -> Iterator[None]:
    """Ends the process with 1 and the sentences of a ``Failure`` or ``ConfigError``, with 130 after Ctrl-C.

    A reader that went away (``lucyd history | head``) ends it without a word.
    """
    for stream in (sys.stdout, sys.stderr):
        # A terminal that can't show a character shows a question mark instead of ending the program.
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except Failure as fault:
        print(f"{program}: {fault}", file=sys.stderr)
        sys.exit(1)
    except ConfigError as fault:
        for error in fault.errors:
            print(f"{program}: {error}", file=sys.stderr)
        sys.exit(1)
    except UnicodeEncodeError:
        # Python carries bytes that are no text as half characters, which nothing can send on.
        print(f"{program}: What was given is not UTF-8 text.", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # Python flushes standard output once more at its end, and must not find the broken pipe there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE)
    except OSError as fault:
        where = f"{fault.filename}: " if fault.filename else ""
        print(f"{program}: {where}{fault.strerror or fault}.", file=sys.stderr)
        sys.exit(1)
