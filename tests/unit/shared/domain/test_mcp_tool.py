"""Names, descriptions and schemas of others, made such that no provider refuses them."""

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.mcp_server import McpServer, is_server_name
from shared.domain.mcp_tool import ListedTool, OfferedTool, offered, safe_name

EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
NAMES = st.from_regex(r"[A-Za-z0-9-](_?[A-Za-z0-9-]){0,11}", fullmatch=True)


def tool(name: str, schema: dict[str, Any] | None = None, **more: Any) -> ListedTool:
    return ListedTool(name, more.pop("description", "Do it."), EMPTY if schema is None else schema, **more)


def only(server: McpServer, listed: ListedTool) -> OfferedTool:
    (found,), unfit = offered(server, [listed])
    assert unfit == {}
    return found


def why(listed: ListedTool) -> str:
    found, unfit = offered(McpServer("s"), [listed])
    assert found == []
    (reason,) = unfit.values()
    return reason


@given(NAMES, st.text(min_size=1, max_size=200))
def test_every_name_is_one_that_providers_accept(server: str, name: str) -> None:
    """One bad name, and the provider refuses the whole request."""
    assert is_server_name(server)
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", safe_name(server, name))


@given(NAMES, st.text(min_size=1, max_size=80), NAMES, st.text(min_size=1, max_size=80))
def test_different_tools_have_different_names(server: str, name: str, other_server: str, other: str) -> None:
    """Two that share a name would be one, and nobody knows which."""
    if (server, name) != (other_server, other):
        assert safe_name(server, name) != safe_name(other_server, other)


def test_a_name_depends_on_nothing_but_its_server_and_itself() -> None:
    """It stays the same when another server comes or goes, and so does the prompt."""
    assert safe_name("files", "read_file") == "files__read_file"
    assert safe_name("files", "read.file") == "files__read_file_dd32cd"
    assert safe_name("files", "read file") != safe_name("files", "read.file")


def test_tools_stand_in_the_order_of_their_names() -> None:
    """Servers list them as they like, and each worker must show the same."""
    listed = [tool("b"), tool("a"), tool("c")]
    assert [each.name for each in offered(McpServer("s"), listed)[0]] == ["a", "b", "c"]
    assert offered(McpServer("s"), listed) == offered(McpServer("s"), listed[::-1])


def test_what_is_denied_or_not_allowed_is_not_offered() -> None:
    """The operator's word, by the server's own names."""
    listed = [tool("a"), tool("b"), tool("c")]
    denied, unfit = offered(McpServer("s", deny=frozenset({"a"})), listed)
    assert [each.name for each in denied] == ["b", "c"]
    assert unfit == {"a": "not allowed by the configuration"}
    allowed, _ = offered(McpServer("s", allow=frozenset({"a"})), listed)
    assert [each.name for each in allowed] == ["a"]
    few, unfit = offered(McpServer("s", max_tools=1), listed)
    assert [each.name for each in few] == ["a"]
    assert unfit["c"] == "more than 1 tools (max_tools)"


def test_a_server_is_believed_about_its_tools_only_if_the_operator_says_so() -> None:
    """What is taken for reading is done again after a crash."""
    reading = tool("a", read_only=True)
    assert only(McpServer("s"), reading).spec.effect == "once"
    assert only(McpServer("s", trust_annotations=True), reading).spec.effect == "read"
    assert only(McpServer("s", trust_annotations=True), tool("a", idempotent=True)).spec.effect == "idempotent"
    assert only(McpServer("s", trust_annotations=True), tool("a")).spec.effect == "once"
    assert only(McpServer("s", effect="read"), tool("a")).spec.effect == "read"
    sure = McpServer("s", trust_annotations=True, effects={"a": "once"})
    assert only(sure, reading).spec.effect == "once"


def test_a_hostile_description_is_cut_and_cleaned() -> None:
    """Control characters in a prompt or on a terminal are nobody's friend."""
    said = only(McpServer("s"), tool("a", description="\x1b[2J\0hello\nthere\u202e" + "x" * 10_000)).spec.description
    assert said.startswith("hello\ntherexxx")
    assert len(said) <= 4000
    assert only(McpServer("s"), tool("a", description=" \x07 ")).spec.description == "a of s"


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "string"}, "its schema is not that of an object"),
        ({"type": "object", "properties": []}, "its schema is none"),
        ({"type": "object", "properties": {}, "required": "x"}, "its schema is none"),
        ({"type": "object", "description": "x" * 30_000}, "more than 20000 (max_schema_bytes)"),
        ({"type": "object", "properties": {"a b": {}}}, "no provider takes an argument called 'a b'"),
        ({"type": "object", "default": math.nan}, "its schema is no JSON"),
    ],
)
def test_a_schema_that_a_provider_would_refuse_costs_its_tool_and_no_other(schema: dict[str, Any], reason: str) -> None:
    """Refused by the provider, it would cost every run."""
    assert reason in why(tool("a", schema))
    assert len(offered(McpServer("s"), [tool("a", schema), tool("b")])[0]) == 1


def test_a_schema_that_is_nested_for_ever_is_left_out() -> None:
    """So deep that some parser falls over it."""
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(100):
        deep = {"type": "object", "properties": {"a": deep}}
    assert "nested more than" in why(tool("a", deep))
    for _ in range(100_000):
        deep = {"a": deep}
    assert why(tool("a", {"type": "object", "properties": {"a": deep}})) == "its schema is no JSON"


def test_what_providers_refuse_at_the_top_of_a_schema_is_left_to_the_server() -> None:
    """It holds the arguments against it anyway."""
    given_schema = {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}]}}, "anyOf": [], "oneOf": []}
    assert only(McpServer("s"), tool("a", given_schema)).spec.input_schema == {
        "type": "object",
        "properties": {"a": {"anyOf": [{"type": "string"}]}},
    }


def test_a_tool_that_declares_no_arguments_takes_any() -> None:
    """That is what JSON Schema says where nothing is said."""
    assert only(McpServer("s"), tool("a", {})).spec.input_schema == {
        "type": "object",
        "properties": {},
        "additionalProperties": True,
    }


def test_a_tool_told_of_twice_is_offered_once() -> None:
    """A provider refuses two of one name."""
    found, _ = offered(McpServer("s"), [tool("a"), tool("a")])
    assert len(found) == 1


@pytest.mark.parametrize("name", ["", "a__b", "_a", "a_", "a b", "x" * 25, "ü"])
def test_a_server_with_a_doubtful_name_is_refused(name: str) -> None:
    """Its tools' names would have two readings."""
    assert not is_server_name(name)
