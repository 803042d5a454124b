"""What docs/tools.md says of each tool, written from the tools themselves: ``python -m tests.house.tool_page``."""

import re
import runpy
from collections.abc import Sequence
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

from services.agent_worker.edge.tools.at_local_time import AtLocalTime
from services.agent_worker.edge.tools.cancel_scheduled import CancelScheduledTool
from services.agent_worker.edge.tools.commitment_update import CommitmentUpdateTool
from services.agent_worker.edge.tools.edit import EditTool
from services.agent_worker.edge.tools.exec import ExecTool
from services.agent_worker.edge.tools.list_scheduled import ListScheduledTool
from services.agent_worker.edge.tools.load_skill import LoadSkillTool
from services.agent_worker.edge.tools.memory_forget import MemoryForgetTool
from services.agent_worker.edge.tools.memory_get import MemoryGetTool
from services.agent_worker.edge.tools.memory_search import MemorySearchTool
from services.agent_worker.edge.tools.memory_write import MemoryWriteTool
from services.agent_worker.edge.tools.message import MessageTerms, MessageTool
from services.agent_worker.edge.tools.paths import AllowedPaths
from services.agent_worker.edge.tools.pdf_read import PdfReadTool
from services.agent_worker.edge.tools.react import ReactTool
from services.agent_worker.edge.tools.read import ReadTool
from services.agent_worker.edge.tools.record_episode import RecordEpisodeTool
from services.agent_worker.edge.tools.remind_user import RemindUserTool
from services.agent_worker.edge.tools.schedule_message import ScheduleMessageTool
from services.agent_worker.edge.tools.schedule_self_task import ScheduleSelfTaskTool
from services.agent_worker.edge.tools.send_file import SendFileTool
from services.agent_worker.edge.tools.session_status import SessionStatusTool
from services.agent_worker.edge.tools.sessions_spawn import SessionsSpawnTool
from services.agent_worker.edge.tools.web_fetch import WebFetchTool
from services.agent_worker.edge.tools.web_search import BRAVE, SearchService, WebSearchTool
from services.agent_worker.edge.tools.write import WriteTool
from services.agent_worker.ports import Tool
from services.agent_worker.rules.recall import RecallManner
from services.agent_worker.rules.spawning import SpawnTerms
from shared.domain.contacts import Contacts
from shared.domain.delivery import LONGEST_TELEGRAM_TEXT
from shared.domain.person import People
from shared.runtime.configuration.sections.memory import Memory
from shared.runtime.configuration.sections.tools import Tools

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tools.md"
PLUGINS = {"elevenlabs.py": "plugins.md#elevenlabs-the-tool-tts"}

OVERVIEW = re.compile(r"(?<=\n)\| tool \| effect class \| parameters \|\n(?:\|.*\n)*")
SECTION = r"(?<=\n## `%s`\n)\nEffect class: `\w+`(.*\n(?:.+\n)*)\n(?:\|.*\n)*"


def every_tool() -> list[Tool]:
    """The tools as the defaults of the configuration make them."""
    tools, paths = Tools(), AllowedPaths((), ROOT)
    figures: Any = None
    later = AtLocalTime(figures, People(), UTC, most=tools.scheduling.max_scheduled)
    return [
        ReadTool(paths, default_limit=tools.filesystem.default_read_limit),
        WriteTool(paths),
        EditTool(paths),
        ExecTool(
            ROOT,
            {},
            output_limit=tools.output_truncation,
            default_timeout=timedelta(seconds=tools.exec_timeout),
            max_timeout=timedelta(seconds=tools.exec_max_timeout),
        ),
        PdfReadTool(paths),
        SendFileTool(figures),
        ReactTool(Contacts()),
        MessageTool(Contacts(), MessageTerms(LONGEST_TELEGRAM_TEXT, timedelta(hours=1), 1000), figures),
        ScheduleMessageTool(
            Contacts(), People(), most=tools.scheduling.max_scheduled, longest=tools.scheduling.max_delay
        ),
        RemindUserTool(later),
        ScheduleSelfTaskTool(later),
        ListScheduledTool(figures, People(), UTC),
        CancelScheduledTool(People()),
        LoadSkillTool(figures),
        SessionStatusTool(figures),
        WebFetchTool(figures, timeout=timedelta(seconds=tools.web_fetch.timeout)),
        WebSearchTool(figures, SearchService("brave", BRAVE, None, timedelta(seconds=tools.web_search.timeout))),
        SessionsSpawnTool(SpawnTerms("primary"), roles=["primary"], offered=list, output_limit=tools.output_truncation),
        MemorySearchTool(figures, People(), manner=RecallManner(), default_top_k=Memory().search_top_k),
        MemoryGetTool(figures),
        MemoryWriteTool(People()),
        MemoryForgetTool(People()),
        CommitmentUpdateTool(People()),
        RecordEpisodeTool(People()),
    ]


def with_tables(page: str, tools: Sequence[Tool]) -> str:
    """The page with the table of all tools, and with the effect class and the parameters of each in its section.

    Raises ``ValueError`` when the page has no place for one of them.
    """
    page, found = OVERVIEW.subn(lambda _: _overview(tools), page)
    if found != 1:
        raise ValueError("the page has no table of all tools")
    for tool in tools:
        section = re.search(SECTION % tool.spec.name, page)
        if section is None:
            raise ValueError(f"the page has no section for {tool.spec.name} that begins with its effect class")
        page = page[: section.start()] + _head(tool, section[1]) + page[section.end() :]
    return page


def _overview(tools: Sequence[Tool]) -> str:
    rows = ["| tool | effect class | parameters |", "|---|---|---|"]
    shown = [(tool.spec, f"#{tool.spec.name}") for tool in tools]
    for spec, place in sorted([*shown, *_of_plugins()], key=lambda each: each[0].name):
        names = [f"`{name}`" if must else f"[`{name}`]" for name, _, must in _parameters(spec)]
        rows.append(f"| [`{spec.name}`]({place}) | `{spec.effect}` | {', '.join(names) or '-'} |")
    return "\n".join(rows) + "\n"


def _of_plugins() -> list[tuple[Any, str]]:
    """The tools of plugins in the box, and where they are explained."""
    return [
        (spec, place)
        for file, place in PLUGINS.items()
        for spec in runpy.run_path(str(ROOT / "plugins.d" / file))["TOOLS"]
    ]


def _head(tool: Tool, more: str) -> str:
    rows = ["| parameter | type | required | default |", "|---|---|---|---|"]
    for name, schema, must in _parameters(tool.spec):
        default = f"`{str(schema['default']).lower()}` " if "default" in schema else ""
        rows.append(f"| `{name}` | {schema['type']} | {'yes' if must else 'no'} | {default}|")
    table = "\n".join(rows) + "\n" if len(rows) > 2 else ""
    return f"\nEffect class: `{tool.spec.effect}`{more}\n{table}"


def _parameters(spec: Any) -> list[tuple[str, dict[str, Any], bool]]:
    """Of a tool of ours or of a plugin's: both have a schema."""
    required = spec.input_schema.get("required", [])
    return [(name, schema, name in required) for name, schema in spec.input_schema["properties"].items()]


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), every_tool()), encoding="utf-8")
