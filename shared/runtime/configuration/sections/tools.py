"""What the agent may do: ``[tools]``."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from shared.runtime.configuration.kinds import Address, Count, Number, Positive, Range, Seconds, Share, Variable

DEFAULT_TOOLS = (
    "read",
    "write",
    "edit",
    "exec",
    "web_fetch",
    "memory_search",
    "memory_get",
    "memory_write",
    "memory_forget",
    "commitment_update",
    "sessions_spawn",
    "load_skill",
    "session_status",
    "schedule_message",
    "list_scheduled",
)
"""Tools of an agent whose file does not list any."""

KNOWN_TOOLS = frozenset(DEFAULT_TOOLS) | {
    "message",
    "react",
    "web_search",
    "tts",
    "send_file",
    "record_episode",
    "remind_user",
    "schedule_self_task",
    "cancel_scheduled",
    "send_message",
    "gdpr_search",
    "gdpr_redact",
    "pdf_read",
}
"""Every name that a file may list, of this version or of others; those that this one lacks are passed over."""


@dataclass(frozen=True, slots=True)
class Filesystem:
    """``[tools.filesystem]``. The file silent: ``allowed_paths`` is workspace and /tmp; empty: no file at all."""

    allowed_paths: tuple[Path, ...] = ()
    default_read_limit: Positive = 2000


@dataclass(frozen=True, slots=True)
class Exec:
    """``[tools.exec]``: the sandbox of commands, and what each of their processes may use (0: without limit).

    ``processes`` is how many a command in a sandbox may have; ``read`` and ``write`` are folders that commands see
    beside the system's and the allowed ones.
    """

    sandbox: Literal["auto", "required", "off"] = "auto"
    network: bool = True
    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    cpu_seconds: Count = 600
    memory_mb: Count = 4096
    file_mb: Count = 1024
    processes: Count = 1000


@dataclass(frozen=True, slots=True)
class WebSearch:
    """``[tools.web_search]``."""

    provider: str = "brave"
    api_key_env: Variable = "LUCYD_BRAVE_KEY"
    api_url: Address = ""
    timeout: Seconds = 15.0


@dataclass(frozen=True, slots=True)
class WebFetch:
    """``[tools.web_fetch]``. ``allowed_hosts`` (``host:port``, or URLs) are asked wherever they are."""

    timeout: Seconds = 15.0
    allowed_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scheduling:
    """``[tools.scheduling]``: messages an agent may have waiting, and the longest delay in seconds."""

    max_scheduled: Count = 50
    max_delay: Count = 86_400


@dataclass(frozen=True, slots=True)
class Tts:
    """``[tools.tts]``: text to speech. ``api_url`` may contain ``{voice_id}``."""

    provider: str = "elevenlabs"
    api_key_env: Variable = "LUCYD_ELEVENLABS_KEY"
    default_voice_id: str = ""
    default_model_id: str = "eleven_v3"
    speed: Number = 1.0
    stability: Share = 0.5
    similarity_boost: Share = 0.75
    timeout: Seconds = 60.0
    api_url: Address = ""


@dataclass(frozen=True, slots=True)
class Tools:
    """``[tools]``. Times in seconds; ``subagent_*`` 0 means the value of the main agent.

    ``ask_first`` names the tools that a person must allow each time, before they run. ``plugin_timeout`` is for tools
    of plugins that name none; ``plugin_processes`` how many of those that compute may do so at once, in each worker.
    """

    enabled: tuple[str, ...] = DEFAULT_TOOLS
    ask_first: tuple[str, ...] = ()
    output_truncation: Positive = 30_000
    plugins_dir: Path = Path("plugins.d")
    plugin_timeout: Annotated[float, Range(0.1, 3600)] = 120.0
    plugin_processes: Positive = 1
    exec_timeout: Seconds = 120.0
    exec_max_timeout: Seconds = 600.0
    subagent_deny: tuple[str, ...] = ("sessions_spawn", "tts", "react", "schedule_message")
    subagent_max_turns: Count = 0
    subagent_timeout: Seconds = 0.0
    tool_call_retry: bool = False
    tool_success_warn_threshold: Share = 0.5
    filesystem: Filesystem = field(default_factory=Filesystem)
    exec: Exec = field(default_factory=Exec)
    web_search: WebSearch = field(default_factory=WebSearch)
    web_fetch: WebFetch = field(default_factory=WebFetch)
    scheduling: Scheduling = field(default_factory=Scheduling)
    tts: Tts = field(default_factory=Tts)
