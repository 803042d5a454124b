"""Logs are events with fields, one JSON object a line; never message text, never a key."""

import logging
import sys
from collections.abc import Sequence

import structlog

QUIET = ("httpx", "httpx2", "httpcore", "httpcore2", "anthropic", "openai", "apscheduler", "rq", "uvicorn", "asyncio")


def set_up_logs(service: str, *, level: str = "info", form: str = "", suppress: Sequence[str] = ()) -> None:
    """Send our own events and the libraries' warnings to stderr.

    ``form`` is ``json`` (one object a line) or ``text``; empty: text on a terminal, JSON elsewhere.
    """
    number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: structlog.typing.Processor
    if form == "text" or (form != "json" and sys.stderr.isatty()):
        # The fine form of a traceback shows what the names stood for: a header, a text.
        plain = structlog.dev.plain_traceback
        last = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)
    else:
        shared.append(structlog.processors.format_exc_info)
        last = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[*shared, last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(service=service)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=[_drop_record, last], foreign_pre_chain=shared))
    logging.basicConfig(handlers=[handler], level=number, force=True)
    for name in (*QUIET, *suppress):
        logging.getLogger(name).setLevel(max(number, logging.WARNING))


def _drop_record(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return structlog.stdlib.ProcessorFormatter.remove_processors_meta(None, "", event)
