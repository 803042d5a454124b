"""The document of the API (OpenAPI 3.1), made of the operations themselves and of the types that check requests."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from services.gateway.edge.operation import Operation, Reply
from services.gateway.rules.chat_request import EVENT_ID
from services.gateway.rules.reply_shapes import OpenAIProblem, Problem
from shared.messages.run_events import EventType

Json = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
JSON = "application/json"
EVENTS = "text/event-stream"
SECURITY = "bearer"
PREFIX = "/api/v1"

TEXT = {"type": "string"}
SECONDS = {"type": "integer", "minimum": 0}

REQUEST_HEADERS: Mapping[str, Json] = {
    "X-Request-Id": {
        "description": "A name for this request, sent back and logged; one that is no plain text is replaced.",
        "schema": TEXT,
    },
    "traceparent": {
        "description": "W3C trace context, carried on when it is valid; else a trace begins here.",
        "schema": TEXT,
    },
    "Idempotency-Key": {
        "description": "The same key with the same body gives the run, or the answer, that is there already; with "
        "another body, 409.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"},
    },
}

REPLY_HEADERS: Mapping[str, Json] = {
    "X-Request-Id": {"description": "The request's id, as it stands in the log.", "schema": TEXT},
    "traceparent": {"description": "The trace, and the span of this request in it.", "schema": TEXT},
    "X-Lucyd-Agent": {"description": "The agent's name, where it is plain ASCII.", "schema": TEXT},
    "Retry-After": {"description": "Seconds after which it is worth to come again.", "schema": SECONDS},
    "RateLimit-Limit": {"description": "How many requests the window of this key holds.", "schema": SECONDS},
    "RateLimit-Remaining": {"description": "How many of them are left.", "schema": SECONDS},
    "RateLimit-Reset": {"description": "Seconds until the window has room again.", "schema": SECONDS},
}

LAST = "the house"
"""What concerns nobody's messages is told when all else is."""

ALWAYS = ("X-Request-Id", "traceparent", "X-Lucyd-Agent")
WINDOW = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")

_REQUEST: Literal["validation"] = "validation"
"""Replies are told in this mode, too: what has a default may be missing in them."""


class _Plain(GenerateJsonSchema):
    """Without a title for each field, which would only repeat its name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def document(operations: Sequence[Operation], *, version: str, description: str = "") -> Json:
    """The whole document. Operations of one path stand together, in the order in which they come."""
    schemas = _Schemas(operations)
    paths: dict[str, Json] = {}
    for operation in operations:
        item = paths.setdefault(open_path(operation.path), {})
        item[operation.method.lower()] = _described(operation, schemas)
    tags = sorted(dict.fromkeys(operation.tag for operation in operations), key=LAST.__eq__)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Lucyd", "version": version, "description": description, "license": {"name": "MIT"}},
        "jsonSchemaDialect": DIALECT,
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in tags],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "parameters": {
                name: {"name": name, "in": "header", "required": False, **told}
                for name, told in REQUEST_HEADERS.items()
            },
            "headers": {name: dict(told) for name, told in REPLY_HEADERS.items()},
            "securitySchemes": {
                SECURITY: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Who calls says so with a bearer key. What it may do is its scopes: `chat` sends "
                    "messages and follows its own runs, `read` looks at its own conversations, memory and costs, "
                    "`admin` looks after the house.",
                }
            },
        },
    }


def open_path(path: str) -> str:
    """The path as the document writes it: of a part that may hold slashes nothing but the name."""
    return path.replace(":path}", "}")


def operation_id(operation: Operation) -> str:
    """A name that stays as long as method and path do."""
    words = re.findall(r"\w+", open_path(operation.path).removeprefix(PREFIX).replace("-", "_"))
    return "_".join([operation.method.lower(), *(word.replace(".", "_") for word in words)])


def _described(operation: Operation, schemas: "_Schemas") -> Json:
    scopes = operation.scopes
    told: Json = {
        "operationId": operation_id(operation),
        "summary": operation.summary,
        "description": operation.description or _own_words(operation),
        "tags": [operation.tag],
        "security": [{SECURITY: [scope]} for scope in scopes],
        "parameters": list(_parameters(operation, schemas)),
        "responses": {
            str(status): _reply(status, replies, schemas, operation) for status, replies in _replies(operation)
        },
    }
    if scopes:
        told["x-scope"] = " or ".join(scopes)
    if operation.body is not None:
        content = {JSON: {"schema": schemas.of(operation.body)}}
        told["requestBody"] = {"required": not operation.may_be_empty, "content": content}
    return told


def _own_words(operation: Operation) -> str:
    answer = operation.answer
    told = inspect.getdoc(answer) if inspect.ismethod(answer) or inspect.isfunction(answer) else None
    return (told or operation.summary).replace("``", "`")


def _parameters(operation: Operation, schemas: "_Schemas") -> Iterator[Json]:
    for name, long in re.findall(r"\{(\w+)(:path)?\}", operation.path):
        schema = operation.parts.get(name) or {
            "type": "string",
            "minLength": 1,
            **({} if long else {"pattern": "^[^/]+$"}),
        }
        yield {"name": name, "in": "path", "required": True, "schema": dict(schema)}
    if operation.query is not None:
        yield from _query(schemas.whole(operation.query))
    for name, told in operation.headers.items():
        schema = dict(told)
        description = schema.pop("description", None)
        more = {"description": description} if description else {}
        yield {"name": name, "in": "header", "required": False, **more, "schema": schema}
    for name in ("Idempotency-Key",) * operation.repeatable + ("X-Request-Id", "traceparent"):
        yield {"$ref": f"#/components/parameters/{name}"}


def _query(schema: Json) -> Iterator[Json]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        told = _without_null(field)
        description = told.pop("description", None)
        more = {"description": description} if description else {}
        yield {"name": name, "in": "query", "required": name in required, **more, "schema": told}


def _without_null(schema: Json) -> Json:
    """The same of a value that is text: what may be ``None`` is left out of a query instead."""
    told = {
        name: value for name, value in schema.items() if name != "anyOf" and not (name == "default" and value is None)
    }
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    return {**told, **kinds[0]} if len(kinds) == 1 else {**told, "anyOf": kinds} if kinds else told


def _replies(operation: Operation) -> Iterator[tuple[int, list[Reply]]]:
    """Every status with what may come under it: the operation's own word first, then what any request may meet."""
    common = dict(_common(operation))
    for status in sorted({*operation.replies, *common}):
        told = [each[status] for each in (operation.replies, common) if status in each]
        yield status, [each for at, each in enumerate(told) if each.body not in [one.body for one in told[:at]]]


def _common(operation: Operation) -> Iterator[tuple[int, Reply]]:
    """What any such request may meet."""
    problem = OpenAIProblem if operation.dialect == "openai" else Problem
    takes_body = operation.body is not None
    if takes_body or operation.query or operation.parts or operation.headers or operation.repeatable:
        yield 400, Reply("it can't be taken as it is; nothing was changed", problem)
    if operation.needs is not None:
        yield 401, Reply("no key, or none that is known", problem, headers={"WWW-Authenticate": "`Bearer`."})
        yield 403, Reply("the key lacks the scope", problem)
        yield 429, Reply("too many; come again after `Retry-After` seconds", problem)
    if not operation.is_fixed:
        yield 404, Reply("there is no such thing", problem)
    if takes_body:
        yield 408, Reply("the body took too long to come; nothing was changed", problem)
        yield 413, Reply("the body is too large; nothing was changed", problem)
    if operation.repeatable:
        yield 409, Reply("the `Idempotency-Key` was used with another body, or the conversation is busy", problem)
    if operation.dialect != "plain":
        yield 503, Reply("something it needs is away; come again", problem)
    yield 500, Reply("a fault of ours; the log has it under the request's id", problem)


def _reply(status: int, replies: Sequence[Reply], schemas: "_Schemas", operation: Operation) -> Json:
    told: Json = {"description": "; or ".join(reply.meaning for reply in replies)}
    names = [*ALWAYS, *("Retry-After",) * (status in {429, 503})]
    if operation.needs is not None:
        names.extend(WINDOW)
    headers: Json = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
    for reply in replies:
        headers.update({name: {"description": said, "schema": TEXT} for name, said in reply.headers.items()})
    told["headers"] = headers
    if content := _content(replies, schemas, operation):
        told["content"] = content
    return told


def _content(replies: Sequence[Reply], schemas: "_Schemas", operation: Operation) -> Json:
    found: dict[str, list[Json]] = {}
    for reply in replies:
        for media in (reply.media, *reply.also):
            is_json = media == JSON or media.endswith("+json")
            if is_json and reply.body is not None:
                found.setdefault(media, []).append(schemas.of(reply.body))
            elif not is_json:
                found.setdefault(media, []).append(_event(operation) if media == EVENTS else dict(TEXT))
    return {media: {"schema": kinds[0] if len(kinds) == 1 else {"anyOf": kinds}} for media, kinds in found.items()}


def _event(operation: Operation) -> Json:
    """One event of a stream, as its fields are read."""
    if operation.dialect == "openai":  # its last word is no JSON
        return {"type": "object", "properties": {"event": TEXT, "data": TEXT}, "required": ["data"]}
    data = {"type": "string", "contentMediaType": JSON, "contentSchema": {"type": "object"}}
    kinds = {"type": "string", "enum": list(get_args(EventType))}
    fields = {"id": {"type": "string", "pattern": EVENT_ID}, "event": kinds, "data": data}
    return {"type": "object", "properties": fields, "required": list(fields)}


class _Schemas:
    """The JSON schema of every type that is named, and ``components`` to which they refer."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        types = {repr(each): each for operation in operations for each in _types(operation)}
        inputs = [(name, _REQUEST, TypeAdapter(each)) for name, each in types.items()]
        made, rest = TypeAdapter.json_schemas(
            inputs,
            ref_template="#/components/schemas/{model}",
            schema_generator=_Plain,
        )
        self._made = {name: schema for (name, _), schema in made.items()}
        self.components: dict[str, Json] = dict(sorted(rest.get("$defs", {}).items()))

    def of(self, kind: Any) -> Json:
        """The schema, a reference where it is a component."""
        return dict(self._made[repr(kind)])

    def whole(self, kind: type[BaseModel]) -> Json:
        """The schema itself, also where it is a component."""
        schema = self.of(kind)
        name = schema.get("$ref", "").rpartition("/")[2]
        return self.components[name] if name else schema


def _types(operation: Operation) -> Iterator[Any]:
    yield from (each for each in (operation.body, operation.query) if each is not None)
    for _, replies in _replies(operation):
        yield from (reply.body for reply in replies if reply.body is not None)
