"""A fault in the log says where it was, and not what stood in the variables."""

import subprocess
import sys

import pytest

CODE = """
import structlog
from shared.runtime.logs import set_up_logs
set_up_logs("test", form={form!r})
def ask(header):
    raise RuntimeError("no")
try:
    ask("".join(["Bearer ", "s3cr", "et"]))
except RuntimeError:
    structlog.get_logger().exception("request_failed")
"""


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_shows_no_values(form: str) -> None:
    """A header or a person's words are in them."""
    said = subprocess.run([sys.executable, "-c", CODE.format(form=form)], capture_output=True, text=True, check=True)
    assert "RuntimeError" in said.stderr
    assert "s3cret" not in said.stderr
