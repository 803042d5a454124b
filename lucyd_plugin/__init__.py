"""What a plugin may import from Lucyd, and may rely on: specs of tools and preprocessors, and errors by their kind.

A plugin needs none of it: a ``TOOLS`` list of dictionaries is enough. See ``docs/plugins.md``.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "Attachment",
    "FileToSend",
    "PluginAuth",
    "PluginEmptyOutput",
    "PluginError",
    "PluginInvalidInput",
    "PluginNotConfigured",
    "PluginQuota",
    "PluginTransient",
    "PluginUpstream",
    "PreprocessorSpec",
    "ToolSpec",
    "transcribe_audio_attachments",
]


@dataclass(frozen=True)
class ToolSpec:
    """A tool of a plugin; ``docs/plugins.md`` explains each field."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    function: Callable[..., Any]
    max_output: int = 0
    talkers: Collection[str] | None = None
    effect: str = "once"
    cpu_heavy: bool = False
    timeout: float = 0.0
    sends: bool = False


@dataclass(frozen=True)
class FileToSend:
    """A file that a tool with ``sends`` gives back as ``{"send": ...}``: it goes ``to`` whom the parameter ``send_to``
    names. With ``is_voice`` it is heard as a voice message."""

    to: str
    data: bytes
    filename: str
    content_type: str
    is_voice: bool = False


@dataclass(frozen=True)
class Attachment:
    """A file that came with a message; ``local_path`` is there for as long as the preprocessor runs."""

    content_type: str
    local_path: str
    filename: str
    size: int
    is_voice: bool = False


@dataclass(frozen=True)
class PreprocessorSpec:
    """A function ``(text, attachments, config) -> (text, remaining attachments)``, called before a model reads.

    ``content_types`` are beginnings of media types (``audio/``); without any it is given all attachments.
    """

    name: str
    fn: Callable[..., Any]
    critical: bool = False
    fallback_text: str = ""
    content_types: Sequence[str] = ()


class PluginError(Exception):
    """What a plugin raises when it knows what went wrong. Only the message of ``PluginInvalidInput`` is passed on."""

    code = "plugin_error"


class PluginNotConfigured(PluginError):
    """A key or a setting is missing; the operator must do something."""

    code = "not_configured"


class PluginInvalidInput(PluginError):
    """The model called with something that can't be done. It reads the message, and calls better."""

    code = "invalid_input"


class PluginTransient(PluginError):
    """Nothing was done, and trying again may help: no connection, a busy server. It is tried twice more."""

    code = "transient"


class PluginUpstream(PluginError):
    """The other side failed or answered nonsense. Tried twice more where doing it twice does no harm."""

    code = "upstream"


class PluginAuth(PluginError):
    """The other side refuses the key."""

    code = "auth_failed"


class PluginQuota(PluginError):
    """Nothing is left of what was bought, or too much was asked at once."""

    code = "quota_exceeded"


class PluginEmptyOutput(PluginError):
    """There is no result where one was expected."""

    code = "empty_output"


async def transcribe_audio_attachments(
    text: str, attachments: Sequence[Any], transcribe: Callable[[str, str], Awaitable[str]]
) -> tuple[str, list[Any]]:
    """Put what ``transcribe(path, content_type)`` hears in each audio attachment behind the text; the rest remains."""
    remaining = []
    for attachment in attachments:
        if not attachment.content_type.startswith("audio/"):
            remaining.append(attachment)
            continue
        label = "voice message" if attachment.is_voice else "audio transcription"
        heard = f"[{label}]: {await transcribe(attachment.local_path, attachment.content_type)}"
        text = f"{text}\n{heard}" if text else heard
    return text, remaining
