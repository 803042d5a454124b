"""The part of the configuration that the agent worker needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from services.agent_worker.actions.desk import CompactionManner, Manner, SkillManner
from services.agent_worker.edge.plugins.terms import PluginTerms, plugin_terms
from services.agent_worker.edge.tools.web_search import BRAVE, SearchService
from services.agent_worker.edge.workspace_files import TierNames
from services.agent_worker.rules.exec_environment import exec_environment
from services.agent_worker.rules.fair_share import FairShare
from services.agent_worker.rules.recall import RecallManner
from services.agent_worker.rules.run_loop import Limits
from services.agent_worker.rules.spawning import SpawnTerms
from shared.domain.contacts import Contacts
from shared.domain.delivery import LONGEST_TELEGRAM_TEXT
from shared.domain.destination import Origin, origin_of
from shared.domain.mcp_server import McpServer
from shared.domain.person import People
from shared.domain.provider import ModelSpec
from shared.domain.routing import VISION, route_model
from shared.domain.skill import SkillPlace
from shared.errors import BadInput, ConfigError
from shared.runtime.configuration.sections.tools import Exec, Scheduling
from shared.runtime.settings import Configuration

LONGEST_DRAIN = timedelta(seconds=20)
"""A process has 25 s in all; whoever is ended before it has handed back what it had counts an attempt."""

ALONE = "LUCYD_ALONE"
"""``<pid> <conversation>``: who has started this worker, and for which one conversation."""

SUBAGENT = "subagent"
"""The role that sub-agents use where ``[models.routing] subagent`` names none that is there."""

SOURCES = ("telegram", "http", "cli", "system", "user")


@dataclass(frozen=True, slots=True)
class Errand:
    """What a worker was started for by another one: a conversation whose run may be poison."""

    parent: int
    conversation: str


@dataclass(frozen=True, slots=True)
class WebTerms:
    """How the web is asked: pages, with the hosts that its operator allows beside the public ones, and searches."""

    fetch_timeout: timedelta
    fetch_allowed: frozenset[Origin]
    search: SearchService


@dataclass(frozen=True, slots=True)
class Settings:
    """Plain values for the constructors in ``wiring``. ``environment`` is what commands may see; ``alone`` is the one
    conversation of a worker that was started for it."""

    database_url: str | None = field(repr=False)
    redis_url: str | None = field(repr=False)
    workspace: Path
    tiers: Mapping[str, TierNames]
    models: Mapping[str, ModelSpec]
    roles: Mapping[str, str]
    spawning: SpawnTerms
    manner: Manner
    skill_places: tuple[SkillPlace, ...]
    alone: Errand | None
    run_deadline: timedelta
    share: FairShare
    memory_limit: int
    stand_back: bool
    parallel_tools: int
    drain: timedelta
    history_characters: int
    stream_ttl: timedelta
    result_ttl: timedelta
    tools: tuple[str, ...]
    allowed_paths: tuple[Path, ...]
    read_limit: int
    people: People
    recall: RecallManner
    search_top_k: int
    output_truncation: int
    exec_timeout: timedelta
    exec_max_timeout: timedelta
    exec: Exec
    hidden_paths: tuple[Path, ...]
    kept_paths: tuple[Path, ...]
    temporary: Path
    environment: Mapping[str, str] = field(repr=False)
    web: WebTerms
    plugins: PluginTerms
    mcp_servers: tuple[McpServer, ...]
    zone: ZoneInfo
    scheduling: Scheduling
    contacts: Contacts
    queue_capacity: int

    @classmethod
    def of(cls, configuration: Configuration) -> "Settings":
        """Take what is needed."""
        behavior, tools, worker = configuration.behavior, configuration.tools, configuration.worker
        environment = exec_environment(
            configuration.environment, names=configuration.secret_names, values=configuration.secret_values
        )
        models = configuration.models
        compaction_role = configuration.models_routing.compaction or behavior.compaction.model
        roles = {source: route_model(source, routing=configuration.routing, models=models) for source in SOURCES}
        roles["compact"] = compaction_role if compaction_role in models else "primary"
        roles["*"] = "primary"
        if VISION in models:
            roles["image"] = VISION
        context = configuration.agent.context
        full = TierNames(context.stable, context.semi_stable)
        others = {name: TierNames(files.stable, files.semi_stable) for name, files in context.tiers.items()}
        return cls(
            database_url=configuration.database_url,
            redis_url=configuration.redis_url,
            workspace=configuration.workspace,
            tiers={"full": full, **others},
            models=models,
            roles=roles,
            spawning=_spawning(configuration),
            manner=Manner(
                agent_name=configuration.agent.name,
                silent_tokens=behavior.silent_tokens,
                error_message=behavior.error_message,
                max_system_tokens=context.max_system_tokens,
                limits=Limits(behavior.max_turns_per_message, behavior.max_cost_per_message),
                call_timeout=timedelta(seconds=behavior.agent_timeout_seconds),
                retries=behavior.api_retries,
                retry_base=behavior.api_retry_base_delay,
                ask_first=frozenset(tools.ask_first),
                part_limit=min(configuration.telegram.text_chunk_limit, LONGEST_TELEGRAM_TEXT),
                debounce=timedelta(milliseconds=behavior.debounce_ms),
                largest_image=configuration.vision.max_image_bytes,
                compaction=_compaction(configuration),
                skills=SkillManner(configuration.agent.skills.always_on, frozenset({"full", *context.tiers})),
            ),
            skill_places=configuration.skill_places,
            alone=_errand(configuration.environment.get(ALONE, "")),
            run_deadline=timedelta(seconds=configuration.run.deadline_seconds),
            share=FairShare(worker.slots, configuration.fairness.window, configuration.fairness.weights),
            memory_limit=worker.memory_mb * 1_000_000,
            stand_back=worker.stand_back,
            parallel_tools=worker.inflight_tools,
            drain=min(timedelta(seconds=worker.drain_seconds), LONGEST_DRAIN),
            history_characters=worker.history_cache_bytes,
            stream_ttl=timedelta(seconds=configuration.run.stream_ttl_seconds),
            result_ttl=timedelta(seconds=configuration.run.result_ttl_seconds),
            tools=tools.enabled,
            allowed_paths=tools.filesystem.allowed_paths,
            read_limit=tools.filesystem.default_read_limit,
            people=People(configuration.telegram.allowed),
            recall=_recall(configuration),
            search_top_k=configuration.memory.search_top_k,
            output_truncation=tools.output_truncation,
            exec_timeout=timedelta(seconds=tools.exec_timeout),
            exec_max_timeout=timedelta(seconds=tools.exec_max_timeout),
            exec=tools.exec,
            mcp_servers=configuration.mcp_servers(),
            hidden_paths=_hidden(configuration),
            kept_paths=configuration.own_files,
            temporary=configuration.data_dir / "tmp",
            environment=environment,
            web=_web(configuration),
            plugins=plugin_terms(configuration, environment),
            zone=ZoneInfo(configuration.user.timezone),
            scheduling=tools.scheduling,
            contacts=Contacts.of_telegram(configuration.telegram.contacts),
            queue_capacity=behavior.queue_capacity,
        )


def _hidden(configuration: Configuration) -> tuple[Path, ...]:
    """Where secrets lie that no tool has any business with."""
    dotenv = (configuration.dotenv_file,) if configuration.dotenv_file else ()
    return (configuration.data_dir, *dotenv)


def _spawning(configuration: Configuration) -> SpawnTerms:
    """A sub-agent gets no more turns than its parent, whatever is configured for it."""
    tools, most = configuration.tools, configuration.behavior.max_turns_per_message
    named = configuration.models_routing.subagent
    return SpawnTerms(
        model=named if named in configuration.models else SUBAGENT if SUBAGENT in configuration.models else "primary",
        deny=frozenset(tools.subagent_deny),
        ask_first=frozenset(tools.ask_first),
        max_turns=min(tools.subagent_max_turns or most, most),
        timeout=timedelta(seconds=tools.subagent_timeout) if tools.subagent_timeout > 0 else None,
    )


def _recall(configuration: Configuration) -> RecallManner:
    given = configuration.memory.recall
    personality = given.personality
    return RecallManner(
        budget=given.max_dynamic_tokens,
        facts=given.max_facts_in_context,
        episodes=given.max_episodes_at_start,
        compact=personality.fact_format == "compact",
        show_tone=personality.show_emotional_tone,
        episode_header=personality.episode_section_header,
        priority_facts=personality.priority_facts,
        priority_episodes=personality.priority_episodes,
        priority_passages=personality.priority_vector,
        priority_commitments=personality.priority_commitments,
    )


def _web(configuration: Configuration) -> WebTerms:
    fetch, search = configuration.tools.web_fetch, configuration.tools.web_search
    allowed, errors = set(), []
    for host in fetch.allowed_hosts:
        try:
            allowed.add(origin_of(host))
        except BadInput as error:
            errors.append(f"tools.web_fetch.allowed_hosts: {host!r}: {error}.")
    key = configuration.secret(search.api_key_env)
    if key is not None and not (key.isascii() and key.isprintable()):
        errors.append(f"{search.api_key_env} holds characters that no header can carry (a line break, perhaps).")
    if errors:
        raise ConfigError(errors)
    return WebTerms(
        timedelta(seconds=fetch.timeout),
        frozenset(allowed),
        SearchService(search.provider, search.api_url or BRAVE, key, timedelta(seconds=search.timeout)),
    )


def _errand(text: str) -> Errand | None:
    parent, _, conversation = text.partition(" ")
    return Errand(int(parent), conversation) if parent.isdecimal() and conversation else None


def _compaction(configuration: Configuration) -> CompactionManner:
    given = configuration.behavior.compaction
    return CompactionManner(
        threshold=given.threshold_tokens,
        warning_share=given.warning_pct,
        keep_share=min(max(given.keep_recent_pct, given.keep_recent_pct_min), given.keep_recent_pct_max),
        min_messages=given.min_messages,
        max_tokens=given.max_tokens,
        tool_result_chars=given.tool_result_max_chars,
        prompt=given.prompt,
    )
