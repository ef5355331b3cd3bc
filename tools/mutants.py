"""Plant bugs, one at a time, and see whether a test notices each.

python tools/mutants.py [--json] [--only 3 7]

Works on copies of the repository, in temporary directories. Exit code 1 if a bug lives, or can no longer be
planted: then its text in tools/mutants.json is out of date. What lives lacks a test.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parents[1]
MUTANTS = Path(__file__).with_suffix(".json")
COPIES = 2
SECONDS = 180
"""After which a test that hangs counts as one that noticed."""


@dataclass(frozen=True)
class Mutant:
    """A bug: in `file`, `new` stands where `old` should; `tests` are those that should notice."""

    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]


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
    options = parser.parse_args(arguments)
    chosen = [(i, m) for i, m in enumerate(load_mutants(), 1) if not options.only or i in options.only]
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run_all(chosen, Path(folder))
    if options.json:
        print(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    else:
        for outcome in outcomes:
            print(
                f"{outcome.number:3} {outcome.outcome:9}{outcome.seconds:6.1f} s  {outcome.file}: {outcome.why}"
            )
    sys.exit(any(outcome.outcome != "caught" for outcome in outcomes))


def load_mutants() -> tuple[Mutant, ...]:
    """The mutants of tools/mutants.json, in order."""
    return tuple(
        Mutant(**(entry | {"tests": tuple(entry["tests"])})) for entry in json.loads(MUTANTS.read_text())
    )


def run_all(chosen: Sequence[tuple[int, Mutant]], folder: Path) -> list[Outcome]:
    """Each mutant in one of the copies, after a run of all their tests without any."""
    copies: Queue[Path] = Queue()
    for i in range(COPIES):
        copies.put(copy_repository(folder / str(i)))
    _check_baseline(chosen, folder / "0")

    def run(numbered: tuple[int, Mutant]) -> Outcome:
        copy = copies.get()
        try:
            outcome = run_one(*numbered, copy)
        finally:
            copies.put(copy)
        print(f"{outcome.number}: {outcome.outcome} ({outcome.why})", file=sys.stderr, flush=True)
        return outcome

    with ThreadPoolExecutor(COPIES) as pool:
        return list(pool.map(run, chosen))


def copy_repository(target: Path) -> Path:
    """Copy what git tracks or would track: the sources, no caches and no .venv."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    for name in listed.stdout.rstrip("\0").split("\0"):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / name)
    return target


def run_one(number: int, mutant: Mutant, copy: Path) -> Outcome:
    """Plant a mutant, run its tests, take it out again."""
    file = copy / mutant.file
    before = file.read_text()
    if before.count(mutant.old) != 1:
        return Outcome(number, mutant.file, mutant.why, "stale", 0)
    start = time.monotonic()
    try:
        file.write_text(before.replace(mutant.old, mutant.new))
        outcome = "survived" if passes(mutant.tests, copy) else "caught"
    finally:
        file.write_text(before)
    return Outcome(number, mutant.file, mutant.why, outcome, time.monotonic() - start)


def passes(tests: Sequence[str], copy: Path, seconds: float | None = SECONDS) -> bool:
    """Whether tests pass in a copy: no byte code is written, so that no stale one can be read."""
    command = [sys.executable, "-m", "pytest", "-x", "--hypothesis-seed=0", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ran = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    if ran.returncode > 1:
        sys.exit(f"pytest cannot run {' '.join(tests)}:\n{ran.stdout.decode()[-2000:]}")
    return ran.returncode == 0


def _check_baseline(chosen: Sequence[tuple[int, Mutant]], copy: Path) -> None:
    tests = sorted({test for _, mutant in chosen for test in mutant.tests})
    print(f"{len(chosen)} mutants; first their tests without any", file=sys.stderr, flush=True)
    if not passes(tests, copy, seconds=None):
        sys.exit("the tests fail without any mutant: mend them first")


if __name__ == "__main__":
    main(sys.argv[1:])
