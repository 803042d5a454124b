"""The API's document as one page for people: made here, without scripts, fonts or anything from elsewhere."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from services.gateway.edge.api_style import STYLE
from services.gateway.rules.example_value import example_of, resolved

Json = Mapping[str, Any]

EVERYWHERE = ("X-Request-Id", "traceparent")
ASKED, THERE = "required", "always"
BODY_METHODS = frozenset({"post", "put", "patch"})
DEEPEST = 4
"""Schemas inside schemas are shown so far; what lies deeper is named."""


def page_of(document: Json) -> str:
    """The page. Everything that comes out of the document is text there."""
    routes = [(method, path, told) for path, methods in document["paths"].items() for method, told in methods.items()]
    by_tag = {tag["name"]: [one for one in routes if tag["name"] in one[2]["tags"]] for tag in document["tags"]}
    info, shown = document["info"], _Shown(document)
    sections = "".join(
        f'<section><h2 id="{_slug(tag)}">{escape(_capital(tag))}</h2>'
        + "".join(shown.route(method, path, told) for method, path, told in some)
        + "</section>"
        for tag, some in by_tag.items()
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])}: the API</title><style>{STYLE}</style></head>"
        f'<body><div class="frame">{_index(by_tag)}<main><header><h1>{escape(info["title"])} '
        f'<span class="version">{escape(info["version"])}</span></h1><p>{_prose(info["description"])}</p>'
        f"<p>{_prose(document['components']['securitySchemes']['bearer']['description'])}</p>"
        f"<p>Every request may carry {shown.everywhere()}.</p>"
        '<p>The same for programs: <a href="/openapi.json">/openapi.json</a>. The examples take the address and the '
        "key from two variables:</p><pre>export LUCYD=http://127.0.0.1:8100\n"
        'export LUCYD_KEY="$(cat ~/.lucyd/http_token)"</pre></header>'
        f"{sections}</main></div></body></html>\n"
    )


def policy_of(html: str) -> str:
    """The policy under which this page, and nothing else, is shown: its own style by its hash."""
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    digest = hashlib.sha256(style[1].encode() if style else b"").digest()
    return (
        f"default-src 'none'; style-src 'sha256-{base64.b64encode(digest).decode()}'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )


class _Shown:
    """Pieces of the page that look things up in the document."""

    def __init__(self, document: Json) -> None:
        self._components: Json = document["components"]
        self._schemas: Json = self._components["schemas"]

    def everywhere(self) -> str:
        """The headers that are not repeated at each route."""
        parameters = self._components["parameters"]
        return " and ".join(
            f"<code>{name}</code> ({_prose(_small(parameters[name]['description'].rstrip('.')))})"
            for name in EVERYWHERE
        )

    def route(self, method: str, path: str, told: Json) -> str:
        scope = f"scope {told['x-scope']}" if told.get("x-scope") else "open"
        name = escape(told["operationId"])
        return (
            f'<article><details><summary><span class="method {method}">{method.upper()}</span>'
            f'<span class="path">{escape(path)}</span><span class="said">{_prose(told["summary"])}</span>'
            f'<span class="scope">{escape(scope)}</span></summary><div class="inside" id="{name}">'
            f"<p>{_prose(_capital(told['description']))}</p>{self._parameters(told)}{self._body(told)}"
            f"<h3>Example</h3><pre>{escape(self._curl(method, path, told))}</pre>"
            f'<h3>Replies</h3><div class="replies">{"".join(self._replies(told))}</div></div></details></article>'
        )

    def _parameters(self, told: Json) -> str:
        rows = ""
        for one in map(self._parameter, told["parameters"]):
            if one["name"] in EVERYWHERE:
                continue
            said = _prose(one.get("description", ""))
            rows += _row(
                one["name"], f"{_kind(one['schema'])}, {one['in']}", said, must=ASKED if one["required"] else ""
            )
        return f"<h3>Parameters</h3><dl>{rows}</dl>" if rows else ""

    def _parameter(self, one: Json) -> Json:
        name = one.get("$ref", "").rpartition("/")[2]
        found: Json = self._components["parameters"][name] if name else one
        return found

    def _body(self, told: Json) -> str:
        content = told.get("requestBody", {}).get("content", {})
        return "".join(
            f"<h3>Body: {escape(media)}</h3>{self._fields(one['schema'], ASKED)}" for media, one in content.items()
        )

    def _replies(self, told: Json) -> Iterator[str]:
        for status, reply in told["responses"].items():
            said = _prose(_capital(reply["description"]))
            line = f'<span class="status s{status[0]}">{status}</span><span>{said}</span>'
            shapes = ""
            for media, one in reply.get("content", {}).items():
                fields = self._fields(one["schema"], THERE)
                shapes += f"<h3>{escape(media)}</h3>{fields}" if fields or media != "application/json" else ""
            if shapes:
                yield f'<details><summary class="line">{line}</summary>{shapes}</details>'
            else:
                yield f'<div class="line">{line}</div>'

    def _fields(self, schema: Json, must: str, depth: int = 0) -> str:
        """The fields of an object, of the objects of a list, or of each of several kinds."""
        if depth > DEEPEST:
            return ""
        whole = resolved(schema, self._schemas)
        if whole.get("properties"):
            required = whole.get("required", ())
            rows = ""
            for name, one in whole["properties"].items():
                more = self._fields(one, must, depth + 1)
                rows += _row(
                    name, _kind(one), _prose(self._says(one)), must=must if name in required else "", more=more
                )
            return f"<dl>{rows}</dl>"
        if whole.get("type") == "array" and isinstance(whole.get("items"), Mapping):
            return self._fields(whole["items"], must, depth)
        kinds = [self._fields(one, must, depth) for one in (*whole.get("anyOf", ()), *whole.get("oneOf", ()))]
        return "".join(kind for kind in kinds if kind)

    def _says(self, schema: Json) -> str:
        said = schema.get("description", "")
        default = schema.get("default")
        return f"{said} Default: `{json.dumps(default)}`." if default is not None else said

    def _curl(self, method: str, path: str, told: Json) -> str:
        parameters = [self._parameter(one) for one in told["parameters"]]
        for one in parameters:
            if one["in"] == "path":
                path = path.replace(f"{{{one['name']}}}", str(example_of(one["schema"], self._schemas)))
        query = "&".join(
            f"{one['name']}={example_of(one['schema'], self._schemas)}"
            for one in parameters
            if one["in"] == "query" and (one["required"] or one["schema"].get("default"))
        )
        streams = any("text/event-stream" in reply.get("content", {}) for reply in told["responses"].values())
        lines = [f'curl -sS{"N" if streams else ""} "$LUCYD{path}{"?" + query if query else ""}"']
        if told["security"]:
            lines.append('-H "Authorization: Bearer $LUCYD_KEY"')
        content = told.get("requestBody", {}).get("content", {})
        for media, one in content.items():
            body = json.dumps(example_of(one["schema"], self._schemas), ensure_ascii=False)
            lines += [f'-H "Content-Type: {media}"', "-d '" + body.replace("'", "'\\''") + "'"]
        if method in BODY_METHODS and not content:
            lines.insert(1, "-X POST")
        return " \\\n  ".join(lines)


def _index(by_tag: Mapping[str, Any]) -> str:
    parts = ""
    for tag, routes in by_tag.items():
        rows = "".join(
            f'<li><a href="#{escape(told["operationId"])}"><span class="method {method}">{method.upper()}</span>'
            f"<span>{escape(path).replace('/', '/<wbr>')}</span></a></li>"
            for method, path, told in routes
        )
        parts += f"<h2>{escape(tag)}</h2><ul>{rows}</ul>"
    return f"<nav>{parts}</nav>"


def _row(name: str, kind: str, said: str, *, must: str = "", more: str = "") -> str:
    asked = f'<span class="must">{must}</span>' if must else ""
    inside = f"<dd>{said}{more}</dd>" if said or more else ""
    return f'<dt><b>{escape(name)}</b><span class="kind">{escape(kind)}</span>{asked}</dt>{inside}'


def _kind(schema: Json) -> str:
    """What it is, in a word or a few."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(map(json.dumps, schema["enum"]))
    for name in ("anyOf", "oneOf"):
        if name in schema:
            return " or ".join(dict.fromkeys(_kind(one) for one in schema[name]))
    kind = schema.get("type", "any")
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"list of {_kind(schema['items'])}"
    return f"{kind} ({schema['format']})" if "format" in schema else str(kind)


def _prose(text: str) -> str:
    """Text with ``code`` between backticks."""
    parts = escape(text, quote=False).split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _small(text: str) -> str:
    return text if text[1:2].isdigit() else text[:1].lower() + text[1:]


def _slug(text: str) -> str:
    return "tag-" + re.sub(r"\W+", "-", text.lower())
