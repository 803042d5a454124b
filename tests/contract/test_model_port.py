"""One suite for every way a model can be reached: both wires, streamed and whole, over real HTTP."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, cast
from uuid import uuid4

import pytest

from shared.adapters.models.open_model import open_models
from shared.domain.chat import AssistantMessage, Message, ToolCall, UserMessage
from shared.domain.effect import ToolSpec
from shared.domain.money import Rates, Usage
from shared.domain.provider import ModelSpec
from shared.errors import ConfigError, ModelRejected, ModelTimeout, TryLater
from shared.ports.model import DeltaKind, Model, ModelAnswer, ModelRequest
from tests.scripted_model_server import (
    Asked,
    BreakMidStream,
    Fail,
    Hang,
    Say,
    ScriptedModelServer,
    Step,
    Tokens,
    Use,
    Wire,
)

KEY = "sk-never-to-be-shown-1234"
RATES = Rates(Decimal("3"), Decimal("15"), Decimal("0.30"), Decimal("3.75"))
TOOLS = [
    ToolSpec("read", "Read a file.", {"type": "object", "properties": {"file_path": {"type": "string"}}}),
    ToolSpec("exec", "Run a command.", {}),
]


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedModelServer]:
    with ScriptedModelServer().in_thread() as running:
        yield running


@dataclass
class Wired:
    """A model and the server behind it."""

    model: Model
    server: ScriptedModelServer
    wire: Wire
    streams: bool

    async def ask(
        self, *messages: Message, timeout: timedelta = timedelta(seconds=10), **rest: Any
    ) -> tuple[ModelAnswer, list[tuple[DeltaKind, str]]]:
        heard: list[tuple[DeltaKind, str]] = []
        request = ModelRequest(
            call_id=rest.pop("call_id", None) or uuid4(),
            system=[{"tier": "stable", "text": "Be brief."}],
            messages=messages,
            tools=TOOLS,
            timeout=timeout,
        )
        answer = await self.model.answer(request, lambda kind, piece: heard.append((kind, piece)))
        return answer, heard

    def script(self, *steps: Step) -> UserMessage:
        """Register a script under a name of its own and return the message that calls for it."""
        name = f"s{uuid4().hex}"
        self.server.scripts[name] = steps
        return user(f"[[script:{name}]] please")

    @property
    def last_body(self) -> dict[str, Any]:
        return cast(dict[str, Any], self.server.requests[-1]["body"])


def user(text: str) -> UserMessage:
    return {"role": "user", "content": text}


def said(answer: ModelAnswer) -> AssistantMessage:
    message: AssistantMessage = {"role": "assistant", "text": answer.text, "tool_calls": list(answer.tool_calls)}
    if answer.native is not None:
        message["native"] = answer.native
    return message


def spec_of(server: ScriptedModelServer, wire: Wire, *, streams: bool) -> ModelSpec:
    return ModelSpec(
        "primary",
        wire,
        "scripted",
        base_url=server.base_url(wire),
        api_key=KEY,
        rates=RATES,
        supports_streaming=streams,
        cache_control=True,
        headers={"X-Tenant": "blue"},
    )


@pytest.fixture(
    params=[("anthropic", True), ("anthropic", False), ("openai", True), ("openai", False)],
    ids=["anthropic-streamed", "anthropic-plain", "openai-streamed", "openai-plain"],
)
async def wired(server: ScriptedModelServer, request: pytest.FixtureRequest) -> AsyncIterator[Wired]:
    wire, streams = request.param
    async with open_models({"primary": spec_of(server, wire, streams=streams)}) as models:
        yield Wired(models["primary"], server, wire, streams)


async def test_two_tools_at_once_go_out_and_come_back_in_one_conversation(wired: Wired) -> None:
    """The tool loop stands on this: ids match, arguments survive, an error result is an ordinary result."""
    ask = wired.script(
        Use([("read", {"file_path": "a b.md"}), ("exec", {"command": 'echo "ü"'})], text="Let me look."), Say("Done.")
    )
    first, _ = await wired.ask(ask)
    assert first.stop_reason == "tool_use"
    assert first.text == "Let me look."
    assert [(call["name"], call["arguments"]) for call in first.tool_calls] == [
        ("read", {"file_path": "a b.md"}),
        ("exec", {"command": 'echo "ü"'}),
    ]
    one, two = (call["id"] for call in first.tool_calls)
    second, _ = await wired.ask(
        ask,
        said(first),
        {
            "role": "tool_results",
            "results": [
                {"tool_use_id": one, "content": "     1\thello"},
                {"tool_use_id": two, "content": "Error: no shell", "is_error": True},
            ],
        },
    )
    assert (second.text, second.stop_reason, second.tool_calls) == ("Done.", "end_turn", [])


async def test_pieces_arrive_only_where_streaming_is_on_and_add_up_to_the_text(wired: Wired) -> None:
    """Viewers see the pieces, the store keeps the text; the two must not tell different stories."""
    wired.server.chunk_interval = 0.005  # what comes together is told together
    answer, heard = await wired.ask(wired.script(Say("One two three four five six seven.")))
    wired.server.chunk_interval = 0.0
    assert answer.text == "One two three four five six seven."
    if wired.streams:
        assert len(heard) > 1
        assert "".join(piece for _, piece in heard) == answer.text
    else:
        assert heard == []


async def test_every_token_is_counted_once_and_paid_to_the_last_digit(wired: Wired) -> None:
    """Caps and bills are made of these numbers; the four kinds must not overlap."""
    answer, _ = await wired.ask(wired.script(Say("hi", tokens=Tokens(1009, 211, 70_001, 307))))
    assert answer.usage == Usage(1009, 211, 70_001, 307)
    assert wired.model.spec.rates.cost(answer.usage) == Decimal("0.02834355")


async def test_usage_that_nobody_counted_is_estimated_and_not_free(wired: Wired) -> None:
    """A local server that counts nothing must not make money caps blind."""
    answer, _ = await wired.ask(wired.script(Say("x" * 400, uncounted=True)))
    assert answer.usage.output == 100
    assert answer.usage.input > 0


@pytest.mark.parametrize("status", [429, 500, 503, 529])
async def test_passing_refusals_say_when_to_come_back(wired: Wired, status: int) -> None:
    with pytest.raises(TryLater, match=str(status)) as caught:
        await wired.ask(wired.script(Fail(status, retry_after=1.5)))
    assert caught.value.after == 1.5


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_final_refusals_tell_the_reason_and_never_the_key(wired: Wired, status: int) -> None:
    """People read this sentence in their chat; some servers repeat the key or the whole request in theirs."""
    with pytest.raises(ModelRejected, match=rf"{status}\)?: bad") as caught:
        await wired.ask(wired.script(Fail(status, message=f"bad key {KEY} " + "body " * 500)))
    assert KEY not in str(caught.value)
    assert len(str(caught.value)) < 400


async def test_a_connection_that_breaks_in_the_answer_is_tried_later(wired: Wired) -> None:
    with pytest.raises(TryLater):
        await wired.ask(wired.script(BreakMidStream(after_chars=30)))


async def test_an_answer_that_stops_too_early_is_not_taken_for_whole(wired: Wired) -> None:
    """The connection ends in good form here; only the end marker is missing."""
    with pytest.raises(TryLater, match="broke off"):
        await wired.ask(wired.script(BreakMidStream(after_chars=30, cleanly=True)))


async def test_a_provider_that_cannot_be_reached_is_tried_later(wired: Wired) -> None:
    spec = replace(wired.model.spec, base_url="http://127.0.0.1:9/v1")
    async with open_models({"primary": spec}) as models:
        with pytest.raises(TryLater, match="ConnectError"):
            await Wired(models["primary"], wired.server, wired.wire, wired.streams).ask(user("hello"))


async def test_silence_ends_with_the_time_of_the_call(wired: Wired) -> None:
    with pytest.raises(ModelTimeout, match=r"within 0\.2 s"):
        await wired.ask(wired.script(Hang(5), Say("late")), timeout=timedelta(seconds=0.2))


async def test_a_cancelled_call_leaves_the_model_usable(wired: Wired) -> None:
    """People cancel runs; the client and its connections serve all the others."""
    call = asyncio.create_task(wired.ask(wired.script(Hang(5), Say("late"))))
    await asyncio.sleep(0.1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    answer, _ = await wired.ask(user("still there?"))
    assert answer.text == "echo: still there?"


async def test_one_call_is_one_request_and_carries_its_id(wired: Wired) -> None:
    """Every request has its own reservation of money, so the SDK must not try again by itself."""
    call_id = uuid4()
    with pytest.raises(TryLater):
        await wired.ask(wired.script(Fail(500)), call_id=call_id)
    assert wired.server.calls[str(call_id)] == 1
    assert wired.server.requests[-1]["headers"]["x-tenant"] == "blue"


async def test_an_image_goes_out_with_its_text(wired: Wired) -> None:
    message: UserMessage = {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="},
        ],
    }
    answer, _ = await wired.ask(message)
    assert answer.text == "echo: What is this?"
    assert "iVBORw0KGgo=" in str(wired.last_body)


async def test_people_who_write_twice_are_heard_in_one_message(wired: Wired) -> None:
    """A person may write while the tools run; the vendors refuse users who follow each other."""
    first, _ = await wired.ask(ask := wired.script(Use([("read", {"file_path": "x"})]), Say("Done.")))
    results: Message = {
        "role": "tool_results",
        "results": [{"tool_use_id": first.tool_calls[0]["id"], "content": ""}],
    }
    answer, _ = await wired.ask(user("before"), ask, said(first), results, user("and also this"), user("and that"))
    assert answer.text.split() == ["echo:", "and", "also", "this", "and", "that"]


async def test_thinking_is_kept_apart_from_the_answer(wired: Wired) -> None:
    answer, heard = await wired.ask(wired.script(Say("42.", thinking="Six times seven, then.")))
    assert (answer.text, answer.thinking) == ("42.", "Six times seven, then.")
    if wired.streams:
        assert "".join(piece for kind, piece in heard if kind == "thinking") == answer.thinking


async def test_a_server_that_answers_whole_though_asked_to_stream_is_understood(wired: Wired) -> None:
    answer, heard = await wired.ask(wired.script(Say("All at once.", unstreamed=True)))
    assert answer.text == "All at once."
    assert heard == ([("text", "All at once.")] if wired.streams else [])


async def test_a_model_cut_short_says_so(wired: Wired) -> None:
    stop = "max_tokens" if wired.wire == "anthropic" else "length"
    answer, _ = await wired.ask(wired.script(Say("half of", stop=stop)))
    assert answer.stop_reason == "max_tokens"


async def test_many_calls_at_once_do_not_mix(wired: Wired) -> None:
    """One client serves a whole worker."""

    def name_back(asked: Asked) -> Step:
        return Say(asked.text[::-1])

    wired.server.scripts["mirror"] = name_back
    texts = [f"[[script:mirror]] {number}" for number in range(20)]
    answers = await asyncio.gather(*(wired.ask(user(text)) for text in texts))
    assert [answer.text for answer, _ in answers] == [text[::-1] for text in texts]


@pytest.mark.parametrize("streams", [True, False])
async def test_signed_thinking_comes_back_to_its_provider_exactly(server: ScriptedModelServer, streams: bool) -> None:
    """Anthropic refuses a conversation whose thinking was touched; the server checks the signature as it does."""
    spec = replace(
        spec_of(server, "anthropic", streams=streams), thinking_mode="budgeted", thinking_budget=2048, max_tokens=100
    )
    async with open_models({"primary": spec}) as models:
        wired = Wired(models["primary"], server, "anthropic", streams)
        ask = wired.script(
            Use([("read", {"file_path": "x"})], text="Hm.", thinking="  Let me “see”…\n\n", redacted="EqQBCgIYAg=="),
            Say("Seen."),
        )
        first, _ = await wired.ask(ask)
        assert first.native is not None
        results: Message = {
            "role": "tool_results",
            "results": [{"tool_use_id": first.tool_calls[0]["id"], "content": "ok"}],
        }
        second, _ = await wired.ask(ask, said(first), results)
    assert second.text == "Seen."
    body = wired.last_body
    assert body["messages"][1]["content"] == first.native["content"]
    assert [block["type"] for block in first.native["content"]] == ["thinking", "redacted_thinking", "text", "tool_use"]
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    assert body["max_tokens"] == 2148


@pytest.mark.parametrize("kind", ["overloaded_error", "api_error", "rate_limit_error"])
async def test_an_error_in_the_middle_of_a_stream_is_passing(server: ScriptedModelServer, kind: str) -> None:
    """Status 200 was sent long before; overload must still be retried."""
    async with open_models({"primary": spec_of(server, "anthropic", streams=True)}) as models:
        wired = Wired(models["primary"], server, "anthropic", streams=True)
        expected = {"overloaded_error": "529", "api_error": "500", "rate_limit_error": "429"}[kind]
        with pytest.raises(TryLater, match=expected):
            await wired.ask(wired.script(BreakMidStream(after_chars=20, error=kind)))


async def test_think_tags_cut_by_the_stream_are_still_tags(server: ScriptedModelServer) -> None:
    """Local models write their thinking between tags, and the stream cuts anywhere."""
    async with open_models({"primary": spec_of(server, "openai", streams=True)}) as models:
        wired = Wired(models["primary"], server, "openai", streams=True)
        answer, heard = await wired.ask(wired.script(Say("<think>quietly</think>\n\nAloud.")))
    assert (answer.text, answer.thinking) == ("Aloud.", "quietly")
    assert "".join(piece for kind, piece in heard if kind == "text") == "Aloud."


async def test_no_key_is_needed_for_a_local_server(server: ScriptedModelServer) -> None:
    for wire in ("anthropic", "openai"):
        spec = replace(spec_of(server, wire, streams=True), api_key=None)
        async with open_models({"primary": spec}) as models:
            answer, _ = await Wired(models["primary"], server, wire, streams=True).ask(user("hi"))
        assert answer.text == "echo: hi"


async def test_what_could_never_be_sent_stops_the_start_with_every_reason() -> None:
    """A key with a line break from an env file, an address without http: both would else look like lost connections."""
    specs = {
        "one": ModelSpec("one", "openai", "m", base_url="localhost:8080"),
        "two": ModelSpec("two", "openai", "m", api_key="sk-secret\n", headers={"X": "ü"}),
    }
    with pytest.raises(ConfigError) as caught:
        async with open_models(specs):
            pass
    assert len(caught.value.errors) == 3
    assert "sk-secret" not in str(caught.value)


async def test_a_conversation_may_change_its_provider(wired: Wired) -> None:
    """Ids of some servers hold characters that others refuse."""
    call: ToolCall = {"id": "functions.exec:0", "name": "exec", "arguments": {"n": 2**70}}
    answer, _ = await wired.ask(
        user("first"),
        {"role": "assistant", "text": "", "tool_calls": [call], "native": {"provider": "another", "content": []}},
        {"role": "tool_results", "results": [{"tool_use_id": "functions.exec:0", "content": "ok"}]},
        user("hello"),
    )
    assert answer.text == "echo: hello"
