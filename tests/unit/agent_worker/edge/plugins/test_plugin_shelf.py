"""Plugins are read from real files, each for itself."""

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from lucyd_plugin import original
from services.agent_worker.edge.plugins.shelf import PluginShelf, open_plugins
from services.agent_worker.edge.plugins.terms import PluginTerms
from services.agent_worker.edge.toolbox import LocalToolbox
from services.agent_worker.ports import ToolUse
from tests.plugin_terms import QUICK, SECRET, put, terms

SEED = Path(__file__).resolve().parents[4] / "data" / "plugins" / "seed_era.txt"
ECHO = """
    def echo(text=""):
        return f"plugin:{text}"

    TOOLS = [{"name": "NAME", "description": "Say it.", "function": echo,
              "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}}}]
"""


def echo(name: str) -> str:
    return ECHO.replace("NAME", name)


async def said(shelf: PluginShelf, use: ToolUse, name: str, **arguments: object) -> str:
    toolbox = LocalToolbox([], output_truncation=30_000, max_parallel=4, sources=[shelf])
    return (await toolbox.use({"id": "c", "name": name, "arguments": dict(arguments)}, use))["content"]


def states(shelf: PluginShelf) -> dict[str, tuple[str, str]]:
    return {report.name: (report.state, report.reason) for report in shelf.reports}


def opened(given: PluginTerms) -> AbstractAsyncContextManager[PluginShelf]:
    return open_plugins(given, output_limit=30_000, manner=QUICK)


async def test_a_plugin_of_the_first_lucyd_works_unchanged(tmp_path: Path, use: ToolUse) -> None:
    """People bring the files they have; they know nothing of this house."""
    folder = tmp_path / "plugins.d"
    put(folder, "weather.py", SEED.read_text("utf-8"))
    toml = '[tools.weather]\nunit = "kelvin"\napi_key_env = "WEATHER_OF_A_TEST_KEY"\n'
    put(tmp_path, ".env", f"WEATHER_OF_A_TEST_KEY={SECRET}\n")
    async with opened(terms(folder, "weather", "dice", toml=toml)) as shelf:
        assert states(shelf) == {"weather": ("loaded", "")}
        assert await said(shelf, use, "weather", city="Graz", days=2) == "Graz: 14 degrees kelvin, says Testbert"
        assert await said(shelf, use, "dice") == "rolled 6"
        assert await said(shelf, use, "weather") == (
            "Error: Invalid arguments for 'weather': missing required argument 'city'"
        )
        assert await said(shelf, use, "dice", sides=1) == "Error: Tool 'dice' failed"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def broken(:\n", "line 1 is no Python: invalid syntax"),
        ("1 / 0\n", "it failed when it was imported: ZeroDivisionError in line 1"),
        (f"raise SystemExit('{SECRET}')\n", "it failed when it was imported: SystemExit in line 1"),
        ("import numpy_of_nobody\n", "it failed when it was imported: there is no module 'numpy_of_nobody' here"),
        ("TOOLS = 7\n", "TOOLS must be a list, not int"),
        ("TOOLS = [{'name': 'x y'}]\n", "TOOLS[0] needs a name of up to 64 letters, digits, _ and -"),
        (
            "TOOLS = [{'name': 'x', 'description': 'd', 'function': print, 'cpu_heavy': True, 'sends': True}]\n",
            "TOOLS[0] (x): what runs in a process of its own sends nothing",
        ),
        (f"def configure():\n    raise ValueError('{SECRET}')\n", "configure() failed: ValueError in line 2"),
        ("def configure(moon):\n    pass\n", "configure() asks for 'moon', which plugins are not given"),
        ("PREPROCESSORS = [('x', 7)]\n", "PREPROCESSORS[0] needs a name and a function fn"),
    ],
)
async def test_one_that_fails_leaves_a_reason_and_stops_nobody(
    tmp_path: Path, use: ToolUse, text: str, reason: str
) -> None:
    """The operator reads why, without what may be secret in a message; the others work."""
    folder = tmp_path / "plugins.d"
    put(folder, "aaa_bad.py", text)
    put(folder, "zzz_good.py", echo("my_tool"))
    async with opened(terms(folder, "my_tool")) as shelf:
        assert states(shelf) == {"aaa_bad": ("failed", reason), "zzz_good": ("loaded", "")}
        assert await said(shelf, use, "my_tool", text="hi") == "plugin:hi"


async def test_settings_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    """A slip in the plugin's own TOML file is no other plugin's."""
    folder = tmp_path / "plugins.d"
    put(folder, "a.py", "")
    put(folder, "a.toml", "key = = 1\n")
    async with opened(terms(folder)) as shelf:
        assert states(shelf) == {"a": ("failed", "a.toml can't be read: TOMLDecodeError")}


async def test_one_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker starts all the same."""
    monkeypatch.setattr("services.agent_worker.edge.plugins.shelf.LOADED_WITHIN", 0.1)
    folder = tmp_path / "plugins.d"
    put(folder, "a.py", "import time\ntime.sleep(3)\n")
    put(folder, "b.py", "")
    started = time.monotonic()
    async with opened(terms(folder)) as shelf:
        assert time.monotonic() - started < 2
        assert states(shelf) == {"a": ("failed", "it was not loaded within 0.1 seconds"), "b": ("loaded", "")}


async def test_only_enabled_tools_are_offered_and_the_rest_is_told(tmp_path: Path, use: ToolUse) -> None:
    """As in the original: a file in a folder gives the agent nothing that its operator has not named."""
    folder = tmp_path / "plugins.d"
    put(folder, "a.py", echo("a_tool"))
    put(folder, "b.py", echo("b_tool"))
    put(folder, "c.py", echo("a_tool"))
    put(folder, "_d.py", echo("d_tool"))
    async with opened(terms(folder, "a_tool", "d_tool")) as shelf:
        assert [tool.spec.name for tool in shelf.tools()] == ["a_tool"]
        assert [report.notes for report in shelf.reports] == [
            (),
            ("b_tool: it is not in [tools] enabled",),
            ("a_tool: there is a tool of this name already, which keeps it",),
        ]


async def test_tools_of_the_house_keep_their_names(tmp_path: Path) -> None:
    """A plugin that calls itself exec is not asked to run commands."""
    folder = tmp_path / "plugins.d"
    put(folder, "a.py", echo("exec"))
    async with opened(terms(folder, "exec")) as shelf:
        assert shelf.beside(["exec", "read"]).tools() == ()
        assert shelf.reports[0].tools == ()
        assert shelf.reports[0].notes == ("exec: there is a tool of this name already, which keeps it",)
        assert '"exec: there is a tool' in shelf.told


async def test_a_file_of_ones_own_takes_the_place_of_one_in_the_box(tmp_path: Path, use: ToolUse) -> None:
    """What is shipped is there without being copied, and can be replaced."""
    own, box = tmp_path / "own", tmp_path / "box"
    put(own, "a.py", echo("mine"))
    put(box, "a.py", echo("theirs"))
    put(box, "b.py", echo("shipped"))
    given = replace(terms(own, "mine", "theirs", "shipped"), folders=(own, box))
    async with opened(given) as shelf:
        assert [tool.spec.name for tool in shelf.tools()] == ["mine", "shipped"]


async def test_no_folder_is_no_fault(tmp_path: Path) -> None:
    """Most people have no plugin."""
    async with opened(terms(tmp_path / "plugins.d")) as shelf:
        assert shelf.tools() == ()
        assert shelf.told == "[]"


async def test_specs_of_the_later_lucyd_and_its_names_work(tmp_path: Path, use: ToolUse) -> None:
    """``from tools import ToolSpec`` is how plugins of the second generation begin."""
    folder = tmp_path / "plugins.d"
    put(
        folder,
        "b.py",
        """
        import metrics
        from tools import ToolSpec
        from plugins import PluginInvalidInput, PluginUpstream, mark_configured, mark_unconfigured, run_plugin_op

        tries = []

        async def fragile(text):
            tries.append(text)
            if len(tries) < 3:
                raise PluginUpstream("not yet")
            return f"{text} after {len(tries)}"

        async def patient(text):
            return await run_plugin_op("b", "fragile", fragile, text, retry_backoff=0.01)

        def configure(config, metering=None, converter=None, **_):
            mark_unconfigured("b")
            if metrics.ENABLED:
                metrics.NEVER.inc()
            metrics.PLUGIN_CALLS.labels(plugin="b").inc()
            mark_configured("b", backend=config.http_download_dir.__class__.__name__)

        async def shout(text):
            if not text:
                raise PluginInvalidInput("say something")
            return {"text": text.upper(), "attachments": ["/tmp/a.mp3"]}

        SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        TOOLS = [
            ToolSpec("patient", "Tries.", SCHEMA, patient),
            ToolSpec("shout", "Loud.", SCHEMA, shout, max_output=100),
            ToolSpec(name="inner", description="d", input_schema=SCHEMA, function=shout, talkers=frozenset({"agent"})),
        ]
        """,
    )
    async with opened(terms(folder, "patient", "shout", "inner")) as shelf:
        assert await said(shelf, use, "patient", text="hi") == "hi after 3"
        assert await said(shelf, use, "shout", text="hi") == "HI\n[attachment: /tmp/a.mp3]"
        assert await said(shelf, use, "shout", text="") == "Error: say something"
        assert len(await said(shelf, use, "shout", text="x" * 500)) <= 100
        assert shelf.reports[0].notes == ("inner: it is for talkers that there are none of here",)


async def test_what_the_original_gave_and_this_one_does_not_is_said_when_it_is_used(
    tmp_path: Path, use: ToolUse
) -> None:
    """A plugin that only keeps the channel works; one that sends by it hears why not."""
    folder = tmp_path / "plugins.d"
    put(
        folder,
        "a.py",
        """
        kept = {}

        def configure(config, channel, metering=None, settings=None, secret=None):
            kept.update(channel=channel, metering=metering, settings=settings, secret=secret)

        async def send():
            await kept["channel"].send("me", "hello")

        def look():
            return f"{bool(kept['channel'])} {kept['metering']} {kept['settings']} {kept['secret']('NOT_NAMED')}"

        NONE = {"type": "object", "properties": {}}
        TOOLS = [{"name": "send", "description": "d", "input_schema": NONE, "function": send},
                 {"name": "look", "description": "d", "input_schema": NONE, "function": look}]
        """,
    )
    put(folder, "a.toml", 'greeting = "hi"\n')
    async with opened(terms(folder, "send", "look")) as shelf:
        assert await said(shelf, use, "look") == "False None {'greeting': 'hi'} None"
        assert await said(shelf, use, "send") == "Error: 'send' is not configured; the operator has to do that"


async def test_a_plugin_that_blocks_blocks_only_itself(tmp_path: Path, use: ToolUse) -> None:
    """Neither an ordinary function that sleeps nor a coroutine that does holds the worker's loop up."""
    folder = tmp_path / "plugins.d"
    put(
        folder,
        "a.py",
        """
        import time

        def sync_sleep():
            time.sleep(1)

        async def async_sleep():
            time.sleep(1)

        NONE = {"type": "object", "properties": {}}
        TOOLS = [{"name": f.__name__, "description": "d", "input_schema": NONE, "function": f, "timeout": 0.2}
                 for f in (sync_sleep, async_sleep)]
        """,
    )
    async with opened(terms(folder, "sync_sleep", "async_sleep")) as shelf:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        results = list(await asyncio.gather(said(shelf, use, "sync_sleep"), said(shelf, use, "async_sleep")))
        ticking.cancel()
        assert results == [
            "Error: 'sync_sleep' took longer than 0.2 seconds and was given up",
            "Error: 'async_sleep' took longer than 0.2 seconds and was given up",
        ]
        assert ticks > 5


def test_metrics_that_count_nothing_have_no_file() -> None:
    """Whoever looks through all modules, as debuggers and reloaders do, takes what has a file for a real one."""
    metrics = original.modules()["metrics"]
    metrics.ANYTHING.labels(plugin="b").inc()
    assert not hasattr(metrics, "__file__")
    assert not hasattr(metrics.ANYTHING, "__wrapped__")
