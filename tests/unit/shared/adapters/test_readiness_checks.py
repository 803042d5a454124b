"""What `/readyz` says about each thing that a process depends on."""

from shared.adapters.http.health import readiness
from shared.errors import TryLater


async def test_a_fault_that_has_a_sentence_is_told_by_it() -> None:
    """Who reads the page does not know the names of our classes; a fault that nobody foresaw has nothing better."""

    async def away() -> str:
        raise TryLater("Postgres can't be reached", after=1.0)

    async def odd() -> str:
        raise ZeroDivisionError("a secret, perhaps")

    async def well() -> str:
        return "ok"

    ready, answers = await readiness({"postgres": away, "other": odd, "redis": well})
    assert not ready
    assert answers == {"postgres": "Postgres can't be reached", "other": "ZeroDivisionError", "redis": "ok"}
