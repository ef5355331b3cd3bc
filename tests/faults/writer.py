"""Writes under faults, in a mount namespace of its own: `python -m tests.faults.writer FOLDER SEED TIMES`.

Prints as JSON which fault struck each time, and how the writing ended. What was there before is there behind a
writing that failed, byte by byte, and nothing else.
"""

import contextlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.bundles import small_bundle
from tests.plans import plan_by_hand
from tfwave.bundle.bundle import load_bundle, save_bundle
from tfwave.errors import TfwaveError
from tfwave.graph.names import Channel
from tfwave.plan.io import load_plan, save_plan
from tfwave.report.page.fill import write_page
from tfwave.report.page.given import CAPTURED, Given

PAGE = os.sysconf("SC_PAGE_SIZE")
ROOM = 8 << 20
KILLED_WITHIN_SECONDS = 0.03
Content = dict[str, bytes]


def write_plan(place: Path, chance: random.Random) -> None:
    names = [f"edge_{number}_{chance.random()}" for number in range(500)]
    save_plan(plan_by_hand({Channel("a", "b"): names}), place / "plan.json")


def write_bundle(place: Path, chance: random.Random) -> None:
    save_bundle(small_bundle(lost=frozenset(chance.sample(["v1", "v2", "v3"], 1))), place / "bundle")


def write_report(place: Path, chance: random.Random) -> None:
    write_page(Given((str(chance.random()),), {CAPTURED: small_bundle()}), place / "report.html")


WRITERS = {
    "a plan": ("plan.json", write_plan),
    "a bundle": ("bundle", write_bundle),
    "a report": ("report.html", write_report),
}


@contextlib.contextmanager
def full(target: Path, chance: random.Random) -> Iterator[None]:
    """Room is left for a part of what is written."""
    files = [path for path in [target, *target.rglob("*")] if path.is_file()]
    pages = sum(-(-file.stat().st_size // PAGE) for file in files)
    filler = target.parent.parent / "filler"
    left = os.statvfs(target)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, left.f_bavail * left.f_frsize - chance.randrange(pages) * PAGE)
    try:
        yield
    finally:
        filler.unlink()


@contextlib.contextmanager
def read_only(target: Path, chance: random.Random) -> Iterator[None]:
    subprocess.run(["mount", "-o", "remount,ro", target.parent.parent], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", target.parent.parent], check=True)


@contextlib.contextmanager
def limited(target: Path, chance: random.Random) -> Iterator[None]:
    """No file may grow beyond a limit of the process."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (chance.randrange(4096), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


FAULTS = {
    "the disk is full": full,
    "the disk is read-only": read_only,
    "a file grows beyond the limit": limited,
}


def content(place: Path) -> Content:
    """All files, hidden ones too."""
    return {str(file.relative_to(place)): file.read_bytes() for file in place.rglob("*") if file.is_file()}


def struck(write: Callable[[], None], fault: contextlib.AbstractContextManager[None], place: Path) -> str:
    """How a writing ended; what failed has changed no file, or of a report the one that it had written before."""
    before, ended = content(place), ""
    try:
        with fault:
            write()
    except TfwaveError as error:
        ended = str(error)
    if not ended:
        return "written: there was room"
    after = content(place)
    assert str(place) in ended
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} <= {"report.html"}
    return f"refused ({ended.rpartition(': ')[2]}); what was there stays"


def killed(write: Callable[[], None], place: Path, chance: random.Random) -> str:
    """What was there is there, or the new one; only who was killed may have left what it had begun."""
    names = {name for name in content(place) if not name.startswith(".")}
    if not (pid := os.fork()):
        write()
        os._exit(0)
    time.sleep(chance.uniform(0, KILLED_WITHIN_SECONDS))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert names == {name for name in content(place) if not name.startswith(".")}
    return "what is there is whole"


def check(place: Path) -> None:
    """All can be read."""
    load_plan(place / "plan.json")
    load_bundle(place / "bundle")
    assert (place / "report.html").read_text().rstrip().endswith("</html>")


def sweep(place: Path) -> None:
    for path in place.glob(".*"):
        subprocess.run(["rm", "-r", path], check=True)


def one(place: Path, what: str, fault: str | None, chance: random.Random) -> tuple[str, str]:
    """Write one thing under a fault, or killed; which fault it was, and how that ended."""
    name, write = WRITERS[what]
    act = partial(write, place, chance)
    if fault:
        ended = struck(act, FAULTS[fault](place / name, chance), place)
    else:
        ended = killed(act, place, chance)
        sweep(place)
    check(place)
    return f"{fault or 'the process is killed'} while {what} is written", ended


def main() -> None:
    folder, seed, times = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tfwave-faults", folder], check=True)
    place, chance = folder / "place", random.Random(seed)
    place.mkdir()
    for _, write in WRITERS.values():
        write(place, chance)
    drawn = [(what, fault) for what in WRITERS for fault in (*FAULTS, None)]
    found = [one(place, *drawn[number % len(drawn)], chance) for number in range(times)]
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
