"""The table of files follows the workspace."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from services.indexer.actions.index_workspace import index_workspace
from services.indexer.ports import Scan
from services.indexer.rules.changes import changes
from services.indexer.rules.chunking import Chunking
from shared.ports.files import Chunk, KnownFile

Hashes = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("123"))


@given(Hashes, Hashes, st.sets(st.sampled_from("abcdef")))
def test_every_path_has_one_fate(known: dict[str, str], found: dict[str, str], unreadable: set[str]) -> None:
    """Nothing is indexed twice, and nothing that is only unreadable is forgotten."""
    change = changes(known, found, unreadable)
    groups = (change.new, change.changed, change.unchanged, change.vanished)
    assert sum(map(len, groups)) == len(frozenset().union(*groups))
    assert frozenset().union(*groups) == (known.keys() | found.keys()) - (unreadable - found.keys())
    assert change.vanished.isdisjoint(unreadable)


AT = datetime(2026, 1, 1, tzinfo=UTC)
CHUNKING = Chunking()


class Folder:
    """A workspace by hand."""

    def __init__(self, **files: str) -> None:
        self.files = files
        self.unreadable: set[str] = set()
        self.too_large: set[str] = set()
        self.gone: set[str] = set()
        self.later: dict[str, str] = {}

    def scan(self) -> Scan:
        known = {path: KnownFile(path, text, len(text), AT) for path, text in self.files.items()}
        return Scan(known, self.unreadable, self.too_large)

    def read(self, path: str) -> tuple[KnownFile, str] | None:
        if path in self.gone:
            return None
        text = self.later.get(path, self.files[path])
        return KnownFile(path, text, len(text), AT), text


class Table:
    """The files in memory."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[KnownFile, Sequence[Chunk], str]] = {}
        self.written = 0

    async def hashes(self, *, chunking: str) -> Mapping[str, str]:
        return {path: file.hash if made == chunking else "" for path, (file, _, made) in self.rows.items()}

    async def put(self, file: KnownFile, chunks: Sequence[Chunk], *, chunking: str) -> None:
        self.written += 1
        self.rows[file.path] = (file, chunks, chunking)

    async def remove(self, paths: Collection[str]) -> None:
        for path in paths:
            del self.rows[path]


async def test_indexing_twice_writes_once() -> None:
    """A job may be delivered twice, and most looks find nothing new."""
    table, folder = Table(), Folder(a="1", b="2")
    assert (await index_workspace(folder, table, CHUNKING))["indexed"] == 2
    again = await index_workspace(folder, table, CHUNKING)
    assert again == {"indexed": 0, "skipped": 2, "removed": 0, "errors": 0, "total": 2}
    assert table.written == 2
    assert [chunk.text for _, chunks, _ in table.rows.values() for chunk in chunks] == ["1", "2"]


async def test_gone_files_go_and_unreadable_ones_stay() -> None:
    """A moment without permission must not cost the memory of a file."""
    table = Table()
    await index_workspace(Folder(a="1", b="2", c="3"), table, CHUNKING)
    folder = Folder(a="9")
    folder.unreadable = {"b"}
    folder.too_large = {"d"}
    counts = await index_workspace(folder, table, CHUNKING)
    assert counts == {"indexed": 1, "skipped": 1, "removed": 1, "errors": 1, "total": 3}
    assert set(table.rows) == {"a", "b"}


async def test_another_way_to_cut_cuts_all_files_anew() -> None:
    """Else pieces of both kinds lie beside each other until each file happens to change."""
    table, folder = Table(), Folder(a="1", b="2")
    await index_workspace(folder, table, CHUNKING)
    assert (await index_workspace(folder, table, Chunking(800, 100)))["indexed"] == 2
    assert (await index_workspace(folder, table, Chunking(800, 100)))["skipped"] == 2


async def test_a_file_that_changes_under_the_look_is_known_as_it_was_read() -> None:
    """Hash and pieces are of the same bytes: the next look finds the change, if there was one."""
    table, folder = Table(), Folder(a="1", b="2")
    folder.later, folder.gone = {"a": "changed"}, {"b"}
    counts = await index_workspace(folder, table, CHUNKING)
    assert counts == {"indexed": 1, "skipped": 0, "removed": 0, "errors": 1, "total": 2}
    file, chunks, _ = table.rows["a"]
    assert (file.hash, [chunk.text for chunk in chunks]) == ("changed", ["changed"])
    assert "b" not in table.rows
