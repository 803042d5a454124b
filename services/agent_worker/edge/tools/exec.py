"""Running shell commands."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from services.agent_worker.edge.tools.sandbox import Sandbox
from services.agent_worker.edge.tools.shell_process import ShellLimits, ShellOutcome, run_shell
from services.agent_worker.ports import ToolFailed, ToolUse
from services.agent_worker.rules.exec_environment import exec_environment
from shared.domain.effect import ToolSpec

_CAPTURE_PER_CHARACTER = 4  # bytes; UTF-8 needs no more for any character
_SHELLS = ("/bin/bash", "/bin/sh")
_TEMPORARY = frozenset({"TMPDIR", "TMP", "TEMP"})
_IN_SANDBOX = {"TMPDIR": "/tmp"}  # noqa: S108 - the sandbox's own


class ExecTool:
    """Runs commands in the workspace, without the worker's secrets in their environment, in a sandbox if there is one.

    ``environment`` is the worker's own, from which secrets are dropped here; ``output_limit`` is how many characters of
    a result will be shown, so that no more than a few times that is ever kept in memory.
    """

    def __init__(
        self,
        workspace: Path,
        environment: Mapping[str, str],
        *,
        output_limit: int,
        default_timeout: timedelta = timedelta(seconds=120),
        max_timeout: timedelta = timedelta(seconds=600),
        sandbox: Sandbox | None = None,
        limits: ShellLimits | None = None,
    ) -> None:
        self._workspace = workspace
        self._environment = exec_environment(environment)
        if sandbox and sandbox.words:
            self._environment = {k: v for k, v in self._environment.items() if k not in _TEMPORARY} | _IN_SANDBOX
        self._capture = output_limit * _CAPTURE_PER_CHARACTER
        self._default_timeout = min(default_timeout, max_timeout)
        self._max_timeout = max_timeout
        self._shell = next(shell for shell in _SHELLS if shell == _SHELLS[-1] or Path(shell).exists())
        self._sandbox = sandbox or Sandbox(why="none was asked for")
        self._limits = limits
        self._spec = _spec(self._shell, self._default_timeout, max_timeout, sandboxed=bool(self._sandbox.words))

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return self._spec

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """Output and exit code. Raises ``ToolFailed`` when the command can't be started or takes too long.

        On a timeout or when cancelled, everything the command started is killed.
        """
        command: str = arguments["command"]
        timeout = self._timeout(arguments.get("timeout"))
        if not command.strip():
            raise ToolFailed("command is empty")
        try:
            self._sandbox.make_ready()
            outcome = await run_shell(
                command,
                shell=self._shell,
                folder=self._workspace,
                environment=self._environment,
                timeout=timeout,
                capture=self._capture,
                before=self._sandbox.words,
                limits=self._limits,
            )
        except OSError as error:
            raise ToolFailed(f"The command could not be started: {error.strerror}") from error
        except ValueError as error:  # a NUL byte, or characters without an encoding
            raise ToolFailed("The command contains characters that no command can have") from error
        if outcome.exit_code is None:
            notice = f"Command timed out after {timeout.total_seconds():g} seconds"
            raise ToolFailed("\n".join((notice, *_sections(outcome))))
        return "\n".join(_sections(outcome)) or "(no output)"

    def _timeout(self, seconds: int | None) -> timedelta:
        if seconds is None:
            return self._default_timeout
        if seconds < 1:
            raise ToolFailed("timeout must be at least 1 second")
        # Compared as seconds: a model may name a number that no timedelta can hold.
        return timedelta(seconds=min(seconds, self._max_timeout.total_seconds()))


def _sections(outcome: ShellOutcome) -> list[str]:
    sections = []
    if stdout := outcome.stdout.rstrip("\n"):
        sections.append(stdout)
    if stderr := outcome.stderr.rstrip("\n"):
        sections.append(f"STDERR:\n{stderr}")
    if outcome.exit_code:
        sections.append(f"[exit code: {outcome.exit_code}]")
    return sections


_SANDBOXED = (
    "It runs in a sandbox: it sees the system's programs, the workspace and the other allowed folders, and an empty "
    "home and a /tmp of its own that is kept; what it leaves in the background ends with it."
)
_BARE = "For a process that shall go on in the background, redirect its output to a file and end the command with &."


def _spec(shell: str, default_timeout: timedelta, max_timeout: timedelta, *, sandboxed: bool) -> ToolSpec:
    return ToolSpec(
        name="exec",
        description=(
            f"Run a shell command ({shell}) in the workspace and return its output, what it wrote to standard error, "
            f"and its exit code if that is not 0. There is no standard input. {_SANDBOXED if sandboxed else _BARE}"
        ),
        input_schema={
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command line."},
                "timeout": {
                    "type": "integer",
                    "description": (
                        "Seconds after which the command and all it started is killed; "
                        f"at most {max_timeout.total_seconds():g}."
                    ),
                    "default": int(default_timeout.total_seconds()),
                },
            },
            "required": ["command"],
        },
        effect="once",
    )
