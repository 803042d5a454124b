"""Samples as tables: where a service spends its CPU. Pure but for reading the lines that are shown."""

import linecache
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Samples:
    """Counts of samples: ``own`` by file, function and line, ``with_callees`` by file and function."""

    own: Sequence[tuple[str, str, int, int]]
    with_callees: Sequence[tuple[str, str, int]]

    @property
    def total(self) -> int:
        """Of all samples; 1 when there is none."""
        return sum(count for *_, count in self.own) or 1


@dataclass(frozen=True, slots=True)
class Spot:
    """One function: its share (0 to 1) of all samples by itself and with all it called, and its hottest line."""

    file: str
    function: str
    line: int
    own: float
    with_callees: float


def added(all_samples: Iterable[Samples]) -> Samples:
    """The samples of several processes as if they were one."""
    own: Counter[tuple[str, str, int]] = Counter()
    with_callees: Counter[tuple[str, str]] = Counter()
    for samples in all_samples:
        for file, function, line, count in samples.own:
            own[file, function, line] += count
        for file, function, count in samples.with_callees:
            with_callees[file, function] += count
    return Samples(
        own=[(*place, count) for place, count in own.items()],
        with_callees=[(*place, count) for place, count in with_callees.items()],
    )


def hot_spots(samples: Samples, most: int) -> Sequence[Spot]:
    """The functions with most samples of their own."""
    lines: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    for file, function, line, count in samples.own:
        lines[file, function][line] += count
    whole = {(file, function): count for file, function, count in samples.with_callees}
    spots = [
        Spot(
            file,
            function,
            counted.most_common(1)[0][0],
            counted.total() / samples.total,
            whole[file, function] / samples.total,
        )
        for (file, function), counted in lines.items()
    ]
    return sorted(spots, key=lambda spot: -spot.own)[:most]


def packages(samples: Samples, most: int) -> Mapping[str, float]:
    """Shares of the packages by what their own functions do."""
    counted: Counter[str] = Counter()
    for file, _, _, count in samples.own:
        counted[package_of(file)] += count
    return {name: count / samples.total for name, count in counted.most_common(most)}


def stories(samples: Samples, most: int) -> Sequence[tuple[str, str, float]]:
    """Our own functions (file, function, share) with most samples, all they called counted in."""
    ours = [(file, function, count) for file, function, count in samples.with_callees if _is_ours(file)]
    ranked = sorted(ours, key=lambda each: -each[2])[:most]
    return [(_short(file), function, count / samples.total) for file, function, count in ranked]


def tables(service: str, samples: Samples, ms_per_run: float, *, most: int) -> Iterator[str]:
    """Lines to print; shares are told as milliseconds of a run too."""
    yield f"{service}: {ms_per_run:.2f} ms of CPU for a run, {samples.total} samples"
    yield "  by package: " + ", ".join(f"{name} {share:.1%}" for name, share in packages(samples, 14).items())
    yield f"  {'own':>6} {'ms/run':>7} {'all':>6}  function, and its hottest line"
    for spot in hot_spots(samples, most):
        text = linecache.getline(spot.file, spot.line).strip()[:70]
        own, whole = f"{spot.own:.1%}", f"{spot.with_callees:.1%}"
        place = f"{_short(spot.file)}:{spot.line}"
        yield f"  {own:>6} {spot.own * ms_per_run:>7.3f} {whole:>6}  {spot.function}  ({place})  {text}"
    yield f"  {'all':>6} {'ms/run':>7}  our own functions with all they call"
    for file, function, share in stories(samples, most):
        yield f"  {f'{share:.1%}':>6} {share * ms_per_run:>7.3f}  {function}  ({file})"


def package_of(file: str) -> str:
    """Who a file belongs to: one of our services or rooms, an installed package, or Python itself."""
    path = Path(file)
    if "site-packages" in path.parts:
        return path.parts[path.parts.index("site-packages") + 1].removesuffix(".py")
    if _is_ours(file):
        return "/".join(path.relative_to(ROOT).parts[:2])
    return "asyncio" if "asyncio" in path.parts else "python"


def _is_ours(file: str) -> bool:
    path = Path(file)
    return path.is_relative_to(ROOT) and "site-packages" not in path.parts


def _short(file: str) -> str:
    path = Path(file)
    if "site-packages" in path.parts:
        return "/".join(path.parts[path.parts.index("site-packages") + 1 :])
    return str(path.relative_to(ROOT)) if _is_ours(file) else "/".join(path.parts[-2:])
