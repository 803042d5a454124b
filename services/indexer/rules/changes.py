"""What has happened to the workspace since it was last looked at."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Changes:
    """Paths, each in exactly one of the sets."""

    new: frozenset[str]
    changed: frozenset[str]
    unchanged: frozenset[str]
    vanished: frozenset[str]


def changes(known: Mapping[str, str], found: Mapping[str, str], unreadable: Collection[str]) -> Changes:
    """Compare hashes by path. What is there but could not be read is left as it was known."""
    both = known.keys() & found.keys()
    changed = frozenset(path for path in both if known[path] != found[path])
    return Changes(
        new=frozenset(found.keys() - known.keys()),
        changed=changed,
        unchanged=frozenset(both - changed),
        vanished=frozenset(known.keys() - found.keys() - set(unreadable)),
    )
