"""Which replies are not delivered."""

import pytest

from services.agent_worker.rules.silence import is_silent


@pytest.mark.parametrize(
    ("reply", "silent"),
    [
        ("NO_REPLY", True),
        ("  NO_REPLY\n", True),
        ("**NO_REPLY**", True),
        ("NO_REPLY.", True),
        ("NO_REPLY nothing new today", True),
        ("Nothing new today. NO_REPLY", True),
        ("NO_REPLYING is odd", False),
        ("XNO_REPLY", False),
        ("say NO_REPLY to be silent", False),
        ("no_reply", False),
        ("", False),
        ("HEARTBEAT_OK", True),
    ],
)
def test_silence(reply: str, silent: bool) -> None:
    """Talking about silence is not silence."""
    assert is_silent(reply, ["NO_REPLY", "HEARTBEAT_OK"]) == silent


def test_without_tokens_nothing_is_silent() -> None:
    """An empty token must not silence everything."""
    assert not is_silent("hi", [])
    assert not is_silent("hi", [""])
    assert is_silent("a.b", ["a.b"])
    assert not is_silent("axb", ["a.b"])
