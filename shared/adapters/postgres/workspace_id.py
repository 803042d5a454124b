"""The workspace belongs to its database: both carry the same id, so that no worker runs on a folder it can't see."""

import asyncio
import contextlib
import os
from pathlib import Path
from uuid import UUID

from shared.adapters.postgres.pool import Database
from shared.errors import ConfigError
from shared.ids import new_id

ID_FILE = ".lucyd-workspace"
# ``seen`` turns true once somebody has found the id in the folder: until then a missing file is a first start that was
# broken off, afterwards it is another folder.
KNOWN = """
select value ->> 'id', (value ->> 'seen')::boolean from settings where key = 'workspace_id'
"""
CLAIM = """
insert into settings (key, value) values ('workspace_id', jsonb_build_object('id', %s::text, 'seen', false))
on conflict (key) do nothing
"""
SEEN = """
update settings set value = value || '{"seen": true}', updated_at = now() where key = 'workspace_id'
"""
TRIES = 40
PAUSE = 0.05


async def check_workspace(database: Database, workspace: Path) -> UUID:
    """The id of the workspace; the first worker of a new database gives it one.

    Raises ``ConfigError`` when the folder is not there, can't be read, or is another one than the database knows.
    """
    if not await asyncio.to_thread(workspace.is_dir):
        raise ConfigError(
            [f"The workspace {workspace} is not there; set [agent] workspace, or copy workspace.example."]
        )
    await database.rows(CLAIM, (_read(workspace) or str(new_id()),))
    for _ in range(TRIES):
        known, seen = (await database.rows(KNOWN))[0]
        found = _read(workspace)
        if found is None and not seen:
            found = _write(workspace, known)
        if found == known:
            if not seen:
                await database.rows(SEEN)
            return UUID(known)
        await asyncio.sleep(PAUSE)  # a shared folder may show late what another worker has just written
    raise ConfigError(
        [
            f"The workspace {workspace} is not the one that this database belongs to (its file {ID_FILE} is missing or "
            f"names another one). Set [agent] workspace to the right folder; if this is it, write {known} into it."
        ]
    )


def _read(workspace: Path) -> str | None:
    try:
        text = (workspace / ID_FILE).read_text("ascii").strip()
        return str(UUID(text))
    except (FileNotFoundError, ValueError):
        return None
    except OSError as fault:
        raise ConfigError([f"The workspace {workspace} can't be read: {fault.strerror}."]) from fault


def _write(workspace: Path, identifier: str) -> str | None:
    path = workspace / ID_FILE
    fresh = path.with_name(f"{ID_FILE}.{os.getpid()}")
    try:
        fresh.write_text(f"{identifier}\n", "ascii")
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)  # never over a file that somebody else has put there
        fresh.unlink()
    except OSError as fault:
        raise ConfigError([f"The workspace {workspace} can't be written: {fault.strerror}."]) from fault
    return _read(workspace)
