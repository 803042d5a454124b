"""``make bench-start``: how long the second start of the whole takes, and what each service imports.

Second: the database is there already, and the machine has read the files before. For each kind of model, since the
vendor's client is the dearest import of all; ``offline`` is what a person without any key has.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.machine import ROOT, load_average
from bench.out_folder import OUT, keep
from bench.processes import cpu_seconds, descendants
from deploy.local.launch import SERVICES
from tests.stack import free_port

MODELS = ("offline", "openai", "anthropic")
WITHIN = 60.0
_MODEL = """
[models.primary]
provider = "{provider}"
model = "bench"
base_url = "http://127.0.0.1:9/v1"
"""
_IMPORT = """
import time
begun = time.process_time()
import services.{service}.wiring
print(1000 * (time.process_time() - begun))
"""


@dataclass(frozen=True, slots=True)
class Start:
    """``ready`` is seconds of the clock until a message would be answered; ``cpu`` seconds by process until then."""

    ready: float
    cpu: Mapping[str, float]


def start_once(folder: Path, model: str) -> Start:
    """Start everything on that data folder, and end it again. Raises ``RuntimeError`` when it does not get ready."""
    kept = {"PATH", "HOME", "LANG", "TMPDIR"}
    environment = {name: os.environ[name] for name in kept if name in os.environ}  # noqa: TID251 - for the launcher
    environment |= {"LUCYD_DATA_DIR": str(folder / "data"), "LUCYD_HTTP_PORT": str(free_port())}
    config = folder / f"{model}.toml"
    words = [sys.executable, "-m", "deploy.local"]
    if model != "offline":
        config.write_text(_MODEL.format(provider=model), "utf-8")
        environment["OPENAI_API_KEY"] = environment["ANTHROPIC_API_KEY"] = "none"
        words += ["-c", str(config)]
    log = folder / "launcher.log"
    with log.open("wb") as out:
        began = time.monotonic()
        launcher = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT)
    try:
        while "Lucyd is ready" not in log.read_text("utf-8", "replace"):
            if launcher.poll() is not None or time.monotonic() - began > WITHIN:
                raise RuntimeError(f"it did not get ready: {log.read_text('utf-8', 'replace')[-1000:]}")
            time.sleep(0.01)
        return Start(time.monotonic() - began, _cpu(launcher.pid))
    finally:
        launcher.terminate()  # not SIGINT, which whoever is started in the background ignores
        launcher.wait(WITHIN)


def _cpu(launcher: int) -> Mapping[str, float]:
    used: dict[str, float] = {}
    for pid in descendants(launcher):
        name = "launcher" if pid == launcher else _name(pid)
        used[name] = used.get(name, 0.0) + cpu_seconds(pid)
    return used


def _name(pid: int) -> str:
    try:
        line = (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return "gone"
    if "tether.py" in line:
        return "tethers"
    if "services." in line:
        return line.partition("services.")[2].split()[0]
    return "postgres" if "postgres" in line else "valkey" if "valkey" in line else "other"


def import_ms(service: str) -> float:
    """Milliseconds of CPU that the import of a service's wiring takes; bytecode is there."""
    words = [sys.executable, "-c", _IMPORT.format(service=service)]
    return float(subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


def measure(folder: Path, repeats: int) -> dict[str, object]:
    """Medians of so many starts for each kind of model."""
    start_once(folder, "offline")
    starts: dict[str, object] = {}
    for model in MODELS:
        found = [start_once(folder, model) for _ in range(repeats)]
        names = sorted({name for each in found for name in each.cpu})
        cpu = {name: statistics.median(each.cpu.get(name, 0.0) for each in found) for name in names}
        starts[model] = {
            "ready_s": statistics.median(each.ready for each in found),
            "all_ready_s": [each.ready for each in found],
            "cpu_s": {name: round(seconds, 2) for name, seconds in cpu.items()},
            "cpu_all_s": round(sum(cpu.values()), 2),
        }
    imports = {name: statistics.median(import_ms(name) for _ in range(repeats)) for name in SERVICES}
    return {"starts": starts, "import_cpu_ms": imports, "repeats": repeats}


def main(words: Sequence[str]) -> int:
    """Measure and print; 0 when everything got ready."""
    parser = argparse.ArgumentParser(prog="bench-start", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3, help="medians of so many")
    parser.add_argument("--out", type=Path, default=OUT, help="where start.json goes")
    asked = parser.parse_args(words)
    asked.out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="lucyd-start-"))
    before = load_average()
    try:
        told = measure(folder, asked.repeats)
    except RuntimeError as fault:
        sys.stderr.write(f"bench-start: {fault}\n")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    keep(asked.out, "start", {**told, "load_average": {"before": before, "after": load_average()}})
    sys.stdout.write(table(told) + f"\nload average {before[0]} before, {load_average()[0]} after\n")
    return 0


def table(told: Mapping[str, object]) -> str:
    """For people."""
    lines = []
    starts, imports = told["starts"], told["import_cpu_ms"]
    assert isinstance(starts, dict)  # noqa: S101 - as ``measure`` gives them
    assert isinstance(imports, dict)  # noqa: S101 - as above
    for model, found in starts.items():
        cpu = ", ".join(f"{name} {seconds:.2f}" for name, seconds in found["cpu_s"].items())
        lines.append(f"{model:<10} ready after {found['ready_s']:.2f} s; CPU {found['cpu_all_s']:.2f} s: {cpu}")
    lines.append("imports, ms of CPU: " + ", ".join(f"{name} {ms:.0f}" for name, ms in imports.items()))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
