"""Sending a file to the person that the agent answers."""

from collections.abc import Mapping
from typing import Any

from services.agent_worker.edge.tools.kept_files import KeptFiles
from services.agent_worker.edge.tools.paths import FILE_PATH
from services.agent_worker.ports import ToolUse
from shared.domain.effect import ToolSpec
from shared.domain.outgoing_file import LARGEST_FILE

_SPEC = ToolSpec(
    name="send_file",
    description=(
        f"Send a file to the person you answer: it goes out with your reply, up to {LARGEST_FILE // 1_000_000} MB. "
        "Images, audio and video are shown as such where that is possible."
    ),
    input_schema={
        "type": "object",
        "properties": {"file_path": FILE_PATH},
        "required": ["file_path"],
    },
    effect="local",
)


class SendFileTool:
    """Sends files of the allowed folders, as they are when the tool is called: what is changed later changes nothing.

    The bytes are kept first, and nobody knows of them; the act that follows sends them.
    """

    def __init__(self, files: KeptFiles) -> None:
        self._files = files

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """Send it. Raises ``ToolFailed`` where the file can't be had, is empty or too large, or nobody would get it."""
        file = await self._files.keep(arguments["file_path"], use)
        return await use.act("send_file", file.document())
