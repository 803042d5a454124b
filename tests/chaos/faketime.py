"""libfaketime, where this machine has it: whole processes whose wall clock jumps, their monotonic clock left alone."""

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

GIVEN = "CHAOS_FAKETIME"
PLACES = ("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1")


@dataclass
class Faketime:
    """``library`` is loaded before all others; how far the clock is off is read from ``told``."""

    library: Path
    told: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to live by it."""
        return {
            "LD_PRELOAD": str(self.library),
            "FAKETIME_TIMESTAMP_FILE": str(self.told),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def put_off(self, seconds: int) -> None:
        """Have the wall clock jump to so far from the true time."""
        new = self.told.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n", "utf-8")
        new.replace(self.told)


def find_faketime(folder: Path) -> Faketime | None:
    """The library that is named by ``CHAOS_FAKETIME``, installed as a package, or the system's."""
    spec = find_spec("libfaketime")
    inside = "vendor/libfaketime/src/libfaketime.so.1"
    places = spec.submodule_search_locations if spec is not None else None
    wheels = [str(Path(place) / inside) for place in places or ()]
    for library in (os.environ.get(GIVEN, ""), *wheels, *PLACES):
        if library and Path(library).is_file():
            faketime = Faketime(Path(library), folder / "faketime")
            faketime.put_off(0)
            return faketime
    return None
