"""Search for seeds that break an invariant of the model: `python tests/sim/routing_model/search.py`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from routing_model.network import Violation
from routing_model.rules import NAMES, Rules
from routing_model.run import play


def run_seed(seed: int, *, rules: Rules, faults: int | None) -> tuple[int, list[Violation]]:
    """Play one seed: what did not hold."""
    return seed, play(seed, rules, faults=faults).violations


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the search; the exit status says whether any seed failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, metavar="N", help="how many seeds to try")
    parser.add_argument("--first", type=int, default=0, metavar="S", help="the first seed to try")
    parser.add_argument("--faults", type=int, metavar="N", help="faults in each run; without it up to four")
    parser.add_argument(
        "--without", default="", metavar="RULES", help=f"rules to leave out: {', '.join(NAMES)}"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes to use")
    options = parser.parse_args(arguments)
    left_out = [name for name in options.without.split(",") if name]
    if unknown := [name for name in left_out if name not in NAMES]:
        parser.error(f"no rule {', '.join(unknown)}: there are {', '.join(NAMES)}")
    rules = Rules().without(*(NAMES[name] for name in left_out))
    run = partial(run_seed, rules=rules, faults=options.faults)
    failed = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        for seed, violations in pool.map(
            run, range(options.first, options.first + options.seeds), chunksize=10
        ):
            if violations:
                failed += 1
                print(f"FAILED seed {seed}: {violations[0]}", flush=True)
    print(f"{options.seeds} runs, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
