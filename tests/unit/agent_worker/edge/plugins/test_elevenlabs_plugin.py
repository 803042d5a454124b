"""Text to speech, over real HTTP against a server that speaks ElevenLabs' wire."""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from services.agent_worker.edge.plugins.plugin_tool import Manner
from services.agent_worker.edge.plugins.sending import PeopleAround
from services.agent_worker.edge.plugins.shelf import PluginShelf, open_plugins
from services.agent_worker.edge.plugins.terms import IN_THE_BOX
from services.agent_worker.edge.toolbox import LocalToolbox
from services.agent_worker.edge.tools.receivers import Receivers
from services.agent_worker.ports import ToolFailed, ToolUse
from shared.adapters.inmemory.blobs import InMemoryBlobs
from shared.adapters.inmemory.clock import ManualClock
from shared.adapters.inmemory.tables import Tables
from shared.domain.attachment import is_voice
from shared.domain.chat import ToolResult
from shared.domain.contacts import Contacts
from shared.domain.outgoing_file import OutgoingFile, outgoing
from tests.plugin_terms import put, terms
from tests.speech_server import Act, SpeechServer, speaking
from tests.stack import free_port

KEY = "el-key-that-nobody-may-read"
MP3 = b"ID3\x04 some sound"
QUICK = Manner(timedelta(seconds=20), pause=0.01, secrets=(KEY,))


@pytest.fixture(autouse=True)
def _the_environment_stays() -> Iterator[None]:
    before = dict(os.environ)
    yield
    for name in set(os.environ) - set(before):
        del os.environ[name]


def opened(
    tmp_path: Path,
    url: str,
    *,
    key: str = KEY,
    more: str = 'default_voice_id = "voice-1"',
    tables: Tables | None = None,
) -> AbstractAsyncContextManager[PluginShelf]:
    toml = (
        f'workspace = "{tmp_path}/ws"\n[tools.filesystem]\nallowed_paths = ["{tmp_path}/ws"]\n'
        f'[tools.tts]\napi_url = "{url}/v1/text-to-speech/{{voice_id}}"\ntimeout = 5\n{more}\n'
    )
    (tmp_path / "ws").mkdir(exist_ok=True)
    environment = {"LUCYD_ELEVENLABS_KEY": key} if key else {}
    given = terms(tmp_path / "own", "tts", toml=toml, environment=environment)
    receivers = Receivers(Contacts.of_telegram({"Bob": 8}))
    sender = PeopleAround(receivers, InMemoryBlobs(tables or Tables(ManualClock())), timedelta(hours=1), 100)
    return open_plugins(replace(given, folders=(IN_THE_BOX,)), output_limit=30_000, manner=QUICK, sender=sender)


async def speak(shelf: PluginShelf, use: ToolUse, **arguments: object) -> ToolResult:
    toolbox = LocalToolbox([], output_truncation=30_000, max_parallel=4, sources=[shelf])
    return await toolbox.use({"id": "c", "name": "tts", "arguments": {"text": "Hello.", **arguments}}, use)


async def heard(tmp_path: Path, use: ToolUse, *script: Act, **arguments: object) -> tuple[str, SpeechServer]:
    with speaking(*script) as server:
        async with opened(tmp_path, server.url) as shelf:
            return (await speak(shelf, use, **arguments))["content"], server


async def test_speech_goes_into_a_file_for_its_owner_alone(tmp_path: Path, use: ToolUse) -> None:
    """Without a place it is a temporary one, whose path the model is told."""
    said, server = await heard(tmp_path, use, MP3)
    head, _, tail = said.partition("\n")
    assert head == f"Generated audio ({len(MP3)} bytes)"
    path = Path(tail.removeprefix("[attachment: ").removesuffix("]"))
    try:
        assert path.name.startswith("lucyd-tts-")
        assert path.suffix == ".mp3"
        assert path.read_bytes() == MP3
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        path.unlink()
    (asked,) = server.received
    assert asked.path == "/v1/text-to-speech/voice-1"
    assert asked.headers["xi-api-key"] == KEY
    assert asked.body == {
        "text": "Hello.",
        "model_id": "eleven_v3",
        "voice_settings": {"speed": 1.0, "stability": 0.5, "similarity_boost": 0.75},
    }


async def test_speech_goes_where_it_is_wanted_if_that_is_allowed(tmp_path: Path, use: ToolUse) -> None:
    """By the rules of ``write``: allowed folders, no secrets, no personality."""
    said, server = await heard(
        tmp_path, use, MP3, output_file="sounds/hello.mp3", voice_id="other", model_id="eleven_flash_v2"
    )
    path = tmp_path / "ws" / "sounds" / "hello.mp3"
    assert said == f"Generated audio ({len(MP3)} bytes)\n[attachment: {path}]"
    assert path.read_bytes() == MP3
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert server.received[0].path.endswith("/other")
    assert server.received[0].body["model_id"] == "eleven_flash_v2"
    outside, _ = await heard(tmp_path, use, MP3, output_file="/etc/lucyd.mp3")
    assert outside.startswith("Error: Access denied: /etc/lucyd.mp3 is outside")
    soul, _ = await heard(tmp_path, use, MP3, output_file="SOUL.md")
    assert soul == "Error: SOUL.md is protected and cannot be changed by tools"


@pytest.mark.parametrize(("to", "act"), [("Ann", "send_file"), ("bob", "message")])
async def test_speech_is_sent_as_a_voice_message_and_no_file_is_left(
    tmp_path: Path, use: ToolUse, monkeypatch: pytest.MonkeyPatch, to: str, act: str
) -> None:
    """With the reply to whoever is answered, in their own line to others; its bytes are kept before."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    tables, acts = Tables(ManualClock()), list[tuple[str, Any]]()

    async def done(name: str, arguments: Mapping[str, Any]) -> str:
        acts.append((name, arguments))
        return "Sent"

    use = replace(use, act=done, contact="Ann", sender="7")
    with speaking(MP3) as server:
        async with opened(tmp_path, server.url, tables=tables) as shelf:
            assert (await speak(shelf, use, send_to=to))["content"] == "Sent"
    ((name, arguments),) = acts
    (blob,) = tables.blobs.values()
    assert (name, blob.run, blob.data) == (act, use.run_id, MP3)
    if act == "send_file":
        file = OutgoingFile(blob.id, "voice.mp3", "audio/mpeg", len(MP3), "voice")
        assert arguments == file.document()
    else:
        (block,) = arguments["blocks"]
        assert (arguments["place"], arguments["text"], block["id"]) == ("telegram:8", "", str(blob.id))
        assert outgoing(block, is_voice=is_voice(block)).shown_as == "voice"
    assert not list(tmp_path.rglob("lucyd-tts-*"))


async def test_speech_that_nobody_would_get_is_told(tmp_path: Path, use: ToolUse) -> None:
    """The act looks once more; what it refuses is what the model reads."""

    async def refused(name: str, arguments: Mapping[str, Any]) -> str:
        raise ToolFailed(f"nothing was sent: {arguments['name']} has not written to you yet")

    said, _ = await heard(tmp_path, replace(use, act=refused), MP3, send_to="Bob")
    assert said == "Error: nothing was sent: Bob has not written to you yet"


async def test_a_temporary_file_is_where_commands_see_it(tmp_path: Path, use: ToolUse) -> None:
    """Their ``/tmp`` is another one than the machine's; what they are to cut or convert has to lie there."""
    own = tmp_path / "own-tmp"
    own.mkdir()
    toml = '[tools.filesystem]\nallowed_paths = ["/tmp"]\n[tools.tts]\ndefault_voice_id = "v"\n'
    with speaking(MP3) as server:
        given = terms(
            tmp_path / "own",
            "tts",
            toml=f'{toml}api_url = "{server.url}/{{voice_id}}"\n',
            environment={"LUCYD_ELEVENLABS_KEY": KEY},
        )
        given = replace(given, folders=(IN_THE_BOX,)).seeing(own)
        async with open_plugins(given, output_limit=30_000, manner=QUICK) as shelf:
            assert str(own) in (await speak(shelf, use))["content"]
    (file,) = own.iterdir()
    assert file.read_bytes() == MP3
    assert file.name.startswith("lucyd-tts-")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("script", "calls", "sentence"),
    [
        ((401,), 1, "the service behind 'tts' refuses the key that it was given"),
        ((429,), 1, "the service behind 'tts' allows no more right now"),
        ((422,), 1, "the service refused this call with status 422"),
        ((302,), 1, "the service behind 'tts' failed"),
        ((500,), 1, "the service behind 'tts' failed"),
        (("cut",), 1, "the service behind 'tts' failed"),
        (("flood",), 1, "the service behind 'tts' failed"),
        (("empty",), 1, "'tts' had no result"),
        ((503,), 3, "'tts' can't be reached right now"),
    ],
)
async def test_faults_of_the_service_are_told_in_our_words(
    tmp_path: Path, use: ToolUse, script: tuple[Act, ...], calls: int, sentence: str
) -> None:
    """Speech is bought: only where nothing was done is it asked for again, and no word of the service is passed on."""
    said, server = await heard(tmp_path, use, *script)
    assert said == f"Error: {sentence}"
    assert len(server.received) == calls


async def test_a_service_that_comes_back_is_no_fault(tmp_path: Path, use: ToolUse) -> None:
    """A restart of the other side takes a second."""
    said, server = await heard(tmp_path, use, 503, 503, MP3, output_file="a.mp3")
    assert said.startswith("Generated audio")
    assert len(server.received) == 3


async def test_nobody_there(tmp_path: Path, use: ToolUse) -> None:
    """No connection is a fault that may pass."""
    async with opened(tmp_path, f"http://127.0.0.1:{free_port()}") as shelf:
        assert (await speak(shelf, use))["content"] == "Error: 'tts' can't be reached right now"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"text": " "}, "text is empty"),
        ({"text": "x" * 10_001}, "text has 10001 characters; 10000 can be spoken at once"),
        ({"voice_id": "../users"}, "voice_id and model_id are letters, digits, _, - and ."),
        ({"send_to": "Anna"}, "Unknown contact 'Anna'. Contacts: Bob"),
    ],
)
async def test_what_cannot_be_spoken_is_not_sent(
    tmp_path: Path, use: ToolUse, arguments: dict[str, object], sentence: str
) -> None:
    """Nothing is bought for a call that can't be done."""
    said, server = await heard(tmp_path, use, MP3, **arguments)
    assert said.startswith(f"Error: {sentence}")
    assert server.received == []


async def test_without_a_key_or_a_voice_it_says_so(
    tmp_path: Path, use: ToolUse, capfd: pytest.CaptureFixture[str]
) -> None:
    """The model is told that it is the operator's matter; the log has the kind, and no key."""
    with speaking(MP3) as server:
        async with opened(tmp_path, server.url, key="") as shelf:
            assert (await speak(shelf, use))["content"] == (
                "Error: 'tts' is not configured; the operator has to do that"
            )
        async with opened(tmp_path, server.url, more="") as shelf:
            told = (await speak(shelf, use))["content"]
            assert told == "Error: No voice_id specified and no default configured"
        async with opened(tmp_path, server.url, more='provider = "other"') as shelf:
            assert "is not configured" in (await speak(shelf, use))["content"]
    assert server.received == []
    said = capfd.readouterr()
    assert KEY not in said.out + said.err


async def test_settings_of_its_own_go_first(tmp_path: Path, use: ToolUse) -> None:
    """The second Lucyd had them in a file beside the plugin."""
    own = tmp_path / "own"
    with speaking(MP3) as server:
        put(own, "elevenlabs.py", (IN_THE_BOX / "elevenlabs.py").read_text("utf-8"))
        put(
            own,
            "elevenlabs.toml",
            f'api_key_env = "OTHER_SPEECH_KEY"\napi_url = "{server.url}/{{voice_id}}"\ndefault_voice_id = "v2"\n'
            "[voice]\nspeed = 1.2\nstability = 0.1\nsimilarity_boost = 0.2\n",
        )
        (tmp_path / "ws").mkdir()
        toml = f'workspace = "{tmp_path}/ws"\n'
        given = terms(own, "tts", toml=toml, environment={"OTHER_SPEECH_KEY": KEY})
        async with open_plugins(given, output_limit=30_000, manner=QUICK) as shelf:
            assert (await speak(shelf, use, output_file="a.mp3"))["content"].startswith("Generated audio")
    assert server.received[0].path == "/v2"
    assert server.received[0].headers["xi-api-key"] == KEY
    assert server.received[0].body["voice_settings"] == {"speed": 1.2, "stability": 0.1, "similarity_boost": 0.2}
