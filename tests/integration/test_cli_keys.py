"""`lucyd keys`: keys are made, listed and revoked in a real Postgres."""

import subprocess
from pathlib import Path

import psycopg
import pytest

from shared.domain.api_key import hash_of, is_secret
from tests.command_line import lucyd


class Keys:
    """The command with a database."""

    def __init__(self, home: Path, database_url: str) -> None:
        self._home = home
        self._database_url = database_url

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return lucyd(self._home, "keys", *words, LUCYD_DATABASE_URL=self._database_url)

    def rows(self) -> list[tuple[object, ...]]:
        with psycopg.connect(self._database_url) as database:
            query = "select name, scopes, hash, revoked_at is null from api_keys order by id"
            return database.execute(query).fetchall()


@pytest.fixture
def keys(tmp_path: Path, database_url: str) -> Keys:
    return Keys(tmp_path, database_url)


def test_the_secret_of_a_key_is_shown_once_and_kept_nowhere(keys: Keys) -> None:
    """It stands alone on standard output, fit for a variable of a script; the table has its hash."""
    made = keys("create", "phone")
    assert made.returncode == 0, made.stderr
    secret = made.stdout.removesuffix("\n").encode()
    assert is_secret(secret)
    assert "only time" in made.stderr
    assert keys.rows() == [("phone", ["chat", "read"], hash_of(secret), True)]

    listed = keys("list")
    assert "phone" in listed.stdout
    assert "chat read" in listed.stdout
    assert secret.decode() not in listed.stdout


def test_a_name_is_given_again_only_with_rotate(keys: Keys) -> None:
    """The name has conversations; whoever gets it gets them."""
    assert keys("list").stdout == "There are no keys but the operator's token.\n"
    keys("create", "phone", "--scope", "admin")
    again = keys("create", "phone")
    assert (again.returncode, again.stdout) == (1, "")
    assert "--rotate" in again.stderr

    assert keys("create", "phone", "--rotate").returncode == 0
    assert [row[1:2] + row[3:] for row in keys.rows()] == [(["admin"], False), (["admin"], True)]

    revoked = keys("revoke", "phone")
    assert (revoked.returncode, revoked.stderr) == (0, "")
    assert keys("revoke", "phone").stderr == "lucyd: phone was revoked before.\n"
    after = keys("create", "phone")
    assert after.returncode == 1
    assert "its conversations are still there" in after.stderr
    assert keys("create", "phone", "--rotate", "--scope", "chat").returncode == 0
    assert keys.rows()[-1][1:2] == (["chat"],)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("create", "default"), "the operator's own token"),
        (("create", "Phone"), "small letters"),
        (("create", "a:b"), "small letters"),
        (("create", "x" * 64), "small letters"),
        (("create", "phone", "--scope", "root"), "a key may have admin, chat, read"),
        (("create", "phone", "--rotate"), "nothing to rotate"),
        (("revoke", "phone"), "There is no key 'phone'"),
    ],
)
def test_what_can_not_be_done_is_one_sentence_and_changes_nothing(
    keys: Keys, words: tuple[str, ...], said: str
) -> None:
    """A typing error must not become a key."""
    done = keys(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert keys.rows() == []


def test_a_database_that_is_away_or_empty_is_said(tmp_path: Path, database_url: str) -> None:
    """Nothing was made then, and the sentence tells how to go on."""
    away = lucyd(tmp_path, "keys", "create", "phone", LUCYD_DATABASE_URL="postgresql://lucyd:secret-word@127.0.0.1:1/x")
    assert (away.returncode, away.stdout) == (1, "")
    assert "127.0.0.1:1" in away.stderr
    assert "secret-word" not in away.stderr
    with psycopg.connect(database_url, autocommit=True) as database:
        database.execute("drop schema public cascade")
        database.execute("create schema public")
    empty = lucyd(tmp_path, "keys", "list", LUCYD_DATABASE_URL=database_url)
    assert "lucyd migrate" in empty.stderr
