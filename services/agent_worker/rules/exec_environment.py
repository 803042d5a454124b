"""Which environment variables a command of the agent may see."""

import re
from collections.abc import Mapping

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


def exec_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that carry no secret, judged by name and by value (URLs and DSNs with a password in them).

    This keeps secrets out of a command's plain sight. It is no sandbox: a process of the same user may read more.
    """
    return {name: value for name, value in environment.items() if not _is_secret(name, value)}


def _is_secret(name: str, value: str) -> bool:
    upper = name.upper()
    if upper.startswith(_PREFIXES) or upper.endswith(_SUFFIXES):
        return True
    if f"_{upper}" in _SUFFIXES:  # a bare TOKEN or SECRET
        return True
    return bool(_URL_WITH_PASSWORD.search(value) or _DSN_WITH_PASSWORD.search(value))
