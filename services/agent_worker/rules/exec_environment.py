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
_DOORS = frozenset(
    {
        "SSH_AUTH_SOCK",
        "SSH_AGENT_PID",
        "SSH_ASKPASS",
        "GIT_ASKPASS",
        "GPG_AGENT_INFO",
        "GNOME_KEYRING_CONTROL",
        "TMUX",
        "TMUX_PANE",
        "STY",
        "DBUS_SESSION_BUS_ADDRESS",
        "DBUS_SYSTEM_BUS_ADDRESS",
        "DBUS_STARTER_ADDRESS",
        "AT_SPI_BUS_ADDRESS",
        "SESSION_MANAGER",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XAUTHORITY",
        "ICEAUTHORITY",
        "XDG_RUNTIME_DIR",
        "PULSE_SERVER",
        "PIPEWIRE_REMOTE",
        "KRB5CCNAME",
        "VSCODE_IPC_HOOK_CLI",
        "VSCODE_GIT_IPC_HANDLE",
        "KITTY_LISTEN_ON",
        "NVIM",
        "LISTEN_FDS",
        "LISTEN_PID",
        "LISTEN_FDNAMES",
    }
)
"""Ways into other programs of the user: agents that hold keys, terminals, the desktop, whoever started the worker."""

_DOOR_SUFFIXES = ("_SOCK", "_SOCKET")
_DOOR_VALUES = ("unix:", "/run/user/")
_URL_WITH_PASSWORD = re.compile(r"://[^\s@/]*:\S*@")
_DSN_WITH_PASSWORD = re.compile(r"\bpassword\s*=", re.IGNORECASE)


# No command can do without these, and a short password may well be a part of somebody's path.
_ORDINARY = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "LANG", "TZ", "TERM", "TMPDIR"})


def exec_environment(
    environment: Mapping[str, str], *, names: Collection[str] = (), values: Collection[str] = ()
) -> dict[str, str]:
    """The variables that carry no secret: neither one of ``names``, nor with one of ``values`` in them, nor such by the
    look of name and value (URLs and DSNs with a password in them), nor a way into another program of the user.

    This keeps secrets out of a command's plain sight. It is no sandbox: a process of the same user may read more.
    """
    return {
        name: value
        for name, value in environment.items()
        if not (name in names or _is_secret(name, value) or _is_door(name, value) or _holds(name, value, values))
    }


def _holds(name: str, value: str, secrets: Collection[str]) -> bool:
    if name in _ORDINARY:
        return value in secrets
    return any(secret in value for secret in secrets)


def _is_door(name: str, value: str) -> bool:
    upper = name.upper()
    return upper in _DOORS or upper.endswith(_DOOR_SUFFIXES) or value.startswith(_DOOR_VALUES)


def _is_secret(name: str, value: str) -> bool:
    upper = name.upper()
    if upper.startswith(_PREFIXES) or upper.endswith(_SUFFIXES):
        return True
    if f"_{upper}" in _SUFFIXES:  # a bare TOKEN or SECRET
        return True
    return bool(_URL_WITH_PASSWORD.search(value) or _DSN_WITH_PASSWORD.search(value))
