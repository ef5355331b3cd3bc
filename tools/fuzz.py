"""Break things with damaged graphs, SavedModels, plans, bundles and commands, one a seed; say which seeds did.

python -m tools.fuzz                                    a million seeds, at most an hour
python -m tools.fuzz --first 4711 --seeds 1 --jobs 1    one seed again

Each may take some seconds of CPU time, and a process 4 GiB. Exit code 1 if something broke: keep what broke it in
tests/fuzz/crashers.
"""

import argparse
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from tests.fuzz.invariants import Hang
from tests.fuzz.kinds import check

MEMORY = 4 << 30
A_PIECE = 200
"""Seeds that a process takes at once."""


def main(arguments: Sequence[str]) -> None:
    """Try all seeds, or as many as there is time for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(arguments)
    broke, tried = 0, 0
    pieces = iter(range(given.first, given.first + given.seeds, A_PIECE))
    end = time.monotonic() + 60 * given.minutes
    with ProcessPoolExecutor(given.jobs, get_context("spawn"), _limit) as pool:
        ends = given.first + given.seeds
        while begun := [
            pool.submit(tried_of, at, min(at + A_PIECE, ends)) for at in islice(pieces, given.jobs * 4)
        ]:
            for failures, seeds in results(begun):
                tried += seeds
                broke += len(failures)
                for failure in failures:
                    print(failure, flush=True)
            if time.monotonic() > end:
                break
    print(f"{tried:,} seeds from {given.first:,} on, {broke} broke something")
    sys.exit(bool(broke))


def results(begun: Sequence[Future[tuple[list[str], int]]]) -> Iterator[tuple[list[str], int]]:
    """Of each piece what it found, as they end."""
    return (done.result() for done in as_completed(begun))


def tried_of(first: int, behind: int) -> tuple[list[str], int]:
    """What the seeds of a piece broke, each with its trace; and how many they are."""
    failures: list[str] = []
    for seed in range(first, behind):
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(seed, Path(folder))
            except (Exception, Hang):
                failures.append(f"seed {seed}:\n{traceback.format_exc(limit=-6)}")
    return failures, behind - first


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


if __name__ == "__main__":
    main(sys.argv[1:])
