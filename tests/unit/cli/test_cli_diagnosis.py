"""What doctor makes of what it saw."""

from dataclasses import replace

from cli.rules.diagnosis import (
    FolderState,
    GatewayState,
    PostgresState,
    finding_pieces,
    has_failed,
    on_commands,
    on_data_dir,
    on_gateway,
    on_models,
    on_postgres,
    on_token,
    on_workspace,
)
from shared.domain.provider import ModelSpec

FINE = FolderState("/data", exists=True, readable=True, writable=True, open_to_others=False, maker_writable=False)
ABSENT = FolderState("/data", exists=False, readable=False, writable=False, open_to_others=False, maker_writable=True)
SERVER = PostgresState("db:5432/lucyd", 180_001, [], vector=True, applied=frozenset({"0001.sql", "0002.sql"}))
OURS = ["0001.sql", "0002.sql"]
GATEWAY = GatewayState("http://127.0.0.1:8100", answers=True, is_lucyd=True, ready=True, token_accepted=True)


def test_a_fresh_machine_has_nothing_to_mend() -> None:
    """What the first start makes is not missing."""
    assert on_data_dir(ABSENT).level == "ok"
    assert on_workspace(ABSENT, named=False, unreadable=()).level == "ok"
    assert on_token(given=False, file="/data/http_token", exists=False, open_to_others=False).level == "ok"


def test_commands_without_a_sandbox_are_told() -> None:
    """Whoever installs bubblewrap once has it for ever."""
    assert on_commands("auto", bubblewrap=True).level == "ok"
    assert on_commands("off", bubblewrap=True).level == "warn"
    missing = on_commands("auto", bubblewrap=False)
    assert (missing.level, missing.mend) == ("warn", "install bubblewrap (Debian, Ubuntu: apt install bubblewrap)")
    assert on_commands("required", bubblewrap=False).level == "fail"


def test_folders_that_stop_the_start_fail_and_say_how_to_mend() -> None:
    """Each line is an order of what to do next."""
    for finding in (
        on_data_dir(replace(ABSENT, maker_writable=False)),
        on_data_dir(replace(FINE, writable=False)),
        on_workspace(ABSENT, named=True, unreadable=()),
        on_workspace(FINE, named=True, unreadable=["SOUL.md"]),
    ):
        assert finding.level == "fail"
        assert finding.mend
    assert on_data_dir(replace(FINE, open_to_others=True)).level == "warn"


def test_a_gateway_that_was_not_started_is_no_fault_one_that_should_run_is() -> None:
    """Doctor is run before the first start as well."""
    away = GatewayState("http://127.0.0.1:8100", answers=False)
    assert on_gateway(away, expected=False, port_taken=False)[0].level == "warn"
    assert on_gateway(away, expected=True, port_taken=False)[0].level == "fail"
    assert "port" in on_gateway(away, expected=False, port_taken=True)[0].told
    assert not has_failed(on_gateway(GATEWAY, expected=True, port_taken=False))


def test_a_gateway_that_is_not_ready_names_the_reason() -> None:
    """It knows which of its servers is away."""
    state = replace(GATEWAY, ready=False, checks={"postgres": "no answer", "redis": "ok"})
    found = on_gateway(state, expected=True, port_taken=False)
    assert found[0].level == "fail"
    assert "postgres: no answer" in found[0].told
    assert "redis" not in found[0].told
    assert has_failed(on_gateway(replace(GATEWAY, token_accepted=False), expected=True, port_taken=False))


def test_postgres_is_measured_by_what_this_version_needs() -> None:
    """Every fault at once, not one each run."""
    assert on_postgres(SERVER, ours=OURS)[0].level == "ok"
    bad = PostgresState("db", 150_003, ["fsync"], vector=False, applied=frozenset({"0001.sql"}))
    told = " ".join(f"{each.told} {each.mend}" for each in on_postgres(bad, ours=OURS))
    assert all(words in told for words in ("too old", "fsync", "pgvector", "lacks 1 of 2", "lucyd migrate"))
    newer = replace(SERVER, applied=frozenset({*OURS, "0009.sql"}))
    assert "newer" in on_postgres(newer, ours=OURS)[0].told


def test_a_models_key_is_told_to_be_there_and_never_shown() -> None:
    """Output of doctor is what people paste into a chat when they ask for help."""
    spec = ModelSpec(name="primary", provider="anthropic", model="m", api_key="sk-secret")
    found = on_models({"primary": spec}, "lucyd.toml")
    assert found[0].level == "ok"
    assert "its key is set" in found[0].told
    assert "sk-secret" not in repr(found)
    assert on_models({"primary": replace(spec, provider="offline")}, "")[0].level == "warn"
    assert on_models({}, "")[0].level == "fail"


def test_the_report_ends_with_a_sum() -> None:
    """A long list needs a short end."""
    findings = [on_data_dir(FINE), on_data_dir(replace(FINE, writable=False))]
    text = "".join(piece.text for piece in finding_pieces(findings))
    assert text.startswith("ok    data directory  /data\n")
    assert text.endswith("\n1 thing fails.\n")
