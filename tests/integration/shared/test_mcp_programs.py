"""Servers of the Model Context Protocol that are programs: real ones, good and bad."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import structlog

from shared.adapters.mcp.patience import Patience
from shared.adapters.mcp.servers import ConnectedServers
from shared.domain.attachment import Attachment
from shared.ports.mcp_servers import CallFailed
from tests.both_loops import on_both_loops
from tests.mcp_server import PIXEL
from tests.mcp_worlds import ROOT, connected, is_running, raw_server, sdk_server, until

QUICK = timedelta(seconds=1)


@on_both_loops
async def test_tools_are_listed_and_used() -> None:
    """Names, schemas and results as a model sees them."""
    async with connected(sdk_server("files")) as world:
        assert {"files__echo", "files__fail", "files__slow"} <= set(world.names())
        echo = world.tool("files__echo").spec
        assert (echo.description, echo.effect) == ("Say it again.", "once")
        assert echo.input_schema["required"] == ["text"]
        assert await world.said("files__echo", text="hey", times=2) == "hey hey"
        (state,) = world.servers.states()
        assert (state.condition, state.about) == ("up", "testing 1.2.3")


async def test_an_error_of_a_tool_is_an_error_result() -> None:
    """A model that reads why can do better."""
    async with connected(sdk_server()) as world:
        answer = await world.call("s__fail", why="no such day")
        assert answer.is_error
        assert "no such day" in answer.text


async def test_images_come_along_and_sounds_are_told_and_texts_stand_in_their_order() -> None:
    """What a model can't be given must not vanish without a word."""
    async with connected(sdk_server()) as world:
        answer = await world.call("s__picture")
        assert answer.images == [Attachment("image/png", PIXEL)]
        assert answer.text.splitlines() == [
            "before",
            "[image of type image/png, 67 bytes]",
            "[audio of type audio/wav, 3 bytes: it can't be shown here]",
            "[resource file:///notes.txt]",
            "what stands in it",
            "after",
        ]


async def test_a_call_that_takes_too_long_ends_and_the_server_is_told(tmp_path: Path) -> None:
    """It may go on with what nobody waits for, else."""
    mark = tmp_path / "mark"
    async with connected(sdk_server(call_timeout=QUICK)) as world:
        began = time.monotonic()
        with pytest.raises(CallFailed, match=r"did not answer within 1 s; it is not known whether it was done"):
            await world.call("s__slow", seconds=60, mark=str(mark))
        assert time.monotonic() - began < 5
        await until(mark.exists, "the server was told")
        assert await world.said("s__echo", text="still there") == "still there"


async def test_cancelling_a_call_reaches_the_server(tmp_path: Path) -> None:
    """A run that is cancelled leaves nothing running."""
    mark = tmp_path / "mark"
    async with connected(sdk_server()) as world:
        call = asyncio.create_task(world.call("s__slow", seconds=60, mark=str(mark)))
        await asyncio.sleep(0.5)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(mark.exists, "the server was told")


@on_both_loops
async def test_a_server_that_dies_in_a_call_comes_back_by_itself() -> None:
    """The call ends as an error at once; the next one waits a moment and finds it."""
    async with connected(sdk_server()) as world:
        before = world.names()
        with pytest.raises(CallFailed, match="ended in the middle of the call; it is not known whether it was done"):
            await world.call("s__die")
        assert world.names() == before, "the prompt stays the same while it is away for a moment"
        assert await world.said("s__echo", text="back") == "back"
        assert world.condition() == "up"


async def test_one_that_is_dead_slow_or_speaks_rubbish_leaves_the_others_alone() -> None:
    """Each is told of with its reason, and the rest works."""
    bad = ("ends", "silent", "rubbish", "endless", "no_tools")
    servers = [raw_server(manner, manner, start_timeout=timedelta(seconds=4)) for manner in bad]
    nowhere = replace(sdk_server("nowhere"), command=("/no/such/program",))
    folder = replace(sdk_server("folder"), folder=Path("/no/such/folder"))
    async with connected(*servers, nowhere, folder, sdk_server("good")) as world:
        assert await world.said("good__echo", text="hey") == "hey"
        await world.until(lambda: all(world.condition(name) == "away" for name in bad), "they are away")
        assert {name.partition("__")[0] for name in world.names()} == {"good"}
        assert "exit code 3" in world.reason("ends")
        assert "no such database" in world.reason("ends")
        assert "did not answer within 4 s" in world.reason("silent")
        assert "no MCP message" in world.reason("rubbish")
        assert "more than 16777216 bytes" in world.reason("endless")
        assert "no MCP message" in world.reason("no_tools")
        assert world.reason("nowhere") == "the program '/no/such/program' was not found"
        assert world.reason("folder") == "there is no folder /no/such/folder to start it in"


async def test_a_banner_on_standard_output_is_passed_over() -> None:
    """Many servers greet whoever starts them."""
    async with connected(raw_server("banner")) as world:
        assert world.condition() == "up"
        assert await world.said("s__a", x=1) == '{"x": 1}'


async def test_two_servers_with_a_tool_of_one_name_both_work() -> None:
    """Which one is meant stands in its name."""
    async with connected(sdk_server("one"), raw_server("plain", "two"), raw_server("plain", "three")) as world:
        assert [name for name in world.names() if name.endswith("__a")] == ["three__a", "two__a"]
        assert await world.said("one__echo", text="1") == "1"
        assert await world.said("two__a") == await world.said("three__a") == "{}"


async def test_pages_are_turned_and_not_for_ever() -> None:
    """A cursor that never ends is a fault of the server's, and not ours."""
    async with connected(raw_server("pages", "p"), raw_server("for_ever", "f", max_tools=5)) as world:
        assert [name for name in world.names() if name.startswith("p__")] == ["p__a", "p__b", "p__c", "p__d"]
        assert len([name for name in world.names() if name.startswith("f__")]) == 5


async def test_a_server_that_tells_of_a_change_is_asked_again() -> None:
    """In the older protocol it says so by itself ..."""
    async with connected(raw_server("changes")) as world:
        assert world.names() == ["s__a"]
        assert await world.said("s__a") == "changed"
        await world.until(lambda: world.names() == ["s__a", "s__b"], "the second tool is there")


async def test_a_server_of_the_newest_protocol_is_listened_to() -> None:
    """... and in the newest only to those that have asked for it."""
    async with connected(sdk_server()) as world:
        await world.said("s__grow")
        await world.until(lambda: "s__grown" in world.names(), "the new tool is there")
        assert await world.said("s__grown", text="hey") == "hey"


async def test_hostile_names_schemas_and_descriptions_do_no_harm() -> None:
    """What a provider would refuse costs its tool alone; what a terminal would obey is taken out."""
    async with connected(raw_server("hostile")) as world:
        assert len(world.names()) == 5
        assert all(len(name) <= 64 and name.isascii() and name.replace("_", "").isalnum() for name in world.names())
        assert all(tool.spec.description.isprintable() for tool in world.servers.tools())
        (state,) = world.servers.states()
        assert set(state.unfit) == {"odd", "vast", "fine"}


async def test_refusals_and_nonsense_are_errors_with_a_sentence() -> None:
    """Neither is a fault of ours that would be logged with a traceback."""
    async with connected(raw_server("refuses", "r"), raw_server("nonsense", "n")) as world:
        with pytest.raises(CallFailed, match=r"The MCP server 'r' refused the call: not today"):
            await world.call("r__a")
        with pytest.raises(CallFailed, match="'n' answered with what is no result"):
            await world.call("n__a")


async def test_a_secret_that_a_server_was_given_is_in_no_result_and_no_log() -> None:
    """It may quote its environment, on purpose or in an error."""
    secret = "hunter2-hunter2"
    server = sdk_server(environment={"ITS_TOKEN": secret}, secrets=frozenset({secret}))
    with structlog.testing.capture_logs() as logs:
        async with connected(server) as world:
            assert await world.said("s__variable", name="ITS_TOKEN") == "[secret]"
            assert "[secret]" in (await world.call("s__fail", why=f"bad {secret}")).text
            await world.call("s__complain", line=f"using {secret}\x1b[2J")
            await until(lambda: any(log["event"] == "mcp_server_said" for log in logs), "it was heard")
    assert secret not in json.dumps(logs)


SECRETS = ("hunter2-hunter2", 'qu"ote\\d-\u00fc-hidden', "first-line-of-a-key\nsecond-line-of-it")


@pytest.mark.parametrize("secret", SECRETS)
async def test_no_part_of_a_secret_comes_through_wherever_a_server_puts_it(secret: str) -> None:
    """Over a cut, in a schema, as JSON has it written, in names, and in pieces that only come together here."""
    server = raw_server("leaks", environment={"ITS_TOKEN": secret}, secrets=frozenset({secret}))
    with structlog.testing.capture_logs() as logs:
        async with connected(server) as world:
            await until(lambda: sum(log["event"] == "mcp_server_said" for log in logs) >= 4, "it was heard")
            said = [
                await world.said("s__fine", how=how) for how in ("text", "escaped", "parted", "structured", "links")
            ]
            with pytest.raises(CallFailed) as refused:
                await world.call("s__fine", how="error")
            said += [str(refused.value), str(world.servers.states()), str(world.servers.tools()), world.servers.told]
    told = json.dumps(said + logs, ensure_ascii=False, default=str)
    for line in secret.split("\n"):
        pieces = {line[start : start + 5] for start in range(len(line) - 4)}
        assert not [piece for piece in pieces if piece in told], told
    assert json.loads(said[1]) == {"token": "[secret]"}
    assert json.loads(said[3]) == {"env": [{"T": "[secret]", "<[secret]>": "[secret]"}]}
    fine = world.tool("s__fine").spec if world.names() else None
    assert fine is None or fine.input_schema["properties"]["x"]["enum"] == ["[secret]", "b"]


async def test_what_a_terminal_would_obey_or_nobody_would_see_is_taken_out_of_results() -> None:
    """It reaches a model, the history, and whoever reads that; and its lines are lines."""
    async with connected(raw_server("leaks", environment={"ITS_TOKEN": "hunter2-hunter2"})) as world:
        assert await world.said("s__fine", how="control") == "red evil\na\nb\tc"
        (state,) = world.servers.states()
        assert (state.about.isprintable(), state.about.count("ok")) == (True, 1)


async def test_a_server_gets_no_variable_that_nobody_named() -> None:
    """What the worker has in its environment is none of its business."""
    async with connected(sdk_server()) as world:
        assert await world.said("s__variable", name="PYTEST_CURRENT_TEST") == "(not set)"


async def test_what_a_server_complains_of_is_logged_within_bounds() -> None:
    """One that complains all day must not fill a disk."""
    with structlog.testing.capture_logs() as logs:
        async with connected(sdk_server()) as world:
            await world.call("s__complain", line="x" * 5000)
            await world.call("s__complain", line="\n".join(str(number) for number in range(200)))
            await asyncio.sleep(0.2)
    said = [log["text"] for log in logs if log["event"] == "mcp_server_said"]
    assert len(said) <= 20
    assert max(len(text) for text in said) <= 400


async def test_nothing_that_a_server_started_outlives_its_connection() -> None:
    """Also what has left its process group."""
    async with connected(sdk_server()) as world:
        me, child = int(await world.said("s__me")), int(await world.said("s__child"))
        assert is_running(me)
        assert is_running(child)
    await until(lambda: not is_running(me) and not is_running(child), "both are gone")


async def test_a_server_is_gone_with_a_process_that_is_killed() -> None:
    """SIGKILL lets nobody clean up; whoever starts again would have twice as many."""
    program = (
        "import asyncio, sys\n"
        "from tests.mcp_worlds import connected, sdk_server, raw_server\n"
        "async def main():\n"
        "    async with connected(sdk_server()) as world:\n"
        "        print('pids', await world.said('s__me'), await world.said('s__child'), flush=True)\n"
        "        await asyncio.sleep(300)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = ""
        while not said.startswith("pids"):
            said = await asyncio.to_thread(process.stdout.readline)
        me, child = (int(word) for word in said.split()[1:])
        assert is_running(me)
        process.send_signal(signal.SIGKILL)
    await until(lambda: not is_running(me) and not is_running(child), "both are gone", within=5)


async def test_one_that_hangs_is_noticed_and_started_anew() -> None:
    """Its process is there, and nobody answers any more."""
    async with connected(sdk_server(), patience=Patience(look_every=0.2, answers_within=0.5)) as world:
        me = int(await world.said("s__me"))
        os.kill(me, signal.SIGSTOP)
        await world.until(lambda: world.condition() == "away", "it is known")
        await until(lambda: not is_running(me), "the old one is gone")
        await world.until(lambda: world.condition() == "up", "it is back")
        assert int(await world.said("s__me")) != me


async def test_one_that_stays_away_offers_nothing_any_more() -> None:
    """A tool that always fails helps nobody."""
    away = Patience(offered_while_away=0.1, first_pause=60.0, back_within=0.1)
    async with connected(sdk_server(), patience=away) as world:
        tool = world.tool("s__echo")
        with contextlib.suppress(CallFailed):
            await world.call("s__die")
        await world.until(lambda: world.names() == [], "it offers nothing")
        with pytest.raises(CallFailed, match=r"The MCP server 's' is away: the connection ended .*signal 9"):
            await world.servers.call(tool, {"text": "x"})


async def test_a_change_is_logged_once() -> None:
    """A server that can't be started is tried for ever, and that is one line."""
    with structlog.testing.capture_logs() as logs:
        async with connected(raw_server("ends")) as world:
            await asyncio.sleep(3)
            assert world.condition() == "away"
    assert [log["event"] for log in logs if log["event"] != "mcp_server_said"] == ["mcp_server_away"]


async def test_connecting_holds_nobody_up() -> None:
    """The worker is ready while servers start."""
    async with connected(raw_server("silent"), sdk_server("t"), tried=False) as world:
        assert (world.condition(), world.names()) == ("starting", [])
        longest, end = 0.0, asyncio.get_running_loop().time() + 3
        while asyncio.get_running_loop().time() < end:
            began = asyncio.get_running_loop().time()
            await asyncio.sleep(0.01)
            longest = max(longest, asyncio.get_running_loop().time() - began)
        assert longest < 1


async def test_a_server_that_is_off_is_not_started() -> None:
    """And is told of as such."""
    servers = ConnectedServers([sdk_server(enabled=False)])
    assert [state.condition for state in servers.states()] == ["off"]
    assert servers.tools() == []
