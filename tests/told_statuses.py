"""Whether the API's document tells the status of an answer; asked of every answer that a test's client gets."""

import functools
import inspect
import pkgutil
from importlib import import_module

import httpx2

from services.gateway import edge
from services.gateway.edge.openapi import document, open_path
from services.gateway.edge.operation import Operation


def gateway_operations() -> list[Operation]:
    """Every operation that a class of the gateway's edge offers."""
    found: list[Operation] = []
    for module in pkgutil.iter_modules(edge.__path__):
        room = import_module(f"{edge.__name__}.{module.name}")
        for each in vars(room).values():
            if inspect.isclass(each) and each.__module__ == room.__name__ and hasattr(each, "operations"):
                found += object.__new__(each).operations()  # they are named without anything the class needs
    return found


@functools.cache
def _told() -> list[tuple[Operation, frozenset[int]]]:
    operations = sorted(gateway_operations(), key=lambda operation: not operation.is_fixed)
    paths = document(operations, version="0")["paths"]
    return [
        (one, frozenset(map(int, paths[open_path(one.path)][one.method.lower()]["responses"]))) for one in operations
    ]


def is_told(answer: httpx2.Response) -> None:
    """Fails the test when the answer's status is not in the document."""
    path, method = answer.request.url.path, answer.request.method
    for operation, statuses in _told():
        if operation.pattern().match(path) and operation.method == ("GET" if method == "HEAD" else method):
            assert answer.status_code in statuses, f"{method} {path}: {answer.status_code} is not documented"
            return


async def is_told_later(answer: httpx2.Response) -> None:
    """The same for a client of many requests at once."""
    is_told(answer)
