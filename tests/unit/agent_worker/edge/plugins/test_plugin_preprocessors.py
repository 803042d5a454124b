"""What comes with messages is read by plugins, each by itself, within its time."""

import time
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from services.agent_worker.edge.plugins.preprocessing import PluginPreprocessors
from services.agent_worker.edge.plugins.shelf import PluginShelf, open_plugins
from services.agent_worker.ports import IncomingFile, NotPrepared, Prepared
from tests.plugin_terms import QUICK, put, terms

SOUND = IncomingFile("1", "audio/ogg", "../../etc/hello.ogg", b"OggS sound", is_voice=True)
TABLE = IncomingFile("2", "text/csv", "table.csv", b"a,b")

READS = """
    import os
    from pathlib import Path

    seen = []

    def count(text, attachments, config):
        lines = []
        for attachment in attachments:
            seen.append(attachment.local_path)
            data = Path(attachment.local_path).read_bytes()
            assert len(data) == attachment.size
            mode = oct(os.stat(attachment.local_path).st_mode & 0o777)
            told = (attachment.filename, attachment.content_type, attachment.is_voice, mode, config.agent_name)
            lines.append(" ".join(map(str, told)))
        return text + "|" + "; ".join(lines), []

    PREPROCESSORS = [{"name": "count", "fn": count}]
"""
CLAIMS_AUDIO = """
    async def hear(text, attachments, config):
        left = [a for a in attachments if not a.content_type.startswith("audio/")]
        return f"{text} +{len(attachments) - len(left)}", left

    PREPROCESSORS = [("hear", hear)]
"""
SPEC = """
    import time
    from lucyd_plugin import PluginTransient, PreprocessorSpec

    tries = []

    async def fail(text, attachments, config):
        tries.append(1)
        raise PluginTransient("canary")

    def hang(text, attachments, config):
        time.sleep(5)

    def odd(text, attachments, config):
        return "no pair"

    def tried(text, attachments, config):
        return f"{text} {len(tries)}", attachments

    PREPROCESSORS = [PreprocessorSpec("NAME", NAME, KIND)]
"""


def opened(folder: Path, seconds: float = 20) -> AbstractAsyncContextManager[PluginShelf]:
    manner = replace(QUICK, timeout=timedelta(seconds=seconds))
    return open_plugins(terms(folder), output_limit=30_000, manner=manner)


def of(shelf: PluginShelf) -> PluginPreprocessors:
    assert shelf.preprocessors is not None
    return shelf.preprocessors


def spec(name: str, kind: str = "", more: str = "") -> str:
    return SPEC.replace("NAME", name, 1).replace("NAME", name).replace("KIND", kind) + more


async def test_an_attachment_is_a_file_for_as_long_as_it_is_read(tmp_path: Path) -> None:
    """Plugins of the original read ``local_path``; nothing of it stays behind, and no name leads elsewhere."""
    put(tmp_path / "p", "a.py", READS)
    async with opened(tmp_path / "p") as shelf:
        prepared = await of(shelf).prepare("hi", [SOUND, TABLE])
        assert prepared == Prepared(
            "hi|../../etc/hello.ogg audio/ogg True 0o600 Testbert; table.csv text/csv False 0o600 Testbert", ["1", "2"]
        )
    import sys  # noqa: PLC0415 - the module of the plugin is there now

    paths = [Path(path) for path in sys.modules["lucyd_plugins.a"].seen]
    assert len(paths) == 2
    assert not any(path.exists() or path.parent.exists() for path in paths)
    assert {path.name for path in paths} == {"0.ogg", "1.csv"}


async def test_each_is_given_what_the_one_before_left(tmp_path: Path) -> None:
    """In the order of the files; what one has taken is not read again."""
    put(tmp_path / "p", "a.py", CLAIMS_AUDIO)
    put(tmp_path / "p", "b.py", READS)
    async with opened(tmp_path / "p") as shelf:
        prepared = await of(shelf).prepare("hi", [SOUND, TABLE])
        assert prepared.text == "hi +1|table.csv text/csv False 0o600 Testbert"
        assert list(prepared.taken) == ["1", "2"]
        only_sound = await of(shelf).prepare("hi", [SOUND])
        assert only_sound == Prepared("hi +1", ["1"])


async def test_a_type_that_nobody_reads_is_not_loaded(tmp_path: Path) -> None:
    """An image of megabytes is not fetched for a plugin that hears."""
    put(tmp_path / "p", "a.py", spec("tried", "content_types=('audio/',)"))
    async with opened(tmp_path / "p") as shelf:
        assert of(shelf).wants("audio/ogg")
        assert not of(shelf).wants("image/png")
        assert await of(shelf).prepare("hi", [TABLE]) == Prepared("hi", [])
        assert await of(shelf).prepare("hi", [SOUND]) == Prepared("hi 0", [])


@pytest.mark.parametrize("name", ["fail", "odd", "hang"])
async def test_one_that_fails_leaves_the_message_as_it_was(tmp_path: Path, name: str) -> None:
    """Or with the sentence that it has for that; the next one is asked."""
    put(tmp_path / "p", "a.py", spec(name))
    put(tmp_path / "p", "b.py", spec(name, "fallback_text='[not read]'"))
    put(tmp_path / "p", "c.py", CLAIMS_AUDIO)
    started = time.monotonic()
    async with opened(tmp_path / "p", 0.3) as shelf:
        assert await of(shelf).prepare("hi", [SOUND]) == Prepared("hi\n[not read] +1", ["1"])
    assert time.monotonic() - started < 5


async def test_one_that_is_critical_fails_the_message(tmp_path: Path) -> None:
    """Where an answer without it would be a wrong one."""
    put(tmp_path / "p", "a.py", spec("fail", "critical=True"))
    async with opened(tmp_path / "p") as shelf:
        with pytest.raises(NotPrepared, match=r"What came with the message could not be read \(fail\)\.") as caught:
            await of(shelf).prepare("hi", [SOUND])
        assert "canary" not in str(caught.value)


async def test_what_may_pass_is_tried_again(tmp_path: Path) -> None:
    """Reading twice does no harm."""
    text = spec("fail") + "    PREPROCESSORS.append(PreprocessorSpec('tried', tried))\n"
    put(tmp_path / "p", "a.py", text)
    async with opened(tmp_path / "p") as shelf:
        assert (await of(shelf).prepare("hi", [SOUND])).text == "hi 3"


async def test_without_any_there_is_nobody_to_ask(tmp_path: Path) -> None:
    """Most workers have none, and their messages cost nothing more."""
    put(tmp_path / "p", "a.py", "")
    async with opened(tmp_path / "p") as shelf:
        assert shelf.preprocessors is None
