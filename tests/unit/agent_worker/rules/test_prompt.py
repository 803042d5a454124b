"""The system prompt: what stays the same stays the same to the byte."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from services.agent_worker.rules.prompt import ContextFiles, Situation, system_blocks
from shared.domain.effect import ToolSpec
from tests.builders import NOON

FILES = ContextFiles(stable=[("SOUL.md", " kind \n"), ("EMPTY.md", " ")], semi_stable=[("MEMORY.md", "knows Anna")])
TOOLS = [ToolSpec("read", "Reads a file. With limits.", {}), ToolSpec("exec", "Runs a command.", {})]
SITUATION = Situation(NOON, "Lucy", "http", "full", "anna", ("NO_REPLY",), 50)


def _texts(**fields: object) -> dict[str, str]:
    blocks = system_blocks(FILES, TOOLS, replace(SITUATION, **fields))  # type: ignore[arg-type]
    return {block["tier"]: block["text"] for block in blocks}


def test_the_first_blocks_do_not_change_from_message_to_message() -> None:
    """Providers cache them; one byte more and every message pays for all of it."""
    one = _texts()
    other = _texts(now=NOON.replace(hour=13), source="telegram", contact="bob", tier="lean", max_turns=3)
    assert one["stable"] == other["stable"]
    assert one["semi_stable"] == other["semi_stable"]
    assert one["dynamic"] != other["dynamic"]
    assert one["stable"] == "--- SOUL.md ---\nkind\n\n--- Tools ---\n- read: Reads a file.\n- exec: Runs a command."
    assert one["semi_stable"] == "--- MEMORY.md ---\nknows Anna"


def test_the_last_block_says_what_is_true_of_this_message() -> None:
    """Time, who speaks, how the reply travels, and how to be silent."""
    dynamic = _texts()["dynamic"]
    assert "Current time: Thu, 21. May 2026 - 12:00 UTC" in dynamic
    for part in ("Lucy", "anna", "HTTP API", "NO_REPLY", "at most 50 turns"):
        assert part in dynamic
    assert "Context tier" not in dynamic
    assert "Context tier: lean" in _texts(tier="lean")["dynamic"]
    assert "automated infrastructure" in _texts(source="system")["dynamic"]
    assert "NO_REPLY" not in _texts(silent_tokens=())["dynamic"]


def test_an_empty_block_is_left_out() -> None:
    """Providers refuse empty text."""
    blocks = system_blocks(ContextFiles([], []), [], SITUATION)
    assert [block["tier"] for block in blocks] == ["dynamic"]


@given(st.integers(min_value=1, max_value=200))
def test_trimming_takes_from_the_end_and_never_from_the_stable_block(tokens: int) -> None:
    """The personality is not what gives way."""
    whole = {block["tier"]: block["text"] for block in system_blocks(FILES, TOOLS, SITUATION)}
    cut = {block["tier"]: block["text"] for block in system_blocks(FILES, TOOLS, SITUATION, max_tokens=tokens)}
    assert cut["stable"] == whole["stable"]
    semi_stable, dynamic = cut.get("semi_stable", ""), cut.get("dynamic", "")
    assert whole["semi_stable"].startswith(semi_stable)
    assert whole["dynamic"].startswith(dynamic)
    assert len(semi_stable) + len(dynamic) <= max(0, tokens * 4 - len(whole["stable"]))
    if dynamic:
        assert semi_stable == whole["semi_stable"]
