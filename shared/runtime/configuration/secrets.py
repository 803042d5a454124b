"""What the operator keeps secret: the variables that hold it, and the values themselves."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from shared.domain.provider import ModelSpec
from shared.runtime.configuration.keys import VENDORS
from shared.runtime.configuration.kinds import VariableName

SHORTEST = 8
"""Characters of a secret that is looked for inside other values; a shorter one would be found by chance."""

ORDINARY = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "LANG", "LANGUAGE", "LC_ALL", "TZ", "TERM", "TMPDIR"}
)
"""Variables that no command can do without; standing in ``.env`` does not make them secret."""

_NAMES_A_VARIABLE = "_env"
_HOLDS_A_SECRET = re.compile(r"(^|_)(token|key|secret|password|passwd|credentials?)_env$", re.IGNORECASE)
_PASSWORD_OF_DSN = re.compile(r"\bpassword\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&]+)", re.IGNORECASE)
_SIGNING = re.compile(r"whsec_[A-Za-z0-9+/=]+")
_IS_VARIABLE = VariableName()


def variables_named_in(*tables: Any) -> dict[str, bool]:
    """Every variable that a ``*_env`` key names anywhere in tables or sections; true when it holds a secret."""
    found: dict[str, bool] = {}
    for key, value in _entries(tables):
        if key.endswith(_NAMES_A_VARIABLE) and isinstance(value, str) and value and _IS_VARIABLE.allows(value):
            found[value] = found.get(value, False) or _HOLDS_A_SECRET.search(key) is not None
    return found


def vendors_variables() -> frozenset[str]:
    """The variables in which vendors' keys are usually kept."""
    return frozenset(name for vendor in VENDORS.values() for name in vendor.key_envs)


def words_of(value: str | None) -> set[str]:
    """The value; and of one that holds several secrets for signing, each by itself."""
    return {value or "", *_SIGNING.findall(value or "")}


def secrets_in(models: Mapping[str, ModelSpec], urls: Iterable[str | None], others: Iterable[str | None]) -> set[str]:
    """Keys and headers of models, passwords of servers' addresses, and ``others``, each of ``SHORTEST`` or more."""
    found = {value for value in others if value}
    for spec in models.values():
        found |= {spec.api_key or "", *spec.headers.values()}
    for url in urls:
        found |= set(_passwords_of(url or ""))
    return {value for value in found if len(value) >= SHORTEST}


def _passwords_of(url: str) -> Iterator[str]:
    """As written and as meant: an address holds its password with ``%`` signs."""
    try:
        written = urlsplit(url).password or ""
    except ValueError:
        written = ""
    named = [match.strip("'") for match in _PASSWORD_OF_DSN.findall(url)]
    for password in (written, *named):
        yield password
        yield unquote(password)


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif is_dataclass(value):
        pairs = [(each.name, getattr(value, each.name)) for each in fields(value)]
    else:
        pairs = []
        for each in value if isinstance(value, list | tuple) else ():
            yield from _entries(each)
    for key, inner in pairs:
        yield str(key), inner
        yield from _entries(inner)
