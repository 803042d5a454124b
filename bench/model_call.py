"""What one call of a model costs the process that makes it: ``python -m bench.model_call``, or its target of make.

Starts the bench's own model server and asks it through the real adapters, ``--together`` calls at a time on kept
connections: a system prompt of 4 kB and 20 messages of history, the answer in one piece (0 ms) and in ten pieces over
200 ms. What is printed is CPU time of the asking process, user and system, in ms for each call: the median of
``--rounds``, and the least and the most.

``--against REVISION`` measures the adapters of that commit too, in turn with today's, so that a busy machine is equally
unfair to both. Each figure comes of a process of its own, after a warm-up.
"""

import argparse
import asyncio
import contextlib
import io
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from bench.history import SEEDED
from bench.loops import run
from bench.machine import ROOT
from bench.personality import PROMPT_BYTES
from bench.wire import TOKEN_LENGTH, Mark, Wire, message_text, reply_text
from shared.adapters.models.open_model import open_models
from shared.domain.chat import Message
from shared.domain.provider import ModelSpec
from shared.ports.model import Model, ModelRequest

HISTORY = SEEDED + 4
WIRES: Sequence[Wire] = ("openai", "anthropic")
LATENCIES = (0, 200)
"""Milliseconds: in one piece, and in ten."""

_LINE = "You answer in plain words, look before you act, and say what you do not know.\n"


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured: whose adapters, on which wire, with an answer spread over so many milliseconds."""

    tree: str
    wire: Wire
    latency: int


def _request(number: int, latency: int) -> tuple[str, ModelRequest]:
    token = f"{number:0{TOKEN_LENGTH}d}"
    past: list[Message] = []
    for place in range(HISTORY // 2):
        past.append({"role": "user", "content": message_text(Mark("0" * TOKEN_LENGTH, place, place))})
        past.append({"role": "assistant", "text": reply_text(f"{place:0{TOKEN_LENGTH}d}")})
    text = (_LINE * (PROMPT_BYTES // len(_LINE) + 1))[:PROMPT_BYTES]
    return token, ModelRequest(
        call_id=uuid4(),
        system=[{"tier": "stable", "text": text}],
        messages=[*past, {"role": "user", "content": message_text(Mark(token, latency, latency))}],
    )


async def _calls(model: Model, numbers: Sequence[int], latency: int, together: int) -> float:
    """Seconds of CPU that these calls take; making the requests is not counted. Every answer is checked."""
    asked = [_request(number, latency) for number in numbers]
    waiting = iter(asked)

    async def caller() -> None:
        for token, request in waiting:
            heard: list[str] = []
            answer = await model.answer(request, lambda _, piece, heard=heard: heard.append(piece))  # type: ignore[misc]
            if answer.text != reply_text(token) or "".join(heard) != answer.text:
                raise ValueError(f"not the answer to {token}: {answer.text}")

    begun = time.process_time()
    async with asyncio.TaskGroup() as callers:
        for _ in range(together):
            callers.create_task(caller())
    return time.process_time() - begun


async def _measure(url: str, wire: Wire, latency: int, calls: int, together: int) -> float:
    """Milliseconds of CPU for each call."""
    base_url = f"{url}/v1" if wire == "openai" else url
    spec = ModelSpec("primary", wire, "bench", base_url=base_url, api_key="bench-key", supports_streaming=True)
    async with open_models({"primary": spec}) as models:
        await _calls(models["primary"], range(together * 2), latency, together)
        seconds = await _calls(models["primary"], range(together * 2, together * 2 + calls), latency, together)
    return seconds * 1000 / calls


@contextlib.contextmanager
def _trees(revision: str | None) -> Iterator[Mapping[str, Path]]:
    """Folders to run in, under names to print: today's, and one with ``shared`` of another commit."""
    if revision is None:
        yield {"now": ROOT}
        return
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(
            ["git", "-C", str(ROOT), "archive", revision, "shared"], capture_output=True, check=True
        )
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        shutil.copytree(ROOT / "bench", Path(folder) / "bench", ignore=shutil.ignore_patterns("out", "__pycache__"))
        yield {revision: Path(folder), "now": ROOT}


@contextlib.contextmanager
def _model_server() -> Iterator[str]:
    server = subprocess.Popen(
        [sys.executable, "-m", "bench.model_server"], cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    try:
        if server.stdout is None:
            raise ValueError("the model server says nothing")
        yield server.stdout.readline().decode().strip()
    finally:
        server.terminate()
        server.wait(10)
        if server.stdout is not None:
            server.stdout.close()


def _one(tree: Path, url: str, cell: Cell, calls: int, together: int) -> float:
    words = ["--child", url, "--wire", cell.wire, "--latency", str(cell.latency)]
    words += ["--calls", str(calls), "--together", str(together)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.model_call", *words], cwd=tree, stdout=subprocess.PIPE, check=True, text=True
    )
    return float(done.stdout)


def _compare(arguments: argparse.Namespace) -> Mapping[Cell, Sequence[float]]:
    found: dict[Cell, list[float]] = {}
    with _trees(arguments.against) as trees, _model_server() as url:
        for _ in range(arguments.rounds):
            for wire in WIRES:
                for latency in LATENCIES:
                    for name, tree in trees.items():
                        cell = Cell(name, wire, latency)
                        figure = _one(tree, url, cell, arguments.calls, arguments.together)
                        found.setdefault(cell, []).append(figure)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.model_call", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=640, help="for each figure, beside the warm-up")
    parser.add_argument("--together", type=int, default=64, help="calls under way at a time")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", metavar="REVISION", help="measure the adapters of this commit too")
    parser.add_argument("--child", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--wire", choices=WIRES, help=argparse.SUPPRESS)
    parser.add_argument("--latency", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        figure = run(_measure(arguments.child, arguments.wire, arguments.latency, arguments.calls, arguments.together))
        sys.stdout.write(f"{figure:.4f}\n")
        return
    sys.stdout.write(f"{'adapters':<14}{'wire':<11}{'over':>7}{'ms of CPU a call':>19}{'least':>8}{'most':>8}\n")
    for cell, figures in _compare(arguments).items():
        sys.stdout.write(
            f"{cell.tree[:12]:<14}{cell.wire:<11}{cell.latency:>4} ms{statistics.median(figures):>19.3f}"
            f"{min(figures):>8.3f}{max(figures):>8.3f}\n"
        )


if __name__ == "__main__":
    main()
