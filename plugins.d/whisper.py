"""Speech to text by Whisper: what people say is read to the agent.

Settings stand in `[stt]` of lucyd.toml, or in `whisper.toml` beside this file, which goes first. `backend` is `openai`
(any service that speaks OpenAI's wire), `local` (a server of whisper.cpp; other sounds than WAV need ffmpeg), or empty.
"""

import asyncio
import json
import logging
import shutil
import struct
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lucyd_plugin import (
    Attachment,
    PluginEmptyOutput,
    PluginError,
    PluginNotConfigured,
    PluginTransient,
    PluginUpstream,
    PreprocessorSpec,
)
from lucyd_plugin.calling import post

log = logging.getLogger(__name__)

CLOUD = "https://api.openai.com/v1/audio/transcriptions"
LOCAL = "http://127.0.0.1:8082/inference"
MOST = 2_000_000
PAUSE = 1.0
PLACES = frozenset({"[voice message]", "[attachment]"})
"""What stands for the text of a message that came without a word."""

RATE = 16_000
BYTES_A_SECOND = 2 * RATE
"""Of the WAV that whisper.cpp takes: one channel of 16 bits."""

HEADER = 4_096
"""Bytes that a WAV may have beside its sound."""

# Sounds, and nothing that leads ffmpeg to other files or addresses.
FORMATS = "ogg,wav,mp3,mov,mp4,m4a,3gp,matroska,webm,flac,aac,amr,caf,aiff"


@dataclass(frozen=True)
class _Hearing:
    backend: str
    labels: Mapping[bool, str]
    failed: Mapping[bool, str]
    address: str
    key: str
    model: str
    timeout: float
    retries: int
    language: str
    ffmpeg_timeout: float
    longest: int


class _TooLong(PluginEmptyOutput):
    """The sound is longer than what is heard."""


_hearing: _Hearing | None = None
PREPROCESSORS: list[PreprocessorSpec] = []


def configure(config: Any, settings: Mapping[str, Any], secret: Callable[[str], str | None]) -> None:
    """Take the settings; without a backend there is nothing to do."""
    global _hearing
    told: dict[str, Any] = {**config.raw("stt", default={}), **settings}
    backend = str(told.get("backend", ""))
    PREPROCESSORS.clear()
    if not backend:
        return
    if backend not in {"openai", "local"}:
        raise PluginNotConfigured(f"there is no backend {backend}")
    cloud, local = dict(told.get("openai", {})), dict(told.get("local", {}))
    variable = str(cloud.get("api_key_env") or told.get("api_key_env") or "LUCYD_OPENAI_KEY")
    _hearing = _Hearing(
        backend=backend,
        labels={
            True: str(told.get("voice_label", "voice message")),
            False: str(told.get("audio_label", "audio transcription")),
        },
        failed={
            True: str(told.get("voice_fail_msg", "voice message could not be transcribed")),
            False: str(told.get("audio_fail_msg", "audio could not be transcribed")),
        },
        address=str((cloud.get("api_url") or CLOUD) if backend == "openai" else (local.get("endpoint") or LOCAL)),
        key=(secret(variable) or "") if backend == "openai" else "",
        model=str(cloud.get("model", "whisper-1")),
        timeout=float(cloud.get("timeout", 60) if backend == "openai" else local.get("request_timeout", 60)),
        retries=int(cloud.get("retries", 2)),
        language=str(local.get("language", "auto")),
        ffmpeg_timeout=float(local.get("ffmpeg_timeout", 30)),
        longest=int(local.get("longest_seconds", 1800)),
    )
    PREPROCESSORS.append(PreprocessorSpec("stt", hear, content_types=("audio/",)))


async def hear(text: str, attachments: Sequence[Attachment], _config: Any) -> tuple[str, list[Attachment]]:
    """Put what is said in each audio file behind the text; a file that can't be heard is told of in its place."""
    assert _hearing is not None  # noqa: S101 - it is offered when it is configured
    said = await asyncio.gather(*(_said(_hearing, attachment) for attachment in attachments))
    spoken = not text or text in PLACES
    return "\n".join(said if spoken else [text, *said]), []


async def _said(hearing: _Hearing, attachment: Attachment) -> str:
    for left in reversed(range(hearing.retries + 1)):
        try:
            heard = await _transcribed(hearing, attachment)
        except _TooLong as fault:
            log.warning("speech was not heard: %s, it is too long", hearing.backend)
            return f"[{hearing.failed[attachment.is_voice]}: {fault}]"
        except PluginError as fault:
            log.warning("speech was not heard: %s, %s", hearing.backend, fault.code)
            if not left or not isinstance(fault, PluginTransient | PluginUpstream):
                break
            await asyncio.sleep(PAUSE)
        else:
            return f"[{hearing.labels[attachment.is_voice]}]: {heard}"
    return f"[{hearing.failed[attachment.is_voice]}]"


async def _transcribed(hearing: _Hearing, attachment: Attachment) -> str:
    data = await asyncio.to_thread(Path(attachment.local_path).read_bytes)
    if hearing.backend == "openai":
        if not hearing.key:
            raise PluginNotConfigured("the key is not set")
        name = Path(attachment.local_path).name
        answer = await post(
            hearing.address,
            headers={"authorization": f"Bearer {hearing.key}"},
            files={"file": (name if "." in name else f"{name}{_ending(attachment)}", data, attachment.content_type)},
            data={"model": hearing.model, "response_format": "json"},
            timeout=hearing.timeout,
            at_most=MOST,
            configured=hearing.address,
        )
    else:
        seconds = _seconds_of_wav(data)
        if seconds is None:
            data = await asyncio.to_thread(_as_wav, attachment.local_path, hearing.ffmpeg_timeout, hearing.longest)
        elif seconds > hearing.longest:
            raise _too_long(hearing.longest)
        answer = await post(
            hearing.address,
            headers={},
            files={"file": ("audio.wav", data, "audio/wav")},
            data={"response_format": "json", "language": hearing.language},
            timeout=hearing.timeout,
            at_most=MOST,
            configured=hearing.address,
        )
    return _text_in(answer)


def _ending(attachment: Attachment) -> str:
    """Services tell the form of a sound by the name of its file."""
    kind = attachment.content_type.removeprefix("audio/").removeprefix("x-")
    known = {"mpeg": ".mp3", "mp4": ".m4a", "m4a": ".m4a", "webm": ".webm", "wav": ".wav", "flac": ".flac"}
    return known.get(kind, ".ogg")


def _seconds_of_wav(data: bytes) -> float | None:
    """How long a WAV is at the slowest pace that its head can be read as; ``None``: it is none that can be read.

    By the bytes that are there: what the head says of their number may be anything.
    """
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        return None
    paces: list[float] = []
    at = 12
    while at + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, at)
        at += 8
        if name == b"data":
            return (len(data) - at) / min(paces) if paces else None
        if name == b"fmt " and size >= 16 and at + 16 <= len(data):
            _, channels, rate, bytes_a_second, frame, bits = struct.unpack_from("<HHIIHH", data, at)
            paces = [pace for pace in (bytes_a_second, rate * frame, rate * channels * bits / 8) if pace > 0]
        at += size + size % 2
    return None


def _too_long(longest: int) -> _TooLong:
    return _TooLong(f"it is longer than {longest / 60:g} min")


def _as_wav(path: str, timeout: float, longest: int) -> bytes:
    """A second more than what is heard is made of a sound, which tells that it is too long, and nothing beyond it."""
    ffmpeg = shutil.which("ffmpeg")
    if ffmpeg is None:
        raise PluginNotConfigured("ffmpeg is not installed")
    most = longest * BYTES_A_SECOND + HEADER
    words = [ffmpeg, "-nostdin", "-v", "error", "-protocol_whitelist", "file,pipe", "-format_whitelist", FORMATS]
    words += ["-i", path, "-vn", "-ar", str(RATE), "-ac", "1", "-t", str(longest + 1)]
    words += ["-fs", str(most + BYTES_A_SECOND), "-f", "wav", "pipe:1"]
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
    ) as process:
        late = threading.Timer(timeout, process.kill)
        late.start()
        try:
            assert process.stdout is not None  # noqa: S101 - it was asked for
            made = process.stdout.read(most + 1)
            if len(made) > most:
                raise _too_long(longest)
            code = process.wait()
        finally:
            late.cancel()
            process.kill()
    if code != 0:
        raise PluginEmptyOutput(f"ffmpeg ended with {code}")
    return made


def _text_in(answer: bytes) -> str:
    try:
        text = json.loads(answer)["text"]
    except (ValueError, KeyError, TypeError) as error:
        raise PluginUpstream("the answer is no transcription") from error
    if not isinstance(text, str) or not text.strip():
        raise PluginEmptyOutput("nothing was heard")
    return text.strip()
