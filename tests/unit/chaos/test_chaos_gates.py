"""Gates of workers: who is held at a boundary, and for how long."""

import asyncio
import tempfile
from pathlib import Path

from tests.chaos.gates import AIMED, ALL, TAKE, Gates, Signals

SOON = 5.0


async def _stands(gates: Gates, gate: str, conversation: str) -> bool:
    task = asyncio.create_task(gates.stand(gate, [conversation]))
    await asyncio.sleep(0.05)
    held = not task.done()
    task.cancel()
    return held


async def _try(folder: Path) -> None:
    signals = Signals(folder / "s")
    await signals.open()
    gates = Gates(str(signals.address))
    listening = asyncio.create_task(gates.listen())
    try:
        async with asyncio.timeout(SOON):
            signals.hold(["finishing", "claiming"], AIMED)
            while not await _stands(gates, "finishing", "http:k:finishing-3"):
                await asyncio.sleep(0.02)
            assert not signals.door.exists()
            assert not await _stands(gates, "finishing", "http:k:claiming-3")
            assert not await _stands(gates, "finishing", "http:k:s3")
            assert not await _stands(gates, TAKE, "")

            waits = asyncio.create_task(gates.stand("claiming", ["http:k:claiming-9"]))
            signals.let_all_pass()
            await waits
            assert signals.door.exists()

            signals.hold(["finishing"], ALL)
            while not await _stands(gates, "finishing", "http:k:s3"):
                await asyncio.sleep(0.02)
    finally:
        await signals.close()
        await listening
        await asyncio.sleep(0.05)  # the other end sees that it has hung up


async def test_a_run_is_held_at_its_own_boundary_until_the_gates_open() -> None:
    """Held elsewhere it would never come to where it is wanted; held for ever it would be the test that loses it."""
    with tempfile.TemporaryDirectory(prefix="gates-") as folder:
        await _try(Path(folder))
