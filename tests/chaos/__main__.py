"""Real processes, a seeded load, seeded faults, and a checker: ``python -m tests.chaos --seed 1 --minutes 5``.

``--plant NAME`` puts a fault into the product, which must be seen; ``--planted`` tries all of them. Exit code 1 when a
promise was not kept (with ``--planted``: when a planted fault was not seen): then the folder with all logs stays.
"""

import argparse
import pickle
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.chaos.checker import check
from tests.chaos.living import Lived, Order, live
from tests.chaos.plants import PLANTS
from tests.chaos.report import tell
from tests.chaos.violation import Violation

PLANTED_CALMS_WITHIN, SOUND_CALMS_WITHIN = 14.0, 90.0


def main(words: Sequence[str]) -> int:
    """Run once, or once for each planted fault, and print the report."""
    parser = argparse.ArgumentParser(
        prog="chaos", description="Break a running Lucyd on purpose and check what it promises."
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--plant", choices=["", *PLANTS], default="", help="plant this fault in the product")
    parser.add_argument("--sound", action="store_true", help="with --plant: provoke it, but do not plant it")
    parser.add_argument("--planted", action="store_true", help="try every planted fault")
    asked = parser.parse_args(words)
    if asked.planted:
        return _try_all(asked.seed)
    if asked.plant:
        order = _order_of(asked.plant, asked.seed, planted=not asked.sound)
    else:
        order = Order(asked.seed, asked.minutes * 60)
    folder, lived, found = _tried(order)
    print(tell(order.seed, order.seconds, lived, found))
    if asked.plant:
        said = "planted" if order.planted else "provoked, not planted"
        print(f"{said}: {asked.plant} ({PLANTS[asked.plant].says})")
    if found:
        print(f"the logs of all processes are in {folder}")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def _try_all(seed: int) -> int:
    unseen = []
    for name, plant in PLANTS.items():
        try:
            folder, _, found = _tried(_order_of(name, seed, planted=True))
        except LookupError as fault:
            unseen.append(name)
            print(f"{name:<20} NOT PLANTED: {fault}", flush=True)
            continue
        by = [rule for rule in plant.rules if rule in found]
        if by:
            shown = found[by[0]][0]
            print(f"{name:<20} caught by {', '.join(by)}")
            print(f"{'':<20} {shown.subject}: {shown.says[:200]}", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
        else:
            unseen.append(name)
            print(f"{name:<20} NOT CAUGHT (also broken: {', '.join(found) or 'nothing'}); logs: {folder}", flush=True)
    print(f"{len(PLANTS) - len(unseen)} of {len(PLANTS)} planted faults were caught")
    return 1 if unseen else 0


def _order_of(name: str, seed: int, *, planted: bool) -> Order:
    plant = PLANTS[name]
    # A run that is killed four times takes longer than that, and a sound product must be given its time.
    calms_within = PLANTED_CALMS_WITHIN if planted else SOUND_CALMS_WITHIN
    return Order(seed, plant.seconds, calms_within, name, plant, planted)


def _tried(order: Order) -> tuple[Path, Lived, Mapping[str, Sequence[Violation]]]:
    folder = Path(tempfile.mkdtemp(prefix="lucyd-chaos-"))
    lived = live(folder, order)
    found = check(lived.history)
    if found:
        (folder / "history.pickle").write_bytes(pickle.dumps(lived.history))  # to look into, and never read back by us
    return folder, lived, found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
