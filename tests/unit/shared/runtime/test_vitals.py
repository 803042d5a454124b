"""A process that lives for months is as big as what it holds, not as what it once held."""

import asyncio
import resource
import sys
import time

import pytest

from shared.runtime.vitals import PROBE_EVERY, LoopLag, allow_many_files, give_memory_back, resident_bytes


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the C library of Linux gives memory back when asked")
def test_what_was_freed_between_what_lives_on_is_given_back() -> None:
    """Long histories that end beside short ones that stay leave holes, and holes are memory too."""
    blocks = [bytes(4000 + number % 90) for number in range(25_000)]
    kept = blocks[::50]
    full = resident_bytes()
    del blocks
    assert full - resident_bytes() < 20e6, "it comes back by itself"
    give_memory_back()
    assert full - resident_bytes() > 40e6
    assert len(kept) == 500


def test_as_many_files_may_be_open_as_the_system_allows() -> None:
    """With the usual 1,024 a thousand streams are the end of a gateway."""
    usual, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(usual, 512), most))
    try:
        allow_many_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (usual, most))


async def test_a_loop_that_was_blocked_is_still_seen_when_it_turns_again() -> None:
    """Nobody can ask while it is blocked: the answer comes from the loop itself."""
    lag = LoopLag()
    watch = asyncio.create_task(lag.watch())
    try:
        await asyncio.sleep(PROBE_EVERY / 2)
        time.sleep(PROBE_EVERY * 1.5)
        await asyncio.sleep(0)
        assert lag.lately.total_seconds() >= PROBE_EVERY * 0.9
        async with asyncio.timeout(10):
            while not lag.last:
                await asyncio.sleep(0)
        blocked = lag.last.total_seconds()
        async with asyncio.timeout(10):
            while lag.last.total_seconds() == blocked:
                await asyncio.sleep(0.05)
        assert lag.lately.total_seconds() == blocked
    finally:
        watch.cancel()
