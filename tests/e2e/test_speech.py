"""People speak, and the agent speaks, through real workers and services of speech on their own wires."""

import asyncio
import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.scripted_model_server import Hang, Say, Script, ScriptedModelServer, Use
from tests.speech_server import SpeechServer, speaking
from tests.stack import Stack, async_client, client, model_toml, open_stack, text_of, wait_until

KEYS = {"LUCYD_OPENAI_KEY": "canary-of-hearing", "LUCYD_ELEVENLABS_KEY": "canary-of-speaking"}
VOICE = {
    "content_type": "audio/ogg",
    "filename": "voice.ogg",
    "is_voice": True,
    "data": base64.b64encode(b"OggS some words").decode(),
}
HEARD = "[voice message]: Buy some milk."


@dataclass(frozen=True)
class Services:
    """What the plugins call."""

    hearing: SpeechServer
    voice: SpeechServer


@pytest.fixture
def services() -> Iterator[Services]:
    text = json.dumps({"text": "Buy some milk."}).encode()
    with speaking(text) as hearing, speaking(b"ID3 a voice") as voice:
        yield Services(hearing, voice)


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    scripts: dict[str, Script] = {
        "slow": [Hang(2.0), Say("I have heard it.")],
        "speak": [
            Use(
                [
                    ("tts", {"text": "Hello.", "output_file": "hello.mp3"}),
                    ("tts", {"text": ""}),
                    ("tts", {"text": "Hello.", "send_to": "default"}),
                    ("tts", {"text": "Hello.", "send_to": "Nobody"}),
                ]
            ),
            Say("Listen."),
        ],
    }
    with ScriptedModelServer(scripts).in_thread() as server:
        yield server


@pytest.fixture
def stack(
    models: ScriptedModelServer, services: Services, tmp_path: Path, database_url: str, redis_url: str
) -> Iterator[Stack]:
    extra = f"""
[tools]
enabled = ["tts"]

[tools.tts]
default_voice_id = "voice-1"
api_url = "{services.voice.url}/v1/text-to-speech/{{voice_id}}"

[stt]
backend = "openai"

[stt.openai]
api_url = "{services.hearing.url}/v1/audio/transcriptions"
"""
    toml = model_toml("anthropic", models.base_url("anthropic"), extra=extra)
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        opened.environment.update(KEYS)
        yield opened


def test_what_a_person_says_is_what_the_model_reads(stack: Stack, services: Services) -> None:
    """In this message, in the next one's history, and in what people read of the session; no key is anywhere."""
    gateway, (worker,) = stack.gateway(), stack.workers()
    with client(gateway) as http:
        reply = http.post("/api/v1/chat", json={"message": "Listen:", "attachments": [VOICE]}).json()
        assert HEARD in reply["reply"]
        events = http.get(f"/api/v1/sessions/{reply['session_id']}/history?full=true").text
        assert "Buy some milk." in events
        assert "can't be heard" not in events
    assert len(services.hearing.received) == 1
    assert services.hearing.received[0].headers["authorization"] == "Bearer canary-of-hearing"
    assert not any(key in text_of(worker) + text_of(gateway) + events for key in KEYS.values())


async def test_what_was_heard_is_not_bought_again_when_the_worker_is_killed(
    stack: Stack, models: ScriptedModelServer, services: Services
) -> None:
    """Kill -9 while the model thinks: the heir asks the model with the same words."""
    gateway = stack.gateway()
    (first,) = stack.workers()
    async with async_client(gateway) as http:
        body = {"message": "[[script:slow]]", "attachments": [VOICE]}
        waiting = asyncio.create_task(http.post("/api/v1/chat", json=body))
        await asyncio.to_thread(wait_until, lambda: sum(models.calls.values()) == 1, "the model was asked")
        await asyncio.to_thread(first.kill)
        await asyncio.to_thread(stack.workers)
        reply = (await waiting).json()
    assert reply["reply"] == "I have heard it."
    assert len(services.hearing.received) == 1
    asked = [str(request["body"]["messages"]) for request in models.requests]
    assert len(asked) == 2
    assert all(HEARD in text for text in asked)


def test_the_agent_speaks(stack: Stack, services: Services) -> None:
    """The plugin in the box, over the wire of a model and that of the service."""
    gateway, (worker,) = stack.gateway(), stack.workers()
    with client(gateway) as http:
        reply = http.post("/api/v1/chat", json={"message": "[[script:speak]]"}).json()
        assert reply["reply"] == "Listen."
        events = http.get(f"/api/v1/sessions/{reply['session_id']}/history?full=true").json()["events"]
        fetched = http.get(reply["attachments"][0]["url"])
    results = [event["content"] for event in events if event["type"] == "tool_result"]
    file = stack.workspace / "hello.mp3"
    assert results == [
        f"Generated audio (11 bytes)\n[attachment: {file}]",
        "Error: text is empty",
        "Attached voice.mp3: it goes out with your reply.",
        "Error: Unknown contact 'Nobody'. Contacts: none are configured",
    ]
    assert file.read_bytes() == b"ID3 a voice"
    assert [(each["filename"], each["content_type"]) for each in reply["attachments"]] == [("voice.mp3", "audio/mpeg")]
    assert fetched.content == b"ID3 a voice"
    assert len(services.voice.received) == 2  # nothing is bought for a call that can't be done
    assert services.voice.received[0].headers["xi-api-key"] == "canary-of-speaking"
    assert not any(key in text_of(worker) for key in KEYS.values())
