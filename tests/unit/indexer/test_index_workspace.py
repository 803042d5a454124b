"""The table of files follows the workspace."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from services.indexer.actions.index_workspace import index_workspace
from services.indexer.ports import Scan
from services.indexer.rules.changes import changes
from shared.ports.files import KnownFile

Hashes = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("123"))


@given(Hashes, Hashes, st.sets(st.sampled_from("abcdef")))
def test_every_path_has_one_fate(known: dict[str, str], found: dict[str, str], unreadable: set[str]) -> None:
    """Nothing is indexed twice, and nothing that is only unreadable is forgotten."""
    change = changes(known, found, unreadable)
    groups = (change.new, change.changed, change.unchanged, change.vanished)
    assert sum(map(len, groups)) == len(frozenset().union(*groups))
    assert frozenset().union(*groups) == (known.keys() | found.keys()) - (unreadable - found.keys())
    assert change.vanished.isdisjoint(unreadable)


class Folder:
    """A workspace by hand."""

    def __init__(self, **files: str) -> None:
        self.files = {
            path: KnownFile(path, content, len(content), datetime(2026, 1, 1, tzinfo=UTC))
            for path, content in files.items()
        }
        self.unreadable: set[str] = set()
        self.too_large: set[str] = set()

    def scan(self) -> Scan:
        return Scan(self.files, self.unreadable, self.too_large)


class Table:
    """The files in memory."""

    def __init__(self) -> None:
        self.rows: dict[str, KnownFile] = {}
        self.written = 0

    async def hashes(self) -> Mapping[str, str]:
        return {path: file.hash for path, file in self.rows.items()}

    async def put(self, files: Sequence[KnownFile]) -> None:
        self.written += len(files)
        self.rows.update({file.path: file for file in files})

    async def remove(self, paths: Collection[str]) -> None:
        for path in paths:
            del self.rows[path]


async def test_indexing_twice_writes_once() -> None:
    """A job may be delivered twice, and most looks find nothing new."""
    table, folder = Table(), Folder(a="1", b="2")
    assert (await index_workspace(folder, table))["indexed"] == 2
    again = await index_workspace(folder, table)
    assert again == {"indexed": 0, "skipped": 2, "removed": 0, "errors": 0, "total": 2}
    assert table.written == 2


async def test_gone_files_go_and_unreadable_ones_stay() -> None:
    """A moment without permission must not cost the memory of a file."""
    table = Table()
    await index_workspace(Folder(a="1", b="2", c="3"), table)
    folder = Folder(a="9")
    folder.unreadable = {"b"}
    folder.too_large = {"d"}
    assert await index_workspace(folder, table) == {"indexed": 1, "skipped": 1, "removed": 1, "errors": 1, "total": 3}
    assert set(table.rows) == {"a", "b"}
