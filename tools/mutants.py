"""Plant bugs, one at a time, and see whether a test notices each.

python tools/mutants.py [--json] [--only 3 7]
python tools/mutants.py --phase unit property fuzz golden [--missing] [--only 3 7]

Works on copies of the repository, in temporary directories. Exit code 1 if a bug lives, or can no longer be
planted: then its text in tools/mutants.json is out of date. What lives lacks a test. The test that caught a bug
before (tools/kills.json) is asked first, then those that are named beside the bug.

With --phase, bugs are tried against whole phases of the tests (of numerics and cluster: against their own tests
there), and what is found is kept in tools/kills.json, bug by bug: with --missing, only where nothing is known yet,
so that a run can be stopped and taken up again.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory
from typing import TypeVar

from kills import CHEAP, SLOW, Kills, groups, judge, phase_of
from planting import ROOT, Mutant, copy_repository, load_mutants, passes, planted

COPIES = 2
KILLS = Path(__file__).with_name("kills.json")

Numbered = Sequence[tuple[int, Mutant]]
Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: ``caught``, ``survived``, or ``stale`` if `old` is not there exactly once."""

    number: int
    file: str
    why: str
    outcome: str
    seconds: float


def main(arguments: Sequence[str]) -> None:
    """Run all mutants, or those asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="Run these numbers.")
    parser.add_argument("--phase", nargs="+", choices=(*CHEAP, *SLOW), default=[], metavar="PHASE")
    parser.add_argument("--missing", action="store_true", help="Leave out what tools/kills.json knows.")
    options = parser.parse_args(arguments)
    chosen = [(i, m) for i, m in enumerate(load_mutants(), 1) if not options.only or i in options.only]
    if options.phase:
        fill_in([mutant for _, mutant in chosen], options.phase, missing=options.missing)
        return
    outcomes = run_all(chosen)
    print(
        json.dumps([asdict(outcome) for outcome in outcomes], indent=1) if options.json else table(outcomes)
    )
    sys.exit(any(outcome.outcome != "caught" for outcome in outcomes))


def table(outcomes: Sequence[Outcome]) -> str:
    """One line for each."""
    return "\n".join(
        f"{one.number:3} {one.outcome:9}{one.seconds:6.1f} s  {one.file}: {one.why}" for one in outcomes
    )


def run_all(chosen: Numbered) -> list[Outcome]:
    """Each mutant in one of the copies, after a run of all their tests without any."""
    kills = Kills(KILLS, load_mutants())
    tests = sorted({test for _, mutant in chosen for test in (*kills.killer(mutant), *mutant.tests)})
    print(f"{len(chosen)} mutants; first their tests without any", file=sys.stderr, flush=True)

    def run(numbered: tuple[int, Mutant], copy: Path) -> Outcome:
        outcome = run_one(*numbered, copy, kills.killer(numbered[1]))
        print(f"{outcome.number}: {outcome.outcome} ({outcome.why})", file=sys.stderr, flush=True)
        return outcome

    def sound(copy: Path) -> None:
        """Phase by phase: those with TensorFlow in the test's own process want a process each."""
        for phase in dict.fromkeys(map(phase_of, tests)):
            own = [test for test in tests if phase_of(test) == phase]
            if not passes(own, copy, seconds=None):
                sys.exit(f"the tests of {phase} fail without any mutant: mend them first")

    return in_copies(run, chosen, first=sound)


def run_one(number: int, mutant: Mutant, copy: Path, killer: Sequence[str]) -> Outcome:
    """Plant a mutant, run what caught it before, then its tests, and take it out again."""
    if not mutant.fits(copy):
        return Outcome(number, mutant.file, mutant.why, "stale", 0)
    start = time.monotonic()
    with planted([mutant], copy):
        caught = any(tests and not passes(tests, copy) for tests in (killer, mutant.tests))
    outcome = "caught" if caught else "survived"
    return Outcome(number, mutant.file, mutant.why, outcome, time.monotonic() - start)


def fill_in(mutants: Sequence[Mutant], phases: Sequence[str], *, missing: bool) -> None:
    """Write into tools/kills.json what these phases say of these bugs."""
    kills = Kills(KILLS, load_mutants())
    for phase in phases:
        asked = [m for m in mutants if m.fits(ROOT) and not (missing and phase in kills.of(m))]

        def run(group: list[Mutant], copy: Path, phase: str = phase) -> None:
            judge(group, phase, copy, kills)
            for mutant in group:
                print(f"{phase}: {kills.of(mutant)[phase]} ({mutant.why})", file=sys.stderr, flush=True)

        in_copies(run, groups(asked, phase))


def in_copies(
    run: Callable[[Task, Path], Result], tasks: Sequence[Task], first: Callable[[Path], None] | None = None
) -> list[Result]:
    """Each task with a copy of the repository for itself, two at once; `first` before all of them."""
    copies: Queue[Path] = Queue()

    def in_one(task: Task) -> Result:
        copy = copies.get()
        try:
            return run(task, copy)
        finally:
            copies.put(copy)

    with TemporaryDirectory() as folder, ThreadPoolExecutor(COPIES) as pool:
        made = [copy_repository(Path(folder, str(i))) for i in range(COPIES)]
        if first:
            first(made[0])
        for copy in made:
            copies.put(copy)
        return list(pool.map(in_one, tasks))


if __name__ == "__main__":
    main(sys.argv[1:])
