"""The whole OpenAPI document against a real gateway with a worker: what is said there of every route is so."""

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.fuzz_tally import Tally, statuses_told
from tests.scripted_model_server import ScriptedModelServer
from tests.stack import PROJECT, TOKEN, Process, Stack, model_toml, open_stack, text_of

CONFIG = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 501]

[[operations]]
include-path = "/api/v1/evolve"
checks.not_a_server_error.expected-statuses = ["4xx", 503]
"""
"""501 stands where the original names a route that there is not, and once 503, which it says itself; elsewhere they
would not be documented."""

DOCUMENT = "/openapi.json"
"""Not walked: the fuzzer leaves out the address that it has the document from."""

EXAMPLES = int(os.environ.get("LUCYD_FUZZ_EXAMPLES", "5"))
"""Of each operation and phase at most; ``make fuzz EXAMPLES=200`` makes thousands of requests."""

HOOKS = PROJECT / "tests" / "fuzz_hooks.py"
SEED = os.environ.get("LUCYD_FUZZ_SEED", "1")
WITHIN = 100.0 + EXAMPLES * 20.0
"""Seconds: a fifth of it is enough on a machine that has nothing else to do."""


@pytest.fixture
def stack(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """Answers come quickly, and nothing is refused for being too much."""
    with ScriptedModelServer().in_thread() as model:
        extra = "[run]\nwait_seconds = 5\n[http]\nrate_limit = 0\nstatus_rate_limit = 0\nfailed_login_limit = 0\n"
        extra += "[limits]\nopen_runs = 100000\nopen_runs_per_principal = 100000\n"
        toml = model_toml("anthropic", model.base_url("anthropic"), extra=extra)
        with open_stack(tmp_path, database_url, redis_url, toml) as opened:
            yield opened


@pytest.mark.timeout(WITHIN + 60)
def test_every_operation_keeps_its_word(stack: Stack, tmp_path: Path) -> None:
    """All checks of schemathesis: no fault of ours, no status, header or shape that the document does not tell, nothing
    accepted that it forbids and nothing refused that it allows. What was asked is printed, so that nobody has to
    believe that it was much."""
    gateway = stack.gateway()
    stack.workers()
    document = httpx2.get(f"{gateway.url}/openapi.json").json()
    begun = time.monotonic()
    told = fuzz(f"{gateway.url}/openapi.json", tmp_path)
    seconds = time.monotonic() - begun
    with (tmp_path / "cases.tsv").open(encoding="utf-8") as notes:
        tally = Tally.of(notes)
    counted = answered_by(gateway)
    print(f"\n{tally.summary(seconds)}\nthe gateway has answered: {statuses_told(counted)}")  # noqa: T201 - the figures
    assert told.returncode == 0, told.stdout
    walked = re.search(r"Tested: (\d+)", told.stdout)
    assert walked is not None, told.stdout
    there = sum(len(methods) for path, methods in document["paths"].items() if path != DOCUMENT)
    assert int(walked[1]) == there == len(tally.answered), told.stdout
    assert min(each.total() for each in tally.answered.values()) > 1, tally.summary(seconds)
    assert not tally.statuses - counted, "cases were noted that the gateway does not know"
    for process in stack.processes:
        assert "Traceback" not in text_of(process)


def answered_by(gateway: Process) -> Counter[int]:
    """What the gateway has counted by status, the requests of the checks and of this test among them."""
    counted = Counter[int]()
    for line in httpx2.get(f"{gateway.url}/metrics").text.splitlines():
        if found := re.match(r'lucyd_http_requests_total\{.*status="(\d+)".*\} (\S+)', line):
            counted[int(found[1])] += int(float(found[2]))
    return counted


def fuzz(address: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """As a program of its own: what it holds of Python stays apart from the tests'."""
    (folder / "schemathesis.toml").write_text(CONFIG, "utf-8")
    return subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "run", address,
            "--header", f"Authorization: Bearer {TOKEN}",
            "--checks", "all",
            "--max-examples", str(EXAMPLES),
            "--seed", SEED,
            "--workers", "1",  # Python 3.11 fails now and then to parse its own source in two threads at once
            "--suppress-health-check", "all",
            "--request-timeout", "20",
            "--warnings", "off",
            "--no-color",
            "--continue-on-failure",
        ],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", "SCHEMATHESIS_HOOKS": str(HOOKS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WITHIN,
        check=False,
    )  # fmt: skip
