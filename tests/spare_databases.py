"""Databases for tests, made ahead and dropped afterwards beside them: neither is what a test should wait for."""

import uuid
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
from psycopg import sql

AHEAD = 2
"""How many stand ready, and how many may still be on their way out: each is a copy of the whole template."""

PATIENCE = 60.0


class SpareDatabases:
    """Fresh copies of a template, each for one test; raises what Postgres said when one can't be made or dropped."""

    def __init__(self, url: str, template: str, maker: ThreadPoolExecutor, dropper: ThreadPoolExecutor) -> None:
        self._url = url
        self._template = template
        self._maker = maker
        self._dropper = dropper
        self._ready: deque[Future[str]] = deque(maker.submit(self._make) for _ in range(AHEAD))
        self._leaving: deque[Future[None]] = deque()

    def take(self) -> str:
        """The name of a database that nobody has used."""
        self._ready.append(self._maker.submit(self._make))
        return self._ready.popleft().result(PATIENCE)

    def give_back(self, name: str) -> None:
        """Have it dropped, whoever is still connected to it."""
        self._leaving.append(self._dropper.submit(self._drop, name))
        if len(self._leaving) > AHEAD:
            self._leaving.popleft().result(PATIENCE)

    def clear(self) -> None:
        """Drop what nobody took, and wait until all are gone."""
        while self._ready:
            self.give_back(self._ready.popleft().result(PATIENCE))
        while self._leaving:
            self._leaving.popleft().result(PATIENCE)

    def _make(self) -> str:
        name = f"lucyd_test_{uuid.uuid4().hex[:12]}"
        self._tell(
            sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(self._template))
        )
        return name

    def _drop(self, name: str) -> None:
        self._tell(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def _tell(self, statement: sql.Composed) -> None:
        with psycopg.connect(self._url, autocommit=True) as admin:
            admin.execute(statement)


@contextmanager
def open_spare_databases(url: str, template: str) -> Iterator[SpareDatabases]:
    """Copies of ``template`` on the server at ``url`` until the block ends; none is left then."""
    with ThreadPoolExecutor(1, "makes") as maker, ThreadPoolExecutor(1, "drops") as dropper:
        spare = SpareDatabases(url, template, maker, dropper)
        try:
            yield spare
        finally:
            spare.clear()
