"""The allow-list is judged by where a path really leads."""

import tempfile
from pathlib import Path

import pytest

from services.agent_worker.edge.tools.paths import AllowedPaths, ProtectedFiles
from services.agent_worker.edge.tools.real_files import changing, open_file, open_folder
from services.agent_worker.ports import ToolFailed


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_relative_paths_start_from_the_workspace(paths: AllowedPaths, workspace: Path) -> None:
    """The agent speaks of its files by their names."""
    assert paths.resolve("notes/a.md") == workspace / "notes" / "a.md"
    assert paths.resolve("notes/../b.md") == workspace / "b.md"
    assert paths.resolve(str(workspace)) == workspace


def test_the_tilde_is_the_home_folder(tmp_path: Path) -> None:
    """As in a shell."""
    home = Path.home().resolve()
    assert AllowedPaths([Path("~")], tmp_path).resolve("~/x") == home / "x"


@pytest.mark.parametrize("text", ["../outside.txt", "/etc/passwd", "notes/../../outside.txt", "~root/x", "."])
def test_a_path_that_leads_outside_is_denied(tmp_path: Path, text: str) -> None:
    """Traversal is judged after it has been worked out."""
    inside = tmp_path / "inside"
    inside.mkdir()
    with pytest.raises(ToolFailed, match="Access denied"):
        AllowedPaths([inside], tmp_path / "elsewhere").resolve(text)


def test_the_name_of_a_root_is_no_prefix(tmp_path: Path) -> None:
    """/tmp/foo does not admit /tmp/foobar."""
    with pytest.raises(ToolFailed, match="Access denied"):
        AllowedPaths([tmp_path / "foo"], tmp_path).resolve(str(tmp_path / "foobar"))


def test_an_empty_list_denies_everything(workspace: Path) -> None:
    """No configuration is not a permission."""
    with pytest.raises(ToolFailed, match=r"Access denied.*\(none\)"):
        AllowedPaths([], workspace).resolve("a")


def test_links_are_followed_before_judging(paths: AllowedPaths, workspace: Path, tmp_path: Path) -> None:
    """A link in the workspace may lead out of it, at any place of the path, also to what does not exist yet."""
    (tmp_path / "secret").mkdir()
    (workspace / "door").symlink_to(tmp_path / "secret")
    (workspace / "window").symlink_to(tmp_path / "secret" / "new.txt")
    for text in ("door/x", "window", "door/../secret/y"):
        with pytest.raises(ToolFailed, match="Access denied"):
            paths.resolve(text)


def test_a_link_that_stays_inside_leads_to_its_target(paths: AllowedPaths, workspace: Path) -> None:
    """Links are no sin."""
    (workspace / "alias.md").symlink_to(workspace / "real.md")
    assert paths.resolve("alias.md") == workspace / "real.md"


def test_a_root_that_is_a_link_admits_what_it_leads_to(tmp_path: Path) -> None:
    """/tmp is a link on some systems."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    allowed = AllowedPaths([tmp_path / "link"], tmp_path / "link")
    assert allowed.resolve("x") == tmp_path / "real" / "x"
    assert allowed.resolve(str(tmp_path / "link" / "x")) == tmp_path / "real" / "x"


def test_secrets_are_refused_whatever_is_allowed(tmp_path: Path) -> None:
    """The data directory lies in an allowed folder here, and the workspace in the data directory."""
    data, dotenv = tmp_path / "data", tmp_path / ".env"
    workspace = data / "workspace"
    workspace.mkdir(parents=True)
    allowed = AllowedPaths([Path("/"), tmp_path, workspace], workspace, hidden=[data, dotenv])
    (workspace / "door").symlink_to(data / "http_token")
    for text in (str(data / "http_token"), str(dotenv), "../http_token", "door", "/proc/self/environ", str(data)):
        with pytest.raises(ToolFailed, match="Access denied"):
            allowed.resolve(text)
    assert allowed.resolve("notes.md") == workspace / "notes.md"
    assert allowed.resolve(str(tmp_path / "plan.md")) == tmp_path / "plan.md"


def test_an_allowed_folder_that_holds_secrets_itself_is_refused(tmp_path: Path) -> None:
    """Nobody means the token when naming the data directory."""
    allowed = AllowedPaths([tmp_path], tmp_path, hidden=[tmp_path])
    with pytest.raises(ToolFailed, match="Access denied"):
        allowed.resolve("http_token")


@pytest.mark.parametrize("text", ["", "a\0b", "loop/x", "\ud800", "~nobody-of-this-name/x"])
def test_what_is_no_path_is_refused(paths: AllowedPaths, workspace: Path, text: str) -> None:
    """One clear error instead of a fault."""
    (workspace / "loop").symlink_to(workspace / "loop")
    with pytest.raises(ToolFailed):
        paths.resolve(text)


def test_a_folder_swapped_for_a_link_after_the_check_is_not_followed(
    paths: AllowedPaths, workspace: Path, tmp_path: Path
) -> None:
    """Between check and open another process may change any part of the path."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.txt").write_text("s3cret")
    (workspace / "notes").mkdir()
    checked = paths.resolve("notes/key.txt")
    (workspace / "notes").rmdir()
    (workspace / "notes").symlink_to(tmp_path / "secret")
    with pytest.raises(NotADirectoryError), open_file(checked):
        pass
    with pytest.raises(NotADirectoryError), changing(checked.parent, create=True):
        pass
    with pytest.raises(NotADirectoryError), open_folder(checked.parent):
        pass


def test_a_file_swapped_for_a_link_after_the_check_is_not_followed(
    paths: AllowedPaths, workspace: Path, tmp_path: Path
) -> None:
    """The same for the last part; and a replaced link is not written through."""
    (tmp_path / "key.txt").write_text("s3cret")
    checked = paths.resolve("key.txt")
    (workspace / "key.txt").symlink_to(tmp_path / "key.txt")
    with pytest.raises(OSError, match="changed"), open_file(checked):
        pass
    with pytest.raises(OSError, match="changed"), changing(workspace) as folder:
        folder.replace("key.txt", b"overwritten")
    assert (tmp_path / "key.txt").read_text() == "s3cret"


def test_looking_at_files_leaves_no_descriptor_open(paths: AllowedPaths, workspace: Path) -> None:
    """A worker lives for months."""
    (workspace / "a" / "b").mkdir(parents=True)
    (workspace / "a" / "b" / "f").write_text("x")
    before = open_descriptors()
    for _ in range(20):
        with open_file(paths.resolve("a/b/f")):
            pass
        with pytest.raises(FileNotFoundError), open_file(paths.resolve("a/c/f")):
            pass
        with pytest.raises(ToolFailed), open_file(paths.resolve("a/b")):
            pass
        with changing(workspace / "a") as folder:
            folder.replace("g", b"x")
    assert open_descriptors() == before


def test_protected_files_are_known_by_name_anywhere_in_the_workspace(workspace: Path, tmp_path: Path) -> None:
    """The personality is written by people."""
    protected = ProtectedFiles(("SOUL.md",), workspace)
    for path in (workspace / "SOUL.md", workspace / "deep" / "SOUL.md", workspace / "soul.MD"):
        with pytest.raises(ToolFailed, match="protected"):
            protected.refuse(path)
    protected.refuse(workspace / "NOTES.md")
    protected.refuse(tmp_path / "SOUL.md")


def test_how_lucyd_is_set_up_is_read_and_not_changed_unless_just_that_is_allowed(tmp_path: Path) -> None:
    """A file in plugins.d is run by every worker at its next start."""
    (tmp_path / "plugins.d").mkdir()
    kept = [tmp_path / "plugins.d", tmp_path / "lucyd.toml"]
    paths = AllowedPaths([tmp_path], tmp_path, kept=kept)
    for name in ("plugins.d/new.py", "lucyd.toml", "plugins.d"):
        path = paths.resolve(name)
        with pytest.raises(ToolFailed, match="how Lucyd is set up"):
            paths.refuse_change(path)
    paths.refuse_change(paths.resolve("notes.md"))
    asked_for = AllowedPaths([tmp_path / "plugins.d"], tmp_path, kept=kept)
    asked_for.refuse_change(asked_for.resolve("plugins.d/new.py"))


def test_what_a_protected_name_leads_to_is_protected_too(workspace: Path, tmp_path: Path) -> None:
    """The operator may keep the personality elsewhere and link to it."""
    (workspace / "SOUL.md").symlink_to(tmp_path / "personality.md")
    with pytest.raises(ToolFailed, match="protected"):
        ProtectedFiles(("SOUL.md",), workspace).refuse(tmp_path / "personality.md")


def test_a_path_in_tmp_is_where_commands_see_it(tmp_path: Path) -> None:
    """Unless it, or the folder that it begins with, is in the machine's own alone; what is allowed below stays."""
    tmp = Path("/tmp")
    own, workspace = tmp_path / "own", tmp_path / "workspace"
    (own / "made").mkdir(parents=True)
    workspace.mkdir()
    allowed = AllowedPaths([tmp, workspace], workspace, hidden=[tmp_path], temporary=own)
    with tempfile.TemporaryDirectory(dir=tmp) as folder, tempfile.NamedTemporaryFile(dir=tmp) as file:
        there = Path(folder)
        assert allowed.resolve("/tmp/new/x") == own / "new" / "x"
        assert allowed.resolve("/tmp/made/x") == own / "made" / "x"
        assert allowed.resolve(file.name) == Path(file.name)
        assert allowed.resolve(f"{folder}/new") == there / "new"
        assert allowed.resolve(str(workspace / "x")) == workspace / "x"
        assert allowed.resolve(str(own / "x")) == own / "x"
        assert allowed.resolve("/tmp") == tmp
        (own / there.name).mkdir()
        assert allowed.resolve(f"{folder}/new") == own / there.name / "new"


def test_a_link_that_a_command_left_in_its_tmp_leads_no_further(tmp_path: Path) -> None:
    """It is followed before it is judged; and where ``/tmp`` is not allowed, neither is what commands see there."""
    own, workspace = tmp_path / "own", tmp_path / "workspace"
    own.mkdir()
    workspace.mkdir()
    (own / "link").symlink_to("/etc")
    (own / "to-secrets").symlink_to(tmp_path)
    allowed = AllowedPaths([Path("/tmp")], workspace, hidden=[tmp_path], temporary=own)
    for text in ("/tmp/link/passwd", "/tmp/to-secrets/token"):
        with pytest.raises(ToolFailed, match="Access denied"):
            allowed.resolve(text)
    with pytest.raises(ToolFailed, match="Access denied"):
        AllowedPaths([workspace], workspace, temporary=own).resolve("/tmp/x")
