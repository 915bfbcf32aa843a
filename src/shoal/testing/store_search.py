"""Search for seeds that make a store lose something: `python -m shoal.testing.store_search --seeds 1000`.

With `--forward` one store forwards to another; with `--group` a group of three keeps the store.
"""

import argparse
import functools
import logging
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from shoal.testing.forward_run import ForwardRun
from shoal.testing.group_run import GroupRun
from shoal.testing.store_run import StoreRun


def run_seed(seed: int, *, kind: type[StoreRun] | type[ForwardRun] = StoreRun) -> tuple[int, str | None]:
    """Run one seed: what failed, if anything did."""
    # Thousands of sessions end in a run, and each says so.
    logging.getLogger("shoal.store").setLevel(logging.CRITICAL + 1)
    try:
        kind(seed)
    # A panic in the kernel is no Exception; to the search it is one more failing seed.
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return seed, f"{type(error).__name__}: {error}"
    return seed, None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the search; the exit status says whether any seed failed."""
    parser = argparse.ArgumentParser(prog="python -m shoal.testing.store_search", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, metavar="N", help="how many seeds to try")
    parser.add_argument("--first", type=int, default=0, metavar="S", help="the first seed to try")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes to use")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--forward", action="store_true", help="one store forwards to another")
    kinds.add_argument("--group", action="store_true", help="a group of three keeps the store")
    options = parser.parse_args(arguments)
    kind = ForwardRun if options.forward else GroupRun if options.group else StoreRun
    run = functools.partial(run_seed, kind=kind)
    way = " --forward" if options.forward else " --group" if options.group else ""
    seeds = range(options.first, options.first + options.seeds)
    failed = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        for seed, error in pool.map(run, seeds, chunksize=10):
            if error is not None:
                failed += 1
                print(f"FAILED seed {seed}: {error}")
                print(f"  python -m shoal.testing.store_search --first {seed} --seeds 1{way}")
    print(f"{len(seeds)} runs, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
