"""Write the goldens of tests/golden again, from their inputs.

python tools/goldens.py [--inputs]

With --inputs the inputs are made again first: needs TensorFlow, root and a minute; all goldens change then.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.golden.cases import CASES, EXPECTED, among_inputs, golden


def main(arguments: Sequence[str]) -> None:
    """Write all goldens; those that have no case any more go."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", action="store_true", help="make the inputs again, too")
    if parser.parse_args(arguments).inputs:
        import_module("tests.golden.record").main()
    with among_inputs():
        made = {name: make() for name, make in CASES.items()}
    shutil.rmtree(EXPECTED, ignore_errors=True)
    for name, text in made.items():
        golden(name).parent.mkdir(parents=True, exist_ok=True)
        golden(name).write_text(text)
    print(f"{len(made)} goldens written to {EXPECTED}: read what git says has changed")


if __name__ == "__main__":
    main(sys.argv[1:])
