"""Which environment variables a command of the agent may see."""

import re
from collections.abc import Collection, Mapping

_PREFIXES = ("LUCYD_", "ANTHROPIC_", "OPENAI_")
_SUFFIXES = (
    "_KEY",
    "_TOKEN",
    "_SECRET",
    "_PASSWORD",
    "_CREDENTIALS",
    "_CODE",
    "_PASS",
    "_ID",
    # Common names without the underscore: PGPASSWORD, SSHPASS's kin, MISTRAL_APIKEY.
    "PASSWORD",
    "PASSWD",
    "APIKEY",
)
_URL_WITH_PASSWORD = re.compile(r"://[^\s@/]*:\S*@")
_DSN_WITH_PASSWORD = re.compile(r"\bpassword\s*=", re.IGNORECASE)


# No command can do without these, and a short password may well be a part of somebody's path.
_ORDINARY = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "LANG", "TZ", "TERM", "TMPDIR"})


def exec_environment(
    environment: Mapping[str, str], *, names: Collection[str] = (), values: Collection[str] = ()
) -> dict[str, str]:
    """The variables that carry no secret: neither one of ``names``, nor with one of ``values`` in them, nor such by the
    look of name and value (URLs and DSNs with a password in them).

    This keeps secrets out of a command's plain sight. It is no sandbox: a process of the same user may read more.
    """
    return {
        name: value
        for name, value in environment.items()
        if name not in names and not _is_secret(name, value) and not _holds(name, value, values)
    }


def _holds(name: str, value: str, secrets: Collection[str]) -> bool:
    if name in _ORDINARY:
        return value in secrets
    return any(secret in value for secret in secrets)


def _is_secret(name: str, value: str) -> bool:
    upper = name.upper()
    if upper.startswith(_PREFIXES) or upper.endswith(_SUFFIXES):
        return True
    if f"_{upper}" in _SUFFIXES:  # a bare TOKEN or SECRET
        return True
    return bool(_URL_WITH_PASSWORD.search(value) or _DSN_WITH_PASSWORD.search(value))
