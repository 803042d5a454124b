"""The official SDK of OpenAI talks to the agent by base URL and key alone: real processes, a model by script."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import psycopg
import pytest
from openai import OpenAI

from tests.scripted_model_server import Asked, Fail, Hang, Say, Script, ScriptedModelServer, Step, Tokens, Use
from tests.stack import TOKEN, Process, Stack, client, model_toml, open_stack, wait_until

COUNTED = Tokens(input=100, output=20, cache_read=30)
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
    "awAAAABJRU5ErkJggg=="
)


def words(content: str) -> str:
    """What was said, without the time that stands above it."""
    return content.partition("UTC]\n")[2]


def remembers(asked: Asked) -> Step:
    """Answers with everything that people have said to it in this conversation."""
    said = [words(str(message["content"])) for message in asked.body["messages"] if message["role"] == "user"]
    return Say(f"{len(said)} so far: {' | '.join(said)}", tokens=COUNTED)


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    """A model server that knows the conversations of this file."""
    scripts: dict[str, Script] = {
        "remember": remembers,
        "looks": [Use([("read", {"file_path": "MEMORY.md"})], text="Let me look."), Say("Nothing there.")],
        "removes": [Use([("exec", {"command": "echo gone"})]), Say("It is gone.")],
        "broken": [Fail(400, message="this model does not like you")],
        "slow": [Hang(60)],
    }
    with ScriptedModelServer(scripts).in_thread() as server:
        yield server


@pytest.fixture
def stack(
    request: pytest.FixtureRequest, models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str
) -> Iterator[Stack]:
    """A person is asked before commands run; more of the configuration may be a test's own."""
    extra = f"\n[tools]\nask_first = ['exec']\n{getattr(request, 'param', '')}"
    toml = model_toml("openai", models.base_url("openai"), extra=extra)
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        yield opened


def sdk(gateway: Process, **more: Any) -> OpenAI:
    return OpenAI(**{"base_url": f"{gateway.url}/v1", "api_key": TOKEN, "timeout": 30, **more})


def say(text: str, role: str = "user") -> Any:
    return {"role": role, "content": text}


def test_a_completion_plain_and_streamed(stack: Stack) -> None:
    """The text, the tokens and the end are where every client looks for them; tools are only told to who asks."""
    gateway, _ = stack.gateway(), stack.workers()
    with sdk(gateway) as ai:
        (model,) = ai.models.list()
        assert (model.id, model.owned_by) == ("testbert", "lucyd")
        assert ai.models.retrieve("testbert").id == "testbert"
        whole = ai.chat.completions.create(model=model.id, messages=[say("[[script:remember]] hello")])
        assert whole.choices[0].message.content == "1 so far: [[script:remember]] hello"
        assert whole.choices[0].finish_reason == "stop"
        assert whole.usage is not None
        assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (130, 20)
        assert whole.usage.prompt_tokens_details is not None
        assert whole.usage.prompt_tokens_details.cached_tokens == 30
        looked: Any = {"model": "lucyd", "messages": [say("[[script:looks]]")], "stream": True}
        chunks = list(ai.chat.completions.create(**looked, stream_options={"include_usage": True}))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == "Let me look.\n\nNothing there."
        assert chunks[-1].usage is not None
        assert chunks[-1].choices == []
        assert chunks[-1].usage.total_tokens > 0
        assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 2) + ["stop"]
        shown = list(ai.chat.completions.create(**looked, extra_body={"lucyd": {"tools": True}}))
        told = [beyond["event"] for chunk in shown if "event" in (beyond := (chunk.model_extra or {}).get("lucyd", {}))]
        assert told == ["tool_started", "tool_finished"]
        with ai.chat.completions.stream(model="lucyd", messages=[say("[[script:remember]]")]) as stream:
            assert stream.get_final_completion().choices[0].message.content == "1 so far: [[script:remember]]"


def test_whom_the_agent_remembers(stack: Stack) -> None:
    """A named user has one conversation over all requests and APIs; nobody else is in it."""
    gateway, _ = stack.gateway(), stack.workers()
    turns: Any = {"model": "lucyd", "messages": [say("one"), say("fine", "assistant"), say("[[script:remember]] two")]}
    with sdk(gateway) as ai, client(gateway) as http:
        ai.chat.completions.create(model="lucyd", messages=[say("one")], user="ada")
        ada = ai.chat.completions.create(**turns, user="ada").choices[0].message.content or ""
        assert ada == "2 so far: one | [[script:remember]] two"
        over = http.post("/api/v1/chat", json={"message": "[[script:remember]]", "sender": "ada"}).json()["reply"]
        assert over.startswith("3 so far: one |")
        header = {"X-Lucyd-Conversation": "eve"}
        eve = ai.chat.completions.create(**turns, user="ada", extra_headers=header).choices[0].message.content or ""
        assert eve == "1 so far: [[script:remember]] two"
        alone = ai.chat.completions.create(**turns).choices[0].message.content or ""
        assert alone.startswith("1 so far: [context] Said before in this conversation:\nuser: one\nassistant: fine")


def test_responses_go_on_from_the_one_before(stack: Stack) -> None:
    """Plain and streamed; each can be fetched later under its id."""
    gateway, _ = stack.gateway(), stack.workers()
    with sdk(gateway) as ai:
        first = ai.responses.create(model="lucyd", input="my cat is Tom", instructions="Be kind.")
        assert first.output_text.endswith("[context] Be kind.\nmy cat is Tom")
        second = ai.responses.create(model="lucyd", input="[[script:remember]]", previous_response_id=first.id)
        assert second.output_text == "2 so far: [context] Be kind.\nmy cat is Tom | [[script:remember]]"
        assert second.previous_response_id == first.id
        assert second.usage is not None
        assert (second.usage.input_tokens, second.usage.input_tokens_details.cached_tokens) == (130, 30)
        with ai.responses.stream(
            model="lucyd", input=[say("[[script:remember]]")], previous_response_id=second.id
        ) as stream:
            text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
            third = stream.get_final_response()
        assert text == third.output_text
        assert text.startswith("3 so far: [context] Be kind.\nmy cat is Tom |")
        fetched = ai.responses.retrieve(third.id)
        assert (fetched.status, fetched.output_text) == ("completed", text)
        new = ai.responses.create(model="lucyd", input="[[script:remember]]")
        assert new.output_text == "1 so far: [[script:remember]]"


def test_a_response_has_one_text_however_it_is_read(stack: Stack) -> None:
    """In pieces, at their end, at once, or fetched: with what was said beside the call of a tool."""
    gateway, _ = stack.gateway(), stack.workers()
    text = "Let me look.\n\nNothing there."
    with sdk(gateway) as ai:
        plain = ai.responses.create(model="lucyd", input="[[script:looks]]")
        with ai.responses.stream(model="lucyd", input="[[script:looks]]") as stream:
            pieces = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
            streamed = stream.get_final_response()
        assert [plain.output_text, pieces, streamed.output_text] == [text] * 3
        assert [ai.responses.retrieve(one.id).output_text for one in (plain, streamed)] == [text] * 2


def test_a_response_is_whole_when_its_steps_are_forgotten_and_not_found_when_its_run_is(stack: Stack) -> None:
    """Retention takes the steps after a day and the run after a month; what was said stands in the session, too."""
    gateway, _ = stack.gateway(), stack.workers()
    with sdk(gateway) as ai, psycopg.connect(stack.database_url, autocommit=True) as database:
        plain = ai.responses.create(model="lucyd", input="[[script:looks]]")
        assert database.execute("delete from run_steps").rowcount > 0
        fetched = ai.responses.retrieve(plain.id)
        assert (fetched.status, fetched.output_text) == ("completed", "Let me look.\n\nNothing there.")
        assert fetched.usage == plain.usage
        database.execute("delete from runs")
        with pytest.raises(openai.NotFoundError, match="no such response") as gone:
            ai.responses.retrieve(plain.id)
        assert (gone.value.type, gone.value.code) == ("invalid_request_error", "not_found")
        with pytest.raises(openai.NotFoundError, match="no such response") as lost:
            ai.responses.create(model="lucyd", input="and?", previous_response_id=plain.id)
        assert (lost.value.code, lost.value.param) == ("previous_response_not_found", "previous_response_id")


def test_a_run_that_asks_first_is_answered_in_the_next_message(stack: Stack) -> None:
    """The question is what the agent says; in a stream, too, and there the answer is told when it is there."""
    gateway, _ = stack.gateway(), stack.workers()
    with sdk(gateway) as ai:
        asks = ai.responses.create(model="lucyd", input="[[script:removes]]")
        assert asks.output_text.startswith("May I use 'exec' with command = echo gone?")
        assert (asks.model_extra or {})["lucyd"]["state"] == "waiting"
        assert ai.responses.retrieve(asks.id).output_text == asks.output_text
        assert (
            ai.responses.create(model="lucyd", input="yes", previous_response_id=asks.id).output_text == "It is gone."
        )
        for answer, means in (("yes", "It is gone."), ("no", "It is gone.")):
            question = "".join(
                chunk.choices[0].delta.content or ""
                for chunk in ai.chat.completions.create(
                    model="lucyd", messages=[say("[[script:removes]]")], user="bob", stream=True
                )
            )
            assert question.startswith("May I use 'exec'")
            stream = ai.chat.completions.create(model="lucyd", messages=[say(answer)], user="bob", stream=True)
            assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == means


def test_an_image_comes_along_and_nothing_is_fetched(stack: Stack) -> None:
    """It is stored with its message, whichever form it came in; an address is refused before anything is."""
    gateway, _ = stack.gateway(), stack.workers()
    image = {"type": "image_url", "image_url": {"url": PIXEL}}
    elsewhere = {"type": "image_url", "image_url": {"url": f"{gateway.url}/healthz"}}
    with sdk(gateway) as ai:
        seen: Any = [{"role": "user", "content": [{"type": "text", "text": "what is it?"}, image]}]
        assert "what is it?" in str(ai.chat.completions.create(model="lucyd", messages=seen).choices[0].message.content)
        item: Any = [{"role": "user", "content": [{"type": "input_image", "image_url": PIXEL, "detail": "auto"}]}]
        assert ai.responses.create(model="lucyd", input=item).status == "completed"
        far: Any = [{"role": "user", "content": [elsewhere]}]
        with pytest.raises(openai.BadRequestError):
            ai.chat.completions.create(model="lucyd", messages=far)
    with psycopg.connect(stack.database_url) as database:
        stored = database.execute("select content_type, count(*) from blobs group by 1").fetchall()
    assert stored == [("image/png", 2)]


def test_errors_are_raised_as_the_sdk_knows_them(stack: Stack, models: ScriptedModelServer) -> None:
    """Each status has its class; what has run and failed is not sent again by the SDK itself."""
    gateway, _ = stack.gateway(), stack.workers()
    messages = [say("[[script:broken]]")]
    with sdk(gateway) as ai:
        with sdk(gateway, api_key="sk-nobody") as stranger, pytest.raises(openai.AuthenticationError) as refused:
            stranger.models.list()
        assert refused.value.code == "invalid_api_key"
        for ask in (
            lambda: ai.models.retrieve("gpt-5"),
            lambda: ai.chat.completions.create(model="gpt-5", messages=messages),
        ):
            with pytest.raises(openai.NotFoundError) as unknown:
                ask()
            assert unknown.value.code == "model_not_found"
        with pytest.raises(openai.NotFoundError) as nothing:
            ai.responses.create(model="lucyd", input="hi", previous_response_id="resp_" + "0" * 32)
        assert nothing.value.param == "previous_response_id"
        with pytest.raises(openai.NotFoundError, match="no such response"):
            ai.responses.retrieve("resp_nothing")
        with pytest.raises(openai.NotFoundError, match="not found"):
            ai.files.list()
        with pytest.raises(openai.NotFoundError, match="no embedder is configured"):
            ai.embeddings.create(model="lucyd", input="hi")
        with pytest.raises(openai.BadRequestError) as several:
            ai.chat.completions.create(model="lucyd", messages=messages, n=2)
        assert (several.value.param, several.value.type) == ("n", "invalid_request_error")
        with pytest.raises(openai.InternalServerError, match="does not like you") as failed:
            ai.chat.completions.create(model="lucyd", messages=messages)
        assert failed.value.code == "run_failed"
        assert sum(models.calls.values()) == 1
        with pytest.raises(openai.APIError, match="does not like you"):
            list(ai.chat.completions.create(model="lucyd", messages=messages, stream=True))
        ended = [event.type for event in ai.responses.create(model="lucyd", input="[[script:broken]]", stream=True)]
        assert ended[-1] == "response.failed"


@pytest.mark.parametrize(
    "stack", ["[run]\nwait_seconds = 2\n[limits]\nopen_runs_per_principal = 1\n"], indirect=True, ids=["narrow"]
)
def test_a_reply_that_takes_too_long_names_its_run_and_more_than_may_wait_is_refused(stack: Stack) -> None:
    """The run goes on: it is found under its id, and another message meets the bound on open runs meanwhile."""
    gateway, _ = stack.gateway(), stack.workers()
    with sdk(gateway) as ai, client(gateway) as http:
        with pytest.raises(openai.APIStatusError) as late:
            ai.chat.completions.create(model="lucyd", messages=[say("[[script:slow]]")])
        assert late.value.status_code == 408
        run = late.value.response.json()["lucyd"]["run_id"]
        wait_until(lambda: http.get(f"/api/v1/runs/{run}").json()["state"] == "running", "it is worked on")
        with sdk(gateway, max_retries=0) as hasty, pytest.raises(openai.RateLimitError) as full:
            hasty.chat.completions.create(model="lucyd", messages=[say("and this?")])
        assert (full.value.type, full.value.code) == ("rate_limit_error", "rate_limit_exceeded")
        assert int(full.value.response.headers["Retry-After"]) >= 1
        assert ai.responses.retrieve(f"resp_{run.replace('-', '')}").status == "in_progress"
        http.post(f"/api/v1/runs/{run}/cancel")
        assert ai.responses.retrieve(f"resp_{run.replace('-', '')}").status == "cancelled"


def test_the_same_key_gives_the_same_answer(stack: Stack) -> None:
    """A request that is repeated with its key makes no second run, and its body is the same to the last letter."""
    gateway, _ = stack.gateway(), stack.workers()
    with sdk(gateway) as ai:
        header = {"Idempotency-Key": "k-1"}
        ask: Any = {"model": "lucyd", "messages": [say("hello")], "extra_headers": header}
        first, second = (ai.chat.completions.create(**ask) for _ in range(2))
        assert first.model_dump() == second.model_dump()
        with pytest.raises(openai.ConflictError):
            ai.chat.completions.create(model="lucyd", messages=[say("something else")], extra_headers=header)
        stream = ai.chat.completions.create(**ask, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == first.choices[0].message.content
