"""From ``providers.d/*.toml`` and ``[models.*]`` to the models that can be called."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from shared.domain.money import Rates
from shared.domain.provider import ModelSpec, ThinkingMode
from shared.runtime.configuration.keys import VENDORS, Vendor, first_set, is_vendors_own
from shared.runtime.configuration.kinds import Address, Count, Money, Positive, Variable
from shared.runtime.configuration.reading import Source, Table, read_section
from shared.runtime.configuration.sections.memory import Memory
from shared.runtime.configuration.toml_file import read_toml

EMBEDDINGS = "embeddings"
_RATES = ("input", "output", "cache_read", "cache_write")


@dataclass(frozen=True, slots=True)
class ModelTable:
    """``[models.<role>]`` of a provider file or of lucyd.toml, with what it inherited."""

    type: str = ""
    provider: str = ""
    model: str = ""
    api_key_env: Variable = ""
    base_url: Address = ""
    currency: str = "USD"
    max_tokens: Positive = 4096
    max_context_tokens: Count = 0
    cost_per_mtok: tuple[Money, ...] = ()
    supports_vision: bool = True
    supports_tools: bool = True
    supports_streaming: bool = True
    cache_control: bool = False
    thinking_enabled: bool = False
    thinking_mode: Literal["", "adaptive", "budgeted", "disabled"] = ""
    thinking_budget: Count = 10_000
    thinking_effort: str = ""
    slot_id: int = -1
    reply_text: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Definition:
    """A model as written: its role, its table with everything inherited, and where it stands."""

    role: str
    table: Table
    at: Source


@dataclass(frozen=True, slots=True)
class Loaded:
    """The models that can be called, and the roles whose key was missing."""

    models: Mapping[str, ModelSpec]
    keyless: frozenset[str] = frozenset()


def read_provider_file(path: Path, name: str, like: Source) -> tuple[Table, list[Definition]] | None:
    """What a provider file says to all its models, and its models. ``None`` when it can't be read (reported)."""
    raw = read_toml(path, name, like.findings)
    if raw is None:
        return None
    models = raw.pop("models", {})
    source = replace(like, name=name)
    if not isinstance(models, dict):
        source.refuse("models", "a section with one model each ([models.primary])", models)
        models = {}
    return raw, list(_definitions(raw, models, source))


def _definitions(common: Table, models: Table, source: Source) -> Iterable[Definition]:
    for role, table in models.items():
        if not isinstance(table, dict):
            source.refuse(f"models.{role}", f"a section ([models.{role}])", table)
            continue
        inherited = {key: value for key, value in common.items() if key not in table}
        spoken = {f"models.{role}.{key}": key for key in inherited}
        yield Definition(role, {**inherited, **table}, replace(source, spoken=spoken))


def inline_definitions(
    models: Table, files: Mapping[str, Table], defined: Mapping[str, Definition], source: Source
) -> Iterable[Definition]:
    """``[models.<role>]`` of lucyd.toml itself.

    ``provider`` is a type or the name of a loaded provider file, whose common keys are inherited. Without ``provider``,
    the table changes single keys of the model that a provider file gave this role.
    """
    for role, table in models.items():
        if not isinstance(table, dict):
            source.refuse(f"models.{role}", f"a section ([models.{role}])", table)
            continue
        base: Table = {}
        provider = table.get("provider")
        if isinstance(provider, str) and provider in files:
            base = {**files[provider], "provider": ""}
            table = {key: value for key, value in table.items() if key != "provider"}
        elif provider is None and "type" not in table and role in defined:
            base = defined[role].table
        yield Definition(role, {**base, **table}, source)


def build_models(definitions: Mapping[str, Definition], environ: Mapping[str, str]) -> Loaded:
    """Turn definitions into models; one without its key is left out with a warning, as the original does."""
    models: dict[str, ModelSpec] = {}
    keyless: set[str] = set()
    for role, definition in definitions.items():
        spec = _build(definition, environ)
        if isinstance(spec, ModelSpec):
            models[role] = spec
        elif spec == "keyless":
            keyless.add(role)
    return Loaded(models, frozenset(keyless))


def _build(definition: Definition, environ: Mapping[str, str]) -> ModelSpec | Literal["keyless"] | None:
    role, source = definition.role, definition.at
    at = f"models.{role}"
    table = read_section(ModelTable, definition.table, at, source)
    vendor = _vendor(table, at, source)
    if not table.model and isinstance(definition.table.get("model", ""), str):
        source.findings.error(f'{source.name}: {at}.model is missing; write the model\'s id, such as model = "..."')
    if vendor is None or not table.model:
        return None
    base_url = table.base_url or environ.get(vendor.base_url_env) or vendor.base_url
    api_key_env = _api_key_env(table, vendor, base_url, environ)
    api_key = environ[api_key_env] if api_key_env else None
    if api_key is None and is_vendors_own(vendor, base_url):
        names = table.api_key_env or " or ".join(vendor.key_envs)
        source.findings.warning(f"{source.name}: {at} is left out, because {names} is not set")
        return "keyless"
    return ModelSpec(
        name=role,
        provider=vendor.provider,
        model=table.model,
        base_url=base_url,
        api_key=api_key,
        api_key_env=api_key_env,
        max_tokens=table.max_tokens,
        max_context_tokens=table.max_context_tokens,
        rates=_rates(table, at, source, free=vendor.provider == "offline" or not is_vendors_own(vendor, base_url)),
        supports_vision=table.supports_vision,
        supports_tools=table.supports_tools,
        supports_streaming=table.supports_streaming,
        cache_control=table.cache_control,
        thinking_mode=_thinking_mode(table),
        thinking_budget=table.thinking_budget,
        thinking_effort=table.thinking_effort or None,
        slot_id=table.slot_id,
        headers=table.headers,
    )


def _vendor(table: ModelTable, at: str, source: Source) -> Vendor | None:
    key = "provider" if table.provider else "type"
    kind = table.provider or table.type
    if kind in VENDORS:
        return VENDORS[kind]
    choices = ", ".join(f'"{name}"' for name in ("anthropic", "openai", "mistral", "offline"))
    if kind:
        source.refuse(f"{at}.{key}", f"one of {choices}, or the name of a loaded provider file", kind)
    else:
        source.findings.error(f"{source.name}: {at} has no provider; write type = one of {choices}")
    return None


def _api_key_env(table: ModelTable, vendor: Vendor, base_url: str | None, environ: Mapping[str, str]) -> str | None:
    """The variable with the key, if it is set."""
    if table.api_key_env:
        return table.api_key_env if environ.get(table.api_key_env) else None
    if table.base_url and not is_vendors_own(vendor, base_url):
        # A vendor's key never goes to another host unless the file names it.
        return None
    return first_set(vendor.key_envs, environ)


def _thinking_mode(table: ModelTable) -> ThinkingMode:
    if table.thinking_mode:
        return table.thinking_mode
    return "budgeted" if table.thinking_enabled else "disabled"


def _rates(table: ModelTable, at: str, source: Source, *, free: bool) -> Rates:
    numbers = table.cost_per_mtok
    if not numbers:
        if not free:
            source.findings.warning(
                f"{source.name}: {at} has no cost_per_mtok, so its calls count as free and no cost cap can stop it"
            )
        return Rates(currency=table.currency)
    if not 2 <= len(numbers) <= len(_RATES):
        source.refuse(f"{at}.cost_per_mtok", "2 to 4 numbers: [input, output, cache_read, cache_write]", list(numbers))
        return Rates(currency=table.currency)
    missing = _RATES[len(numbers) :]
    if missing and any(numbers) and at != f"models.{EMBEDDINGS}":  # embedding has no prompt cache
        source.findings.warning(
            f"{source.name}: {at}.cost_per_mtok has no rate for {' and '.join(missing)}, "
            "so such tokens are counted as free"
        )
    fresh, output, *cached = numbers
    cache_read, cache_write, *_ = (*cached, Decimal(0), Decimal(0))
    return Rates(fresh, output, cache_read, cache_write, currency=table.currency)


def embeddings_of_memory(memory: Memory, source: Source) -> Definition | None:
    """The embedding model that older files describe in ``[memory]`` itself."""
    if not memory.embedding_model:
        return None
    table: dict[str, Any] = {
        "provider": memory.embedding_provider or "openai",
        "model": memory.embedding_model,
        "base_url": memory.embedding_base_url,
        "cost_per_mtok": [0, 0],
    }
    spoken = {f"models.{EMBEDDINGS}.{key}": f"memory.embedding_{key}" for key in ("provider", "model", "base_url")}
    return Definition(EMBEDDINGS, table, replace(source, spoken=spoken))
