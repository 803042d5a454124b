"""One door for all tools: whatever goes wrong behind it, the model gets a sentence and the run goes on."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from services.agent_worker.edge.picture_box import PictureBox
from services.agent_worker.edge.toolbox import LocalToolbox
from services.agent_worker.ports import Pictured, Proof, Tool, Toolbox, ToolFailed, ToolUse, Verdict
from shared.adapters.inmemory.blobs import InMemoryBlobs
from shared.adapters.inmemory.tables import Tables
from shared.adapters.system_clock import SystemClock
from shared.domain.attachment import Attachment
from shared.domain.chat import ToolCall
from shared.domain.effect import ToolSpec
from shared.errors import TryLater

SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "times": {"type": "integer"}},
    "required": ["text"],
}


class EchoTool:
    """Says what it heard."""

    def __init__(self, name: str = "echo") -> None:
        self.spec = ToolSpec(name, "Say it again.", SCHEMA, "read")

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        return str(arguments["text"]) * int(arguments.get("times", 1))


class FailingTool(EchoTool):
    """Raises what it was made with."""

    def __init__(self, error: BaseException) -> None:
        super().__init__("failing")
        self._error = error

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        raise self._error


class CameraTool:
    """Gives back an image of so many bytes."""

    spec = ToolSpec("echo", "Take a picture.", SCHEMA, "read")

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> Pictured:
        return Pictured(str(arguments["text"]), [Attachment("image/png", b"x" * int(arguments["times"]))])


class FullBlobs(InMemoryBlobs):
    """Nothing can be stored now."""

    async def keep(self, id: UUID, run: UUID, attachment: Attachment) -> None:
        raise TryLater("Postgres is away")


class SwitchTool(EchoTool):
    """Proves by a switch."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__("switch")
        self._error = error

    async def prove(self, arguments: Mapping[str, Any], use: ToolUse) -> Proof | None:
        if self._error:
            raise self._error
        return {"times": arguments.get("times")}

    async def verify(self, proof: Proof) -> Verdict:
        if self._error:
            raise self._error
        return "done" if proof["times"] == 3 else "not_done"


class SlowTool(EchoTool):
    """Counts how many of its calls run at once."""

    running = 0
    most = 0

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.01)
        self.running -= 1
        return "ok"


def call(name: str, **arguments: Any) -> ToolCall:
    return {"id": "call-1", "name": name, "arguments": arguments}


def box(*tools: Tool, output_truncation: int = 1000, max_parallel: int = 4) -> Toolbox:
    return LocalToolbox(tools, output_truncation=output_truncation, max_parallel=max_parallel)


async def test_a_call_reaches_its_tool_with_arguments_as_the_schema_wants_them(use: ToolUse) -> None:
    """The result carries the id of the call."""
    result = await box(EchoTool()).use(call("echo", text="ha", times="2"), use)
    assert result == {"tool_use_id": "call-1", "content": "haha"}


def test_tools_are_offered_in_the_order_they_were_given() -> None:
    """A changing order would spoil the provider's prompt cache."""
    tools = [EchoTool(name) for name in ("b", "a", "c")]
    toolbox = box(*tools)
    assert [spec.name for spec in toolbox.specs()] == ["b", "a", "c"]
    assert toolbox.spec("a") == tools[1].spec
    assert toolbox.spec("d") is None


def test_two_tools_of_one_name_are_refused() -> None:
    """One of them would be out of reach without a word."""
    with pytest.raises(ValueError, match="same name"):
        box(EchoTool(), EchoTool())


async def test_a_name_that_is_not_enabled_reaches_nothing(use: ToolUse) -> None:
    """Models name tools that were never offered."""
    result = await box(EchoTool(), EchoTool("other")).use(call("exec", command="x"), use)
    assert result == {
        "tool_use_id": "call-1",
        "content": "Error: Unknown tool 'exec'. Available tools: echo, other",
        "is_error": True,
    }


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "missing required argument 'text'"),
        ({"text": "a", "loud": True}, "unknown argument 'loud'"),
        ({"text": "a", "times": "many"}, "'times' must be an integer, not a string"),
        ({"raw": '{"text": "a'}, "the arguments are not valid JSON; send one JSON object"),
    ],
)
async def test_arguments_against_the_schema_never_reach_the_tool(
    use: ToolUse, arguments: dict[str, Any], complaint: str
) -> None:
    """The model reads what to correct."""
    result = await box(EchoTool()).use(call("echo", **arguments), use)
    assert result["content"] == f"Error: Invalid arguments for 'echo': {complaint}"
    assert result["is_error"]


async def test_a_refusal_of_the_tool_is_told_as_it_is(use: ToolUse) -> None:
    """ToolFailed is written for the model."""
    with capture_logs() as logs:
        result = await box(FailingTool(ToolFailed("no such thing"))).use(call("failing", text="a"), use)
    assert result["content"] == "Error: no such thing"
    assert result["is_error"]
    assert logs == []


async def test_a_fault_is_told_without_detail_and_logged_without_values(use: ToolUse) -> None:
    """An exception's message may quote a secret; operators get its type and place."""
    with capture_logs() as logs:
        result = await box(FailingTool(RuntimeError("s3cret"))).use(call("failing", text="s3cret"), use)
    assert result["content"] == "Error: Tool 'failing' failed"
    assert result["is_error"]
    assert len(logs) == 1
    assert logs[0]["event"] == "tool_failed"
    assert logs[0]["tool"] == "failing"
    assert logs[0]["error_type"] == "RuntimeError"
    assert logs[0]["place"].startswith("test_toolbox.py:")
    assert "s3cret" not in repr(logs)


async def test_cancellation_passes_through(use: ToolUse) -> None:
    """A cancelled run must not look like a failed tool."""
    with pytest.raises(asyncio.CancelledError):
        await box(FailingTool(asyncio.CancelledError())).use(call("failing", text="a"), use)


@pytest.mark.parametrize("is_error", [False, True])
async def test_long_results_are_cut(use: ToolUse, is_error: bool) -> None:
    """Errors too: a tool may fail at length."""
    toolbox = box(EchoTool(), FailingTool(ToolFailed("y" * 5000)), output_truncation=300)
    result = await toolbox.use(call("failing" if is_error else "echo", text="y" * 5000), use)
    assert len(result["content"]) <= 300
    assert "characters cut" in result["content"]


async def test_a_cut_json_result_is_json(use: ToolUse) -> None:
    """Shorter, and whole."""
    result = await box(EchoTool(), output_truncation=300).use(call("echo", text=json.dumps([1] * 999)), use)
    assert json.loads(result["content"])[-1].endswith("more left out)")


async def test_a_result_can_always_be_stored(use: ToolUse) -> None:
    """Commands print NUL bytes; the step must not die of it."""
    assert (await box(EchoTool()).use(call("echo", text="a\0\ud800b"), use))["content"] == "a\ufffd\ufffdb"


async def test_calls_run_side_by_side_up_to_the_bound(use: ToolUse) -> None:
    """One turn with a hundred calls must not take the machine."""
    tool = SlowTool()
    toolbox = box(tool, max_parallel=3)
    await asyncio.gather(*(toolbox.use(call("echo", text="a"), use) for _ in range(10)))
    assert tool.most == 3


async def test_a_proving_tool_proves_with_checked_arguments(use: ToolUse) -> None:
    """Proof and act must see the same arguments."""
    toolbox = box(SwitchTool())
    proof = await toolbox.prove(call("switch", text="a", times="3"), use)
    assert proof == {"times": 3}
    assert await toolbox.verify(call("switch", text="a", times="3"), proof) == "done"
    assert await toolbox.verify(call("switch", text="a"), {"times": 1}) == "not_done"


@pytest.mark.parametrize(
    "make",
    [EchoTool, lambda: SwitchTool(ToolFailed("x")), lambda: SwitchTool(OSError("x"))],
    ids=["plain", "no", "fault"],
)
async def test_what_cannot_be_proven_is_unknown(use: ToolUse, make: Callable[[], Tool]) -> None:
    """The call itself is not hindered, and after a crash it is in doubt, never guessed."""
    tool = make()
    asked = call(tool.spec.name, text="a")
    with capture_logs():
        assert await box(tool).prove(asked, use) is None
        assert await box(tool).verify(asked, {"times": 3}) == "unknown"
        assert await box().prove(asked, use) is None
        assert await box().verify(asked, {}) == "unknown"


async def test_nothing_is_proven_for_a_run_that_may_not_use_the_tool(use: ToolUse) -> None:
    """To prove is to look at what the call would change, and a scope may be there to keep that from the run."""
    toolbox, asked = box(SwitchTool()), call("switch", text="a", times=3)
    assert await toolbox.prove(asked, replace(use, scope=frozenset({"echo"}))) is None
    assert await toolbox.prove(asked, replace(use, scope=frozenset({"switch"}))) == {"times": 3}
    assert await toolbox.prove(asked, replace(use, effect="once")) is None  # it would not be run either


async def test_a_tool_of_another_class_than_what_is_stored_is_not_run(use: ToolUse) -> None:
    """An heir would take the call for what it is stored as."""
    asked = call("echo", text="a")
    assert (await box(EchoTool()).use(asked, replace(use, effect="read")))["content"] == "a"
    for effect in ("local", "idempotent", "once"):
        assert await box(EchoTool()).use(asked, replace(use, effect=effect)) == {
            "tool_use_id": "call-1",
            "content": "Error: Tool 'echo' is another one by now. Nothing was done; ask again",
            "is_error": True,
        }


async def test_wrong_arguments_prove_nothing(use: ToolUse) -> None:
    """The call will fail by itself."""
    assert await box(SwitchTool()).prove(call("switch"), use) is None


async def test_images_of_a_result_are_stored_before_it_refers_to_them(use: ToolUse) -> None:
    """Whoever goes on with the run shows them; and the words are cut so that what is said of them stays."""
    blobs = InMemoryBlobs(Tables(SystemClock()))
    pictures = PictureBox(blobs, largest=100)
    toolbox = LocalToolbox([CameraTool()], output_truncation=80, max_parallel=1, pictures=pictures)
    result = await toolbox.use(call("echo", text="seen", times=3), use)
    (image,) = result["images"]
    assert image["type"] == "blob"
    assert (result["content"], image["content_type"], image["size"]) == ("seen", "image/png", 3)
    assert await blobs.load([UUID(image["id"])]) == {UUID(image["id"]): b"xxx"}
    large = await toolbox.use(call("echo", text="y" * 500, times=101), use)
    assert "images" not in large
    assert len(large["content"]) == 80
    assert large["content"].endswith("[image 1 is not shown: it has 101 bytes, more than 100]")


async def test_a_result_is_worth_more_than_its_images(use: ToolUse) -> None:
    """What was done is done, also when they can't be stored."""
    for pictures in (PictureBox(FullBlobs(Tables(SystemClock())), largest=100), None):
        toolbox = LocalToolbox([CameraTool()], output_truncation=200, max_parallel=1, pictures=pictures)
        result = await toolbox.use(call("echo", text="seen", times=3), use)
        assert result["content"].startswith("seen")
        assert not result.keys() & {"images", "is_error"}
        assert ("could not be stored" in result["content"]) is (pictures is not None)
