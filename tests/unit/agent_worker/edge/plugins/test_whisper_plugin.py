"""Speech to text, over real HTTP against a server that speaks Whisper's wires."""

import json
import os
import struct
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from services.agent_worker.edge.plugins.shelf import PluginShelf, open_plugins
from services.agent_worker.edge.plugins.terms import IN_THE_BOX
from services.agent_worker.ports import IncomingFile
from tests.plugin_terms import QUICK, put, terms
from tests.speech_server import Act, SpeechServer, speaking

KEY = "stt-key-that-nobody-may-read"
VOICE = IncomingFile("1", "audio/ogg", "voice.ogg", b"OggS some words", is_voice=True)
MUSIC = IncomingFile("2", "audio/mpeg", "", b"ID3 a song")


def wav(seconds: float, rate: int = 16_000, **told: int) -> IncomingFile:
    """Of one channel with 16 bits, whose head may tell something else."""
    sound = bytes(int(seconds * rate) * 2)
    each = {"channels": 1, "bytes_a_second": rate * 2, "frame": 2, "bits": 16, "size": len(sound)} | told
    head = struct.pack("<HHIIHH", 1, each["channels"], rate, each["bytes_a_second"], each["frame"], each["bits"])
    chunks = b"LIST\x03\0\0\0odd\0fmt \x10\0\0\0" + head + b"data" + struct.pack("<I", each["size"]) + sound
    return IncomingFile("3", "audio/wav", "a.wav", b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WAVE" + chunks)


WAV = wav(0.1)
HELLO = json.dumps({"text": " Hello, Lucyd. "}).encode()


@pytest.fixture(autouse=True)
def _the_environment_stays() -> Iterator[None]:
    before = dict(os.environ)
    yield
    for name in set(os.environ) - set(before):
        del os.environ[name]


def opened(tmp_path: Path, toml: str, key: str = KEY) -> AbstractAsyncContextManager[PluginShelf]:
    environment = {"LUCYD_OPENAI_KEY": key} if key else {}
    given = terms(tmp_path / "own", toml=toml, environment=environment)
    return open_plugins(replace(given, folders=(IN_THE_BOX,)), output_limit=30_000, manner=QUICK)


def cloud(url: str, more: str = "") -> str:
    return f'[stt]\nbackend = "openai"\n{more}\n[stt.openai]\napi_url = "{url}/v1/audio/transcriptions"\ntimeout = 5\n'


def local(url: str, longest: int = 1800) -> str:
    return (
        f'[stt]\nbackend = "local"\n[stt.local]\nendpoint = "{url}/inference"\nlanguage = "de"\n'
        f"longest_seconds = {longest}\nffmpeg_timeout = 10\n"
    )


def ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A program of that name."""
    program = put(tmp_path / "bin", "ffmpeg", f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


async def heard(tmp_path: Path, toml: str, *files: IncomingFile, text: str = "hi", key: str = KEY) -> tuple[str, int]:
    async with opened(tmp_path, toml, key) as shelf:
        assert shelf.preprocessors is not None
        prepared = await shelf.preprocessors.prepare(text, files)
        return prepared.text, len(prepared.taken)


async def in_the_cloud(tmp_path: Path, *script: Act, file: IncomingFile = VOICE) -> tuple[str, SpeechServer]:
    with speaking(*script) as server:
        return (await heard(tmp_path, cloud(server.url), file))[0], server


async def test_what_is_said_stands_behind_the_text(tmp_path: Path) -> None:
    """By the labels of ``[stt]``, a voice message by another than a song."""
    with speaking(HELLO) as server:
        text, taken = await heard(tmp_path, cloud(server.url, 'voice_label = "Sprachnachricht"'), VOICE, MUSIC)
    assert text == "hi\n[Sprachnachricht]: Hello, Lucyd.\n[audio transcription]: Hello, Lucyd."
    assert taken == 2
    asked = sorted(server.received, key=lambda spoken: spoken.body["file"].filename)
    assert {spoken.path for spoken in asked} == {"/v1/audio/transcriptions"}
    assert {spoken.headers["authorization"] for spoken in asked} == {f"Bearer {KEY}"}
    assert {spoken.body["model"].data for spoken in asked} == {b"whisper-1"}
    assert [(each.body["file"].filename, each.body["file"].content_type, each.body["file"].data) for each in asked] == [
        ("0.ogg", "audio/ogg", b"OggS some words"),
        ("1.mp3", "audio/mpeg", b"ID3 a song"),
    ]


async def test_a_message_of_nothing_but_voice_is_what_was_said(tmp_path: Path) -> None:
    """There is no empty line before it."""
    with speaking(HELLO) as server:
        for text in ("", "[voice message]"):
            said, _ = await heard(tmp_path, cloud(server.url), VOICE, text=text)
            assert said == "[voice message]: Hello, Lucyd."


@pytest.mark.parametrize(
    ("script", "calls"),
    [
        ((401,), 1),
        ((429,), 1),
        ((b"no json",), 3),
        ((b'{"text": " "}',), 1),
        (("flood",), 3),
        ((500,), 3),
        (("cut",), 3),
    ],
)
async def test_what_cannot_be_heard_is_told_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: tuple[Act, ...], calls: int
) -> None:
    """The message is answered all the same; what passes is tried again, ``retries`` times."""
    with speaking(*script) as server:
        async with opened(tmp_path, cloud(server.url)) as shelf:
            import sys  # noqa: PLC0415 - the module of the plugin is there now

            monkeypatch.setattr(sys.modules["lucyd_plugins.whisper"], "PAUSE", 0.01)
            assert shelf.preprocessors is not None
            prepared = await shelf.preprocessors.prepare("hi", [VOICE])
    assert prepared.text == "hi\n[voice message could not be transcribed]"
    assert len(server.received) == calls


async def test_a_pause_lies_between_two_tries(tmp_path: Path) -> None:
    """The other side needs it."""
    started = time.monotonic()
    text, server = await in_the_cloud(tmp_path, 503, HELLO)
    assert text == "hi\n[voice message]: Hello, Lucyd."
    assert len(server.received) == 2
    assert time.monotonic() - started >= 1


async def test_without_a_key_nothing_is_sent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The log tells the operator why; neither has a key."""
    with speaking(HELLO) as server:
        text, _ = await heard(tmp_path, cloud(server.url), VOICE, key="")
    assert text == "hi\n[voice message could not be transcribed]"
    assert server.received == []
    said = capfd.readouterr()
    assert KEY not in said.out + said.err


async def test_a_server_of_ones_own_is_asked_on_its_wire(tmp_path: Path) -> None:
    """whisper.cpp takes WAV, and a language; it has no key, and is given none."""
    with speaking(HELLO) as server:
        text, _ = await heard(tmp_path, local(server.url), WAV)
    assert text == "hi\n[audio transcription]: Hello, Lucyd."
    (asked,) = server.received
    assert asked.path == "/inference"
    assert "authorization" not in asked.headers
    assert asked.body["language"].data == b"de"
    assert asked.body["response_format"].data == b"json"
    assert asked.body["file"].data == WAV.data


async def test_other_sounds_are_turned_into_wav_by_a_program_that_reads_sounds_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A playlist that calls itself a sound must not lead ffmpeg to files or addresses; it sees no secret either."""
    program = put(
        tmp_path / "bin",
        "ffmpeg",
        """\
        #!/bin/sh
        printf 'RIFF....WAVE '
        echo "$@"
        env
        """,
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with speaking(HELLO) as server:
        text, _ = await heard(tmp_path, local(server.url), VOICE)
    assert text == "hi\n[voice message]: Hello, Lucyd."
    sent = server.received[0].body["file"].data.decode()
    assert sent.startswith("RIFF....WAVE -nostdin -v error -protocol_whitelist file,pipe -format_whitelist ogg,wav,")
    assert "hls" not in sent.partition("-i ")[0]
    assert KEY not in sent


async def test_a_sound_that_cannot_be_turned_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No program, or one that fails."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with speaking(HELLO) as server:
        text, _ = await heard(tmp_path, local(server.url), VOICE)
    assert text == "hi\n[voice message could not be transcribed]"
    assert server.received == []
    program = put(tmp_path / "bin", "ffmpeg", "#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    with speaking(HELLO) as server:
        assert (await heard(tmp_path, local(server.url), VOICE))[0] == "hi\n[voice message could not be transcribed]"


@pytest.mark.parametrize(
    ("sound", "is_heard"),
    [
        (wav(5.9), True),
        (wav(6.1), False),
        (wav(6.1, size=10), False),
        (wav(6.1, bytes_a_second=2_000_000_000), False),
        (wav(6.1, frame=60_000, bytes_a_second=2_000_000_000), False),
        (wav(5.9, frame=0, bits=0), True),
    ],
)
async def test_a_wav_is_heard_up_to_a_length(tmp_path: Path, sound: IncomingFile, is_heard: bool) -> None:
    """By the bytes that are there, whatever its head says; the limit stands in the text."""
    with speaking(HELLO) as server:
        text, _ = await heard(tmp_path, local(server.url, longest=6), sound)
    told = "[audio transcription]: Hello, Lucyd."
    refused = "[audio could not be transcribed: it is longer than 0.1 min]"
    assert text == f"hi\n{told if is_heard else refused}"
    assert len(server.received) == is_heard


@pytest.mark.parametrize("data", [b"RIFF\x04\0\0\0WAVE data", b"RIFF\x04\0\0\0WAVEdata\0\0\0\0", b"RIFF", b""])
async def test_a_wav_that_cannot_be_read_is_for_ffmpeg(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    """Nobody knows how long it is."""
    ffmpeg(tmp_path, monkeypatch, "printf made-anew")
    with speaking(HELLO) as server:
        await heard(tmp_path, local(server.url), IncomingFile("3", "audio/wav", "a.wav", data))
    assert server.received[0].body["file"].data == b"made-anew"


async def test_what_ffmpeg_makes_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Minutes of silence take a few bytes packed. It is told its bounds, and is ended if it does not keep them."""
    ffmpeg(tmp_path, monkeypatch, f'echo "$@" > {tmp_path}/told; exec cat /dev/zero')
    with speaking(HELLO) as server:
        began = time.monotonic()
        text, _ = await heard(tmp_path, local(server.url, longest=600), VOICE)
        assert time.monotonic() - began < 10
    assert text == "hi\n[voice message could not be transcribed: it is longer than 10 min]"
    assert server.received == []
    assert (tmp_path / "told").read_text().endswith(" -t 601 -fs 19236096 -f wav pipe:1\n")


async def test_an_ffmpeg_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has made until then is not taken for all."""
    ffmpeg(tmp_path, monkeypatch, "printf RIFF; exec sleep 60")
    with speaking(HELLO) as server:
        toml = local(server.url).replace("ffmpeg_timeout = 10", "ffmpeg_timeout = 0.3")
        began = time.monotonic()
        text, _ = await heard(tmp_path, toml, VOICE)
        assert time.monotonic() - began < 10
    assert text == "hi\n[voice message could not be transcribed]"
    assert server.received == []


async def test_without_a_backend_it_reads_nothing(tmp_path: Path) -> None:
    """It is in everybody's box, and costs those nothing who do not use it."""
    async with opened(tmp_path, "") as shelf:
        assert shelf.preprocessors is None
        assert {report.name: report.state for report in shelf.reports}["whisper"] == "loaded"
    async with opened(tmp_path, '[stt]\nbackend = "telepathy"\n') as shelf:
        (report,) = [report for report in shelf.reports if report.name == "whisper"]
        assert report.reason.startswith("configure() failed: PluginNotConfigured")
