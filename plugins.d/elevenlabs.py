"""Text to speech by ElevenLabs: the tool `tts`.

Settings stand in `[tools.tts]` of lucyd.toml, or in `elevenlabs.toml` beside this file, which goes first.
"""

import contextlib
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lucyd_plugin import FileToSend, PluginInvalidInput, PluginNotConfigured, ToolSpec
from lucyd_plugin.calling import post

ADDRESS = "https://api.elevenlabs.io/v1/text-to-speech/{voice_id}"
LONGEST_TEXT = 10_000
NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")


@dataclass(frozen=True)
class _Speech:
    key: str
    key_variable: str
    provider: str
    address: str
    voice: str
    model: str
    manner: Mapping[str, float]
    timeout: float
    save: Callable[[str, bytes], str]


_speech: _Speech | None = None


def configure(
    config: Any,
    settings: Mapping[str, Any],
    secret: Callable[[str], str | None],
    save_file: Callable[[str, bytes], str],
) -> None:
    """Keep what calls need; a key that is missing is told by the call."""
    global _speech
    told: dict[str, Any] = {**config.raw("tools", "tts", default={}), **settings}
    voice: Mapping[str, Any] = settings.get("voice", told)
    variable = str(told.get("api_key_env") or "LUCYD_ELEVENLABS_KEY")
    _speech = _Speech(
        key=secret(variable) or "",
        key_variable=variable,
        provider=str(told.get("provider", "elevenlabs")),
        address=str(told.get("api_url") or ADDRESS),
        voice=str(told.get("default_voice_id", "")),
        model=str(told.get("default_model_id") or "eleven_v3"),
        manner={
            "speed": float(voice.get("speed", 1.0)),
            "stability": float(voice.get("stability", 0.5)),
            "similarity_boost": float(voice.get("similarity_boost", 0.75)),
        },
        timeout=float(told.get("timeout", 60)),
        save=save_file,
    )


async def tts(
    text: str, voice_id: str = "", model_id: str = "", output_file: str = "", send_to: str = ""
) -> dict[str, Any]:
    """Speak it into a file, or to somebody as a voice message."""
    speech = _ready()
    voice, model = voice_id or speech.voice, model_id or speech.model
    _check(text, voice, model)
    audio = await post(
        speech.address.replace("{voice_id}", quote(voice, safe="")),
        headers={"xi-api-key": speech.key, "accept": "audio/mpeg"},
        json={"text": text, "model_id": model, "voice_settings": dict(speech.manner)},
        timeout=speech.timeout,
        configured=speech.address,
    )
    if send_to:
        if output_file:
            speech.save(output_file, audio)
        return {"send": FileToSend(send_to, audio, "voice.mp3", "audio/mpeg", is_voice=True)}
    path = speech.save(output_file, audio) if output_file else _in_temporary_file(audio, speech.save)
    return {"text": f"Generated audio ({len(audio)} bytes)", "attachments": [path]}


def _ready() -> _Speech:
    if _speech is None or not _speech.key:
        raise PluginNotConfigured(f"{_speech.key_variable if _speech else 'the key'} is not set")
    if _speech.provider != "elevenlabs":
        raise PluginNotConfigured(f"there is no provider {_speech.provider}")
    return _speech


def _check(text: str, voice: str, model: str) -> None:
    if not text.strip():
        raise PluginInvalidInput("text is empty")
    if len(text) > LONGEST_TEXT:
        raise PluginInvalidInput(f"text has {len(text)} characters; {LONGEST_TEXT} can be spoken at once")
    if not voice:
        raise PluginInvalidInput("No voice_id specified and no default configured")
    if not NAME.fullmatch(voice) or not NAME.fullmatch(model):
        raise PluginInvalidInput("voice_id and model_id are letters, digits, _, - and .")


def _in_temporary_file(audio: bytes, save: Callable[[str, bytes], str]) -> str:
    """In ``/tmp`` as commands see it, so that they can work on it; where the tools may not write there, beside it."""
    with contextlib.suppress(PluginInvalidInput):
        return save(f"/tmp/lucyd-tts-{secrets.token_hex(8)}.mp3", audio)  # noqa: S108 - a name that nobody guesses
    descriptor, name = tempfile.mkstemp(prefix="lucyd-tts-", suffix=".mp3")  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(audio)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return name


TOOLS = [
    ToolSpec(
        name="tts",
        description=(
            "Generate speech audio from text: as a voice message to send_to, or into a file, which can then be sent."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "Text to speak."},
                "voice_id": {"type": "string", "description": "Voice; left out: the configured one."},
                "model_id": {"type": "string", "description": "Model of speech; left out: the configured one."},
                "output_file": {"type": "string", "description": "Where to put the audio; left out: a temporary file."},
                "send_to": {
                    "type": "string",
                    "description": "Whom to send it to as a voice message: a contact, or the person you answer.",
                },
            },
            "required": ["text"],
        },
        function=tts,
        effect="once",
        sends=True,
    )
]
