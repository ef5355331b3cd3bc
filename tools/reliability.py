"""Write docs/reliability.md from what the fault suite saw.

python tools/reliability.py LEDGER.json       keeps the ledger that `pytest tests/faults --ledger` wrote, too
python tools/reliability.py                   writes the page from the ledger that was kept
"""

import argparse
import json
import shutil
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "tests" / "faults" / "ledger.json"
PAGE = ROOT / "docs" / "reliability.md"

_HEAD = """# Faults

`make test-faults` trains on real servers and workers, in processes of their own, while faults strike them. Each
scene runs under the hook, under the proxy and on stock TensorFlow, with the same faults before the same steps:

* all losses, and the way in which each struck step ended, are those of stock TensorFlow, bit for bit;
* steps beside the struck ones kept the plan's order exactly, and behind each fault nothing was held any more;
* no process, thread of the chief, network namespace or file was left.

Where a plan is struck, stock TensorFlow, which has none, makes the same step undisturbed. `make test` runs a
short form.

Not all goes without a trace:

* What a server holds for a step whose worker was killed leaves by its deadline, 5 s if not set: nobody tells it.
* A server that is killed takes its variables with it: the training began anew.
* A process that is killed while it writes may leave a hidden temporary file beside what it wrote.

These faults the suite saw, so often, with these outcomes:
"""
_UNITS = {"files": "writings"}


def page(ledger: Mapping[str, Any]) -> str:
    """The page; one ledger, one text."""
    scenes = "".join(_table(scene, steps, ledger["outcomes"]) for scene, steps in ledger["steps"].items())
    return f"{_HEAD}{scenes}\nWith the seed {ledger['seed']}; written by `tools/reliability.py`.\n"


def _table(scene: str, steps: int, outcomes: list[dict[str, Any]]) -> str:
    struck: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for row in outcomes:
        if row["scene"] == scene:
            struck[row["fault"], _told(row["ended"])][row["enforcer"]] = row["times"]
    rows = [
        f"| {fault} | {', '.join(f'{name} {times}' for name, times in sorted(by.items()))} | {ended} |\n"
        for (fault, ended), by in sorted(struck.items())
    ]
    head = "| fault | how often | outcome |\n|---|---|---|\n"
    title = f"{scene.capitalize()}: {steps:,} {_UNITS.get(scene, 'steps')}"
    return f"\n## {title}\n\n{head}{''.join(rows)}"


def _told(ended: str) -> str:
    """What became of what was struck; a step that ended with an error is followed by others."""
    return f"the step ends with {ended}; training goes on" if ended.endswith("Error") else ended


def main() -> None:
    """Keep a ledger, if one is given, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ledger", type=Path, nargs="?")
    if given := parser.parse_args().ledger:
        shutil.copyfile(given, KEPT)
    PAGE.write_text(page(json.loads(KEPT.read_text())))


if __name__ == "__main__":
    main()
