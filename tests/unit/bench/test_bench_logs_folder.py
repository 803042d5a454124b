"""Logs of a bench that went wrong are there for whoever looks for the reason."""

import pytest

from bench.logs_folder import logs_folder


def test_logs_are_gone_when_all_was_right_and_kept_and_named_when_not(capsys: pytest.CaptureFixture[str]) -> None:
    """A hundred benches must not fill a disk; the one that failed must be found."""
    with logs_folder("test") as right:
        (right.path / "a.log").write_text("x", "utf-8")
        right.was_right = True
    assert not right.path.exists()
    with pytest.raises(RuntimeError), logs_folder("test") as wrong:
        raise RuntimeError
    assert wrong.path.is_dir()
    assert str(wrong.path) in capsys.readouterr().err
    wrong.path.rmdir()
