"""Named keys for tests: made and revoked in a database, as the operator's command does it."""

import secrets

import psycopg

from shared.domain.api_key import SECRET_BYTES, SECRET_MARK, hash_of
from shared.ids import new_id


def make_key(database_url: str, name: str, *scopes: str) -> str:
    """The secret of a new key."""
    secret = new_secret()
    with psycopg.connect(database_url, autocommit=True) as database:
        parameters = (new_id(), name, list(scopes), hash_of(secret.encode()))
        made = database.execute("select lucyd_make_key(%s, %s, %s, %s, false)", parameters).fetchone()
    assert made == ("made",)
    return secret


def new_secret() -> str:
    """A secret that no key has."""
    return SECRET_MARK + secrets.token_urlsafe(SECRET_BYTES)


def revoke_key(database_url: str, name: str) -> None:
    """From now on it is good no more."""
    with psycopg.connect(database_url, autocommit=True) as database:
        database.execute("update api_keys set revoked_at = now() where name = %s", (name,))


def bearer(secret: str) -> dict[str, str]:
    """The header that carries it."""
    return {"Authorization": f"Bearer {secret}"}
