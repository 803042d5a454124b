"""The way from a path to what answers it."""

import contextlib
from typing import Literal

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Scope

from services.gateway.actions.watch_keys import Stay
from services.gateway.edge.bodies import Bodies
from services.gateway.edge.directory import Directory
from services.gateway.edge.operation import Operation, Reply


class OpenDoor:
    """Everybody may come in."""

    async def admit(self, _: Scope, __: Operation | None) -> Response | None:
        return None

    def stay(self, _: Scope) -> contextlib.AbstractContextManager[Stay] | None:
        return None

    def turn_out(self, _: Scope, __: Operation | None) -> Response:
        return Response(status_code=401)


async def _tells_its_part(request: Request) -> Response:
    return PlainTextResponse(f"{request.scope['lucyd.operation'].path} {request.path_params['id']}")


def operation(path: str, method: Literal["GET", "POST"] = "GET") -> Operation:
    return Operation(method, path, _tells_its_part, None, "tells its part", {200: Reply("it", None)})


DIRECTORY = Directory(
    [operation("/runs/{id}"), operation("/runs/{id}/cancel", "POST"), operation("/models/{id:path}")],
    OpenDoor(),
    Bodies("Lucyd"),
)


async def answered(method: str, path: str, raw_path: bytes) -> tuple[int, str]:
    status, said = 0, b""

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, said
        status = message.get("status", status)
        said += message.get("body", b"")

    scope = {"type": "http", "method": method, "path": path, "raw_path": raw_path, "headers": []}
    await DIRECTORY(scope, receive, send)
    return status, said.decode()


@pytest.mark.parametrize(
    ("raw_path", "path", "told"),
    [
        (b"/runs/http-ada", "/runs/http-ada", "/runs/{id} http-ada"),
        (b"/runs/http-a%20b", "/runs/http-a b", "/runs/{id} http-a b"),
        (b"/runs/http-shop%2Fada", "/runs/http-shop/ada", "/runs/{id} http-shop/ada"),
        (b"/runs/http-shop%2fa%C3%A9%252F", "/runs/http-shop/aé%2F", "/runs/{id} http-shop/aé%2F"),
        (b"/models/a/b%2Fc", "/models/a/b/c", "/models/{id:path} a/b/c"),
    ],
)
async def test_a_part_of_a_path_may_have_a_slash_that_is_written_as_one(raw_path: bytes, path: str, told: str) -> None:
    """People are called what their systems call them, and ``shop/ada`` is a name like others."""
    assert await answered("GET", path, raw_path) == (200, told)


async def test_a_slash_within_a_part_leads_nowhere_else() -> None:
    """What is a name must not become an order."""
    assert (await answered("POST", "/runs/x/cancel", b"/runs/x/cancel"))[0] == 200
    assert (await answered("POST", "/runs/x/cancel", b"/runs/x%2Fcancel"))[0] == 405
    assert (await answered("GET", "/runs/x/y", b"/runs/x/y"))[0] == 404
