"""Make, list and revoke API keys."""

import secrets
from collections.abc import Collection, Sequence

from cli.edge.screen import Screen
from cli.rules.failure import Failure
from cli.rules.key_list import keys_table
from shared.domain.api_key import ALL_SCOPES, OPERATOR, SECRET_BYTES, SECRET_MARK, KeyScope, hash_of, may_be_named
from shared.ids import new_id
from shared.ports.api_keys import ApiKeys

USUAL: tuple[KeyScope, ...] = ("chat", "read")


def read_scopes(given: Sequence[str], *, rotate: bool) -> frozenset[KeyScope]:
    """What was asked for; none when a key that is rotated keeps its own. Raises ``Failure``."""
    wrong = [each for each in given if each not in ALL_SCOPES]
    if wrong:
        raise Failure(f"There is no scope {wrong[0]!r}; a key may have {', '.join(sorted(ALL_SCOPES))}.")
    wanted = frozenset(scope for scope in ALL_SCOPES if scope in given)
    return wanted if wanted or rotate else frozenset(USUAL)


async def create_key(name: str, scopes: Collection[KeyScope], keys: ApiKeys, screen: Screen, *, rotate: bool) -> None:
    """Make a key and show its secret, alone on standard output. Raises ``Failure``, and ``TryLater``."""
    if name == OPERATOR:
        raise Failure(
            f"{OPERATOR} is the operator's own token, which stands in LUCYD_HTTP_TOKEN or in the data directory."
        )
    if not may_be_named(name):
        raise Failure("A key is named by small letters, digits, - and _, at most 63, the first a letter or a digit.")
    secret = SECRET_MARK + secrets.token_urlsafe(SECRET_BYTES)
    made = await keys.make(new_id(), name, scopes=scopes, hash=hash_of(secret.encode()), rotate=rotate)
    match made:
        case "taken":
            raise Failure(f"There is a key {name}; revoke it, or give --rotate to have a new one take its place.")
        case "revoked":
            raise Failure(
                f"{name} was revoked, and its conversations are still there; --rotate gives them to a new key."
            )
        case "unknown":
            raise Failure(f"There never was a key {name}, so there is nothing to rotate; see `lucyd keys list`.")
        case "made":
            screen.say("This is the only time that the secret is shown; it is stored nowhere.", "aside")
            screen.say(secret)


async def show_keys(keys: ApiKeys, screen: Screen) -> None:
    """A table of all. Raises ``TryLater``."""
    records = await keys.all()
    if records:
        screen.table(keys_table(records))
    else:
        screen.say("There are no keys but the operator's token.")


async def revoke_key(name: str, keys: ApiKeys, screen: Screen) -> None:
    """Let nobody in with it any more. Raises ``Failure`` when there is no such key, and ``TryLater``."""
    if not await keys.revoke(name):
        was = any(record.name == name for record in await keys.all())
        raise Failure(f"{name} was revoked before." if was else f"There is no key {name!r}; see `lucyd keys list`.")
    screen.say(f"Revoked: {name}. Every gateway knows within two seconds; its conversations stay.")
