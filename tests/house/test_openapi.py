"""The document of the API is a good one, and says all that is there."""

import re
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from services.gateway.edge.api_page import page_of, policy_of
from services.gateway.edge.openapi import document, open_path
from services.gateway.rules.example_value import example_of
from tests.told_statuses import gateway_operations

OPERATIONS = gateway_operations()
DOCUMENT = document(OPERATIONS, version="0.0.0", description="A <b>bold</b> `claim`.")
TOLD = [(path, method, told) for path, item in DOCUMENT["paths"].items() for method, told in item.items()]
NAMES = [f"{method} {path}" for path, method, _ in TOLD]


def test_the_document_is_openapi() -> None:
    """By the meta schema of version 3.1: clients are made from it."""
    assert [str(error) for error in OpenAPIV31SpecValidator(DOCUMENT).iter_errors()] == []


def test_every_operation_is_in_the_document_once() -> None:
    """Its name is its own; generated clients have a function of that name."""
    there = {(method.upper(), path) for path, method, _ in TOLD}
    assert there == {(operation.method, open_path(operation.path)) for operation in OPERATIONS}
    names = [told["operationId"] for _, _, told in TOLD]
    assert sorted(set(names)) == sorted(names)
    assert all(re.fullmatch(r"[a-z][A-Za-z0-9_]*", name) for name in names)


@pytest.mark.parametrize(("path", "method", "told"), TOLD, ids=NAMES)
def test_what_any_request_may_meet_is_told_where_it_may(path: str, method: str, told: dict[str, Any]) -> None:
    """A status that nobody told is one that no client handles."""
    replies = set(told["responses"])
    assert "500" in replies
    if told["security"]:
        assert replies >= {"401", "403", "429"}
        assert told["security"] == [{"bearer": [scope]} for scope in told["x-scope"].split(" or ")]
        assert "Retry-After" in told["responses"]["429"]["headers"]
    if "requestBody" in told:
        assert replies >= {"400", "408", "413"}
    if "{" in path:
        assert "404" in replies
        named = {one["name"] for one in told["parameters"] if one.get("in") == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", path)), method


def test_errors_are_told_in_the_dialect_of_their_route() -> None:
    """OpenAI's clients read ``error.message``; ours read ``error``."""
    by_name = {(operation.method.lower(), open_path(operation.path)): operation for operation in OPERATIONS}
    for path, method, told in TOLD:
        if not told["security"]:
            continue
        schema = told["responses"]["401"]["content"]["application/json"]["schema"]
        foreign = by_name[method, path].dialect == "openai"
        assert schema == {"$ref": f"#/components/schemas/{'OpenAIProblem' if foreign else 'Problem'}"}


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.body is not None], ids=lambda one: one.path)
def test_the_example_of_a_body_is_one_that_is_taken(operation: Any) -> None:
    """People copy it from the page."""
    body = DOCUMENT["paths"][open_path(operation.path)][operation.method.lower()]["requestBody"]
    example = example_of(body["content"]["application/json"]["schema"], DOCUMENT["components"]["schemas"])
    operation.body.model_validate(example)


def test_the_page_holds_every_route_and_nothing_from_elsewhere() -> None:
    """No script, no font, no picture: what it shows is in it, and what the document says is text there."""
    page = page_of(DOCUMENT)
    assert all(f'<span class="path">{path}</span>' in page for path in DOCUMENT["paths"])
    assert re.findall(r"<(?:script|link|img|iframe|object|form)\b|\bon\w+=|\bsrc=|@import|url\(", page) == []
    assert set(re.findall(r'href="([^"#][^"]*)"', page)) == {"/openapi.json"}
    assert "A &lt;b&gt;bold&lt;/b&gt; <code>claim</code>." in page
    anchors = re.findall(r'href="#([^"]+)"', page)
    assert all(page.count(f'id="{anchor}"') == 1 for anchor in anchors)
    policy = policy_of(page)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
