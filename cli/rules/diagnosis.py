"""What ``lucyd doctor`` found out, and what it means. Pure: others look, this judges."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cli.rules.clean_text import one_line
from cli.rules.pieces import Kind, Piece
from shared.domain.provider import ModelSpec

Level = Literal["ok", "warn", "fail"]
OLDEST_POSTGRES = 160_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, what it is like, and how to mend it."""

    level: Level
    what: str
    told: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class FolderState:
    """What is known of a folder without touching it. ``maker`` is the nearest folder above that exists,
    ``file`` a file that stands where it, or one above it, should be."""

    path: str
    exists: bool
    readable: bool
    writable: bool
    open_to_others: bool
    maker_writable: bool
    file: str = ""


@dataclass(frozen=True, slots=True)
class PostgresState:
    """What a Postgres server says of itself. ``server`` has no password in it."""

    server: str
    version: int
    off: Sequence[str]
    vector: bool
    applied: frozenset[str]


@dataclass(frozen=True, slots=True)
class GatewayState:
    """What answers at the gateway's address. ``checks`` are those of ``/readyz``, by name."""

    url: str
    answers: bool
    is_lucyd: bool = False
    ready: bool = False
    token_accepted: bool = False
    token_known: bool = False
    checks: Mapping[str, str] | None = None


def finding_pieces(findings: Sequence[Finding]) -> list[Piece]:
    """One line for each finding, its remedy below it, and a last line that sums up."""
    width = max((len(each.what) for each in findings), default=0)
    pieces = []
    for each in findings:
        pieces += [
            Piece(f"{each.level:<5} ", _kind(each.level)),
            Piece(f"{each.what:<{width}}  {each.told}\n", "reply"),
        ]
        if each.mend:
            pieces.append(Piece(f"{'':<{width + 8}}→ {each.mend}\n"))
    return [*pieces, Piece(f"\n{_sum(findings)}\n", "strong")]


def _kind(level: Level) -> Kind:
    kinds: Mapping[Level, Kind] = {"ok": "aside", "warn": "warning", "fail": "error"}
    return kinds[level]


def _sum(findings: Sequence[Finding]) -> str:
    fails = sum(each.level == "fail" for each in findings)
    warns = sum(each.level == "warn" for each in findings)
    if not fails and not warns:
        return "All is well."
    told = [f"{fails} {'thing fails' if fails == 1 else 'things fail'}"] if fails else ["Nothing fails"]
    if warns:
        told.append(f"{warns} {'warning' if warns == 1 else 'warnings'}")
    return f"{', '.join(told)}."


def has_failed(findings: Iterable[Finding]) -> bool:
    """Whether anything keeps Lucyd from working."""
    return any(each.level == "fail" for each in findings)


def on_data_dir(state: FolderState) -> Finding:
    """The data directory."""
    what = "data directory"
    if state.file:
        return Finding("fail", what, f"{state.file} is a file, not a folder", "move it away, or set LUCYD_DATA_DIR")
    if not state.exists:
        if state.maker_writable:
            return Finding("ok", what, f"{state.path} (will be made at the first start)")
        return Finding("fail", what, f"{state.path} can't be made", "choose a place you may write to: LUCYD_DATA_DIR")
    if not (state.readable and state.writable):
        return Finding("fail", what, f"{state.path} can't be read and written", "chown it to you, and chmod 700 it")
    if state.open_to_others:
        return Finding("warn", what, f"{state.path} is open to other users", f"chmod 700 {state.path}")
    return Finding("ok", what, state.path)


def on_workspace(state: FolderState, *, named: bool, unreadable: Sequence[str]) -> Finding:
    """The workspace; ``named`` when the configuration names it, ``unreadable`` are files in it."""
    what = "workspace"
    if state.file:
        return Finding("fail", what, f"{state.file} is a file, not a folder", "correct [agent] workspace")
    if not state.exists:
        if named:
            return Finding("fail", what, f"there is no folder {state.path}", "make it, or correct [agent] workspace")
        return Finding("ok", what, f"{state.path} (will be made at the first start)")
    if not state.readable:
        return Finding("fail", what, f"{state.path} can't be read", "let the user who runs Lucyd read it")
    if unreadable:
        return Finding("fail", what, f"can't be read: {', '.join(unreadable)}", "let the user who runs Lucyd read them")
    if not state.writable:
        return Finding("warn", what, f"{state.path} can't be written to", "the agent can't keep notes in it")
    return Finding("ok", what, state.path)


def on_token(*, given: bool, file: str, exists: bool, open_to_others: bool) -> Finding:
    """The bearer token; never its value."""
    what = "token"
    if given:
        return Finding("ok", what, "from the environment")
    if not exists:
        return Finding("ok", what, f"{file} (will be made at the first start)")
    if open_to_others:
        return Finding("warn", what, f"{file} can be read by other users", f"chmod 600 {file}")
    return Finding("ok", what, file)


def on_tools(enabled: Sequence[str], known: Collection[str]) -> list[Finding]:
    """Names in ``[tools] enabled`` that no tool has: most likely misspelt, and nothing else would ever say so."""
    return [
        Finding(
            "warn",
            "tools",
            f"there is no tool {one_line(name, 40)}, unless a plugin brings it (lucyd plugins list)",
            "correct or remove it in [tools] enabled",
        )
        for name in enabled
        if name not in known
    ]


def on_commands(mode: str, *, bubblewrap: bool) -> Finding:
    """Whether commands of the agent can run in a sandbox, as far as can be told without trying."""
    if mode == "off":
        return Finding("warn", "commands", "run without a sandbox: [tools.exec] sandbox is off")
    if bubblewrap:
        return Finding("ok", "commands", "bubblewrap is installed; the worker's log says whether it works here")
    mend = "install bubblewrap (Debian, Ubuntu: apt install bubblewrap)"
    if mode == "required":
        return Finding("fail", "commands", "[tools.exec] sandbox is required, and bubblewrap is not installed", mend)
    return Finding("warn", "commands", "run without a sandbox: bubblewrap is not installed", mend)


def on_models(models: Mapping[str, ModelSpec], origin: str) -> list[Finding]:
    """The model that answers, and the others."""
    primary = models.get("primary")
    if primary is None:
        return [Finding("fail", "model", "no model is named primary", "name one in lucyd.toml or a provider file")]
    if primary.provider == "offline":
        mend = "set ANTHROPIC_API_KEY or OPENAI_API_KEY, start Ollama, or name a provider in lucyd.toml"
        return [Finding("warn", "model", f"offline, a small stand-in ({origin})", mend)]
    return [_on_model(spec, origin) for _, spec in sorted(models.items(), key=lambda each: each[0] != "primary")]


def _on_model(spec: ModelSpec, origin: str) -> Finding:
    what = "model" if spec.name == "primary" else f"model {one_line(spec.name, 20)}"
    key = "its key is set" if spec.api_key else "without a key"
    source = f", from {origin}" if spec.name == "primary" and origin else ""
    return Finding("ok", what, f"{one_line(spec.model)} ({spec.provider}{source}), {key}")


def on_gateway(state: GatewayState, *, expected: bool, port_taken: bool) -> list[Finding]:
    """The gateway; ``expected`` when something says that it runs, ``port_taken`` when its port can't be had."""
    what = "gateway"
    if not state.answers:
        if port_taken:
            return [Finding("fail", what, f"another program has the port of {state.url}", "set LUCYD_HTTP_PORT")]
        level: Level = "fail" if expected else "warn"
        return [Finding(level, what, f"does not answer at {state.url}", "start it with `make run` or `lucyd up`")]
    if not state.is_lucyd:
        return [Finding("fail", what, f"what answers at {state.url} is not Lucyd", "set LUCYD_HTTP_PORT or LUCYD_URL")]
    findings = []
    if state.ready:
        findings.append(Finding("ok", what, f"ready at {state.url}"))
    else:
        wrong = ", ".join(f"{name}: {told}" for name, told in (state.checks or {}).items() if told != "ok")
        findings.append(
            Finding("fail", what, f"not ready at {state.url} ({one_line(wrong or 'no reason given', 200)})")
        )
    if not state.token_accepted:
        told = "refuses the token of this terminal" if state.token_known else "wants a token, and none was found"
        findings.append(Finding("fail", what, told, "set LUCYD_HTTP_TOKEN to what the gateway was started with"))
    return findings


def on_postgres(state: PostgresState, *, ours: Sequence[str]) -> list[Finding]:
    """A server that answers, measured by what this version needs; ``ours`` are its migrations."""
    what, found = "Postgres", []
    if state.version < OLDEST_POSTGRES:
        found.append(Finding("fail", what, f"{state.version // 10_000} is too old", "use Postgres 16 or newer"))
    found += [
        Finding("fail", what, f"{name} is off: accepted messages could be lost", f"set {name} = on")
        for name in state.off
    ]
    if not state.vector:
        found.append(Finding("fail", what, "has no pgvector extension", "install pgvector on the server"))
    if newer := sorted(state.applied - set(ours)):
        found.append(Finding("fail", what, f"has tables of a newer Lucyd ({', '.join(newer)})", "update Lucyd"))
    elif missing := [name for name in ours if name not in state.applied]:
        found.append(Finding("fail", what, f"lacks {len(missing)} of {len(ours)} migrations", "run `lucyd migrate`"))
    version = f"{state.version // 10_000}.{state.version % 10_000}"
    return found or [Finding("ok", what, f"{version} at {state.server}, pgvector, all {len(ours)} migrations")]
