"""Remember which images a model's provider does not take."""

from collections.abc import Collection, Iterable

MOST = 10_000


class RefusedImages:
    """Of each model, by the ids of their blobs; the newest ``most``. Shown again they would be refused again, and each
    later message of their conversation would be asked twice."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: dict[tuple[str, str], None] = {}

    def add(self, model: str, images: Iterable[str]) -> None:
        """Its provider did not take these."""
        for image in images:
            self._known[model, image] = None
        while len(self._known) > self._most:
            del self._known[next(iter(self._known))]

    def among(self, model: str, images: Iterable[str]) -> Collection[str]:
        """Those of these ``images`` that it did not take."""
        return {image for image in images if (model, image) in self._known}
