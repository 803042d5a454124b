"""Is there a local Ollama, and which model does it have?"""

import json
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

DEFAULT_ADDRESS = "http://127.0.0.1:11434"
PATIENCE_SECONDS = 0.3
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_EVERYWHERE = {"0.0.0.0", "::"}  # noqa: S104  (how a server's own setting reads, not an address we bind)
_ANSWER_BYTES = 1_000_000


def local_address(environ: Mapping[str, str]) -> str | None:
    """Where a local Ollama would listen, by ``OLLAMA_HOST``; ``None`` when that is another machine or no http."""
    setting = environ.get("OLLAMA_HOST", "").strip()
    try:
        parts = urlsplit(setting if "://" in setting else f"http://{setting}")
        host, port = parts.hostname or "127.0.0.1", parts.port or 11434
    except ValueError:
        return None
    if host in _EVERYWHERE:
        host = "127.0.0.1"
    if parts.scheme != "http" or host not in _LOOPBACK:
        return None
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def ask_ollama(address: str) -> str | None:
    """The name of the model used last, or ``None``: nobody answers within 0.3 s, or there is no model for chat."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    parts = urlsplit(address)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", "/api/tags")
        response = connection.getresponse()
        answer = b""
        while part := response.read1(65_536):
            answer += part
            if len(answer) > _ANSWER_BYTES or time.monotonic() > deadline:
                return None
        return chat_model(json.loads(answer)) if response.status == 200 else None
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()


def chat_model(tags: object) -> str | None:
    """The first model of an ``/api/tags`` answer (the newest stands first) that is not there for embedding."""
    models = tags.get("models") if isinstance(tags, dict) else None
    for model in models if isinstance(models, list) else ():
        name = model.get("name") if isinstance(model, dict) else None
        if isinstance(name, str) and name and "embed" not in name:
            return name
    return None
