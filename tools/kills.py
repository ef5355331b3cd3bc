"""The kill matrix: which phase of the tests notices which planted bug, and by which test first.

tools/kills.json has, by file and by the bug's words, for each phase the test that caught it, or "lives". What was
not run is absent. The phases without TensorFlow are run whole; of the slow ones a bug's own tests only.

Many bugs are planted at once: those that none of a phase's tests notices need one run together. Where tests fail,
each bug is planted alone before the first of them, and so on, until what is left passes all that failed.
"""

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock

from planting import ROOT, SECONDS, Mutant, failures, passes, planted

CHEAP = ("unit", "property", "fuzz", "golden")
SLOW = ("numerics", "cluster")
LIVES = "lives"
TOGETHER = 64
"""Bugs that are planted at once."""


class Kills:
    """The matrix, on disk after each verdict."""

    def __init__(self, file: Path, mutants: Iterable[Mutant]) -> None:
        """Verdicts on bugs that are gone are dropped."""
        self._file, self._lock = file, Lock()
        read = json.loads(file.read_text()) if file.exists() else {}
        self._found: dict[str, dict[str, dict[str, str]]] = defaultdict(dict)
        for mutant in mutants:
            if kept := read.get(mutant.file, {}).get(mutant.why):
                self._found[mutant.file][mutant.why] = kept

    def of(self, mutant: Mutant) -> dict[str, str]:
        """By phase, what is known of a bug."""
        return self._found.get(mutant.file, {}).get(mutant.why, {})

    def killer(self, mutant: Mutant) -> list[str]:
        """The test that caught it, of the earliest phase, with all its parameters; [] if none is known."""
        found = self.of(mutant)
        caught = [found[phase] for phase in (*CHEAP, *SLOW) if found.get(phase, LIVES) != LIVES]
        return [caught[0].partition("[")[0]] if caught else []

    def note(self, mutant: Mutant, phase: str, verdict: str) -> None:
        """A test that caught it, or `LIVES`."""
        with self._lock:
            self._found[mutant.file].setdefault(mutant.why, {})[phase] = verdict
            self._file.write_text(json.dumps(self._found, indent=1, sort_keys=True) + "\n")


def phase_of(test: str) -> str:
    """Of a test's path: the folder in tests/."""
    return test.split("/")[1]


def named(mutant: Mutant, phase: str) -> list[str]:
    """Its own tests of a phase."""
    return [test for test in mutant.tests if phase_of(test) == phase]


def groups(mutants: Sequence[Mutant], phase: str) -> list[list[Mutant]]:
    """What is run together: the likely survivors first, and neighbours; each alone where a phase is run in part."""
    if phase in SLOW:
        return [[mutant] for mutant in mutants if named(mutant, phase)]
    made: list[list[Mutant]] = []
    for mutant in sorted(mutants, key=lambda mutant: (bool(named(mutant, phase)), mutant.file)):
        fitting = (group for group in made if len(group) < TOGETHER and _fits_beside(mutant, group))
        group = next(fitting, None)
        if group is None:
            made.append(group := [])
        group.append(mutant)
    return made


def judge(group: Sequence[Mutant], phase: str, copy: Path, kills: Kills) -> None:
    """Note for each bug of a group what the phase says of it."""
    left = [mutant for mutant in group if not _caught_by(named(mutant, phase), mutant, phase, copy, kills)]
    if phase in CHEAP and left:
        left = _judge_together(left, phase, copy, kills)
    for mutant in left:
        kills.note(mutant, phase, LIVES)


def _judge_together(left: list[Mutant], phase: str, copy: Path, kills: Kills) -> list[Mutant]:
    """Those that no test of the phase notices."""
    failed = _failing(left, [f"tests/{phase}"], copy)
    failed = _failing(left, failed, copy) if failed else []  # some may have failed for want of time
    while failed and left:
        first = [failed[0]]
        lived = [mutant for mutant in left if not _caught_by(first, mutant, phase, copy, kills)]
        failed = failed[1:]
        if failed and lived and lived != left:
            failed = _failing(lived, failed, copy)
        left = lived
    return left


def _caught_by(tests: Sequence[str], mutant: Mutant, phase: str, copy: Path, kills: Kills) -> bool:
    """Notes the first of these tests that fails with this bug and passes without.

    One that hangs with it must need far less time without.
    """
    if not tests:
        return False
    enough = SECONDS
    try:
        with planted([mutant], copy):
            failed = failures(tests, copy, "-x", seconds=SECONDS)
    except subprocess.TimeoutExpired:
        failed, enough = list(tests[:1]), SECONDS / 3
    if not failed or not passes(failed, copy, enough):
        return False
    kills.note(mutant, phase, failed[0])
    return True


def _failing(mutants: Sequence[Mutant], tests: Sequence[str], copy: Path) -> list[str]:
    with planted(mutants, copy):
        return failures(tests, copy)


def _fits_beside(mutant: Mutant, group: Sequence[Mutant]) -> bool:
    """Whether its line is still there when the others are planted; C++ costs a build, which Python is spared."""
    if mutant.file.endswith(".py") != group[0].file.endswith(".py"):
        return False
    text = (ROOT / mutant.file).read_text()
    for other in group:
        if other.file == mutant.file:
            text = text.replace(other.old, other.new)
    return text.count(mutant.old) == 1
