"""The first workspace: a copy of the example, made once."""

import shutil
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "workspace.example"


def provide_workspace(workspace: Path, example: Path = EXAMPLE) -> bool:
    """Copy the example to ``workspace`` when nothing is there; tell whether that was so.

    The copy appears as a whole: a start that is interrupted leaves no half workspace that the next one would trust.
    """
    if workspace.exists():
        return False
    new = workspace.with_name(f"{workspace.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    if example.is_dir():
        shutil.copytree(example, new)
    else:
        new.mkdir(parents=True)
    new.rename(workspace)
    return True
