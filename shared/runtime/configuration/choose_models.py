"""Which models the agent has: those of the files, else what the environment offers, else the offline one."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from shared.domain.provider import ModelSpec
from shared.runtime.configuration.findings import Findings
from shared.runtime.configuration.keys import ANTHROPIC, OPENAI, first_set
from shared.runtime.configuration.kinds import WebAddress
from shared.runtime.configuration.models import (
    EMBEDDINGS,
    Definition,
    Loaded,
    build_models,
    embeddings_of_memory,
    inline_definitions,
    read_provider_file,
)
from shared.runtime.configuration.ollama import DEFAULT_ADDRESS, local_address
from shared.runtime.configuration.places import PROJECT
from shared.runtime.configuration.reading import Source, Table
from shared.runtime.configuration.sections.whole import Sections
from shared.runtime.configuration.toml_file import read_toml

PRIMARY = "primary"
OFFLINE_MODEL = ModelSpec(name=PRIMARY, provider="offline", model="offline", supports_streaming=True)
SHIPPED = PROJECT / "providers.d"

FindOllama = Callable[[], str | None]


@dataclass(frozen=True, slots=True)
class Choice:
    """The models, and in half a sentence where ``primary`` comes from."""

    models: Mapping[str, ModelSpec]
    origin: str


def choose_models(
    sections: Sections, inline: Table, source: Source, environ: Mapping[str, str], find_ollama: FindOllama
) -> Choice:
    """Load what the configuration names; when that gives no ``primary``, take the first thing that can answer."""
    loaded = _configured(sections, inline, source, environ)
    if PRIMARY in loaded.models:
        return Choice(loaded.models, source.name)
    if loaded.models and PRIMARY not in loaded.keyless:
        source.findings.error(
            f"{source.name}: the loaded models ({', '.join(loaded.models)}) lack one named primary; "
            "add [models.primary] to a provider file or to lucyd.toml"
        )
        return Choice(loaded.models, "nowhere")
    fallback = _fallback(source, environ, find_ollama)
    if sections.providers.load or inline:
        source.findings.warning(f"{source.name}: no configured model can be primary; instead: {fallback.origin}")
    return Choice({**fallback.models, **loaded.models}, fallback.origin)


def _configured(sections: Sections, inline: Table, source: Source, environ: Mapping[str, str]) -> Loaded:
    folder = _folder(sections, source)
    files: dict[str, Table] = {}
    definitions: dict[str, Definition] = {}
    for name in sections.providers.load:
        path = folder / f"{name.removesuffix('.toml')}.toml"
        said = f"{folder.name}/{path.name}"
        if not path.is_file():
            source.findings.warning(f"{said}: there is no such provider file in {folder}; it is passed over")
            continue
        read = read_provider_file(path, said, source)
        if read:
            files[name], found = read
            definitions |= {each.role: each for each in found}
    definitions |= {each.role: each for each in inline_definitions(inline, files, definitions, source)}
    older = embeddings_of_memory(sections.memory, source)
    if older and EMBEDDINGS not in definitions:
        definitions[EMBEDDINGS] = older
    return build_models(definitions, environ)


def provider_tables(sections: Sections, source: Source) -> list[Table]:
    """Every provider file as it is written, loaded or not: a key is secret also while nothing uses it."""
    silent = Findings()
    folders = {_folder(sections, source), SHIPPED}
    files = [file for folder in sorted(folders) if folder.is_dir() for file in sorted(folder.glob("*.toml"))]
    return [read_toml(file, file.name, silent) or {} for file in files]


def _folder(sections: Sections, source: Source) -> Path:
    if sections.providers.dir:
        return sections.providers.dir
    own = source.folder / "providers.d"
    return own if own.is_dir() else SHIPPED


def _fallback(source: Source, environ: Mapping[str, str], find_ollama: FindOllama) -> Choice:
    return next(_offers(source, environ, find_ollama))


def _offers(source: Source, environ: Mapping[str, str], find_ollama: FindOllama) -> Iterator[Choice]:
    for file, vendor in (("anthropic.toml", ANTHROPIC), ("openai.toml", OPENAI)):
        if (name := first_set(vendor.key_envs, environ)) and (SHIPPED / file).is_file():
            models = _shipped(file, source, environ)
            if PRIMARY in models:
                yield Choice(models, f"providers.d/{file}, because {name} is set")
    model, base_url = environ.get("LUCYD_MODEL"), environ.get("LUCYD_MODEL_BASE_URL")
    if model and base_url and _is_address("LUCYD_MODEL_BASE_URL", base_url, source.findings):
        key = environ.get("LUCYD_MODEL_KEY") or None
        spec = ModelSpec(
            name=PRIMARY,
            provider="openai",
            model=model,
            base_url=base_url,
            api_key=key,
            api_key_env="LUCYD_MODEL_KEY" if key else None,
        )
        yield Choice({PRIMARY: spec}, "LUCYD_MODEL at LUCYD_MODEL_BASE_URL")
    if found := find_ollama():
        address = local_address(environ) or DEFAULT_ADDRESS
        spec = ModelSpec(name=PRIMARY, provider="openai", model=found, base_url=f"{address}/v1")
        yield Choice({PRIMARY: spec}, f"{found} of the local Ollama")
    yield Choice({PRIMARY: OFFLINE_MODEL}, "the offline provider, because no model is configured")


def _is_address(variable: str, value: str, findings: Findings) -> bool:
    """Whether a variable holds an http address; reported if not."""
    rule = WebAddress()
    if not rule.allows(value):
        findings.error(f"{variable} must be text{rule.phrase}")
    return rule.allows(value)


def _shipped(file: str, source: Source, environ: Mapping[str, str]) -> Mapping[str, ModelSpec]:
    read = read_provider_file(SHIPPED / file, f"providers.d/{file}", source)
    if not read:
        return {}
    return build_models({each.role: each for each in read[1]}, environ).models
