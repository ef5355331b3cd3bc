"""All goldens: what makes each, and the files that they are kept in.

They are compared byte for byte. Times are sums and quotients of what the captures hold, in Python's own arithmetic
or exact in NumPy's, so that they do not depend on the machine.
"""

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

from tests.golden.api import public_api
from tests.golden.cli import public_commands, public_passes
from tests.golden.commands import COMMANDS, said
from tests.golden.kept import steps, unpack
from tests.golden.rewrites import rewrites
from tfwave import advise_overlap, load_bundle

EXPECTED = Path(__file__).with_name("expected")


@contextlib.contextmanager
def among_inputs() -> Iterator[None]:
    """Work in a directory that holds the graphs and bundles: what is said of them names no other path."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        unpack(Path(folder))
        yield


def _overlap(workers: int) -> str:
    return json.dumps(asdict(advise_overlap(load_bundle("bert_training"), workers)), indent=1) + "\n"


CASES: dict[str, Callable[[], str]] = {
    **{f"commands/{name}": partial(said, name) for name in COMMANDS},
    **{f"rewrites/{name}": partial(rewrites, name) for name in steps()},
    **{f"library/advise_overlap_{workers}": partial(_overlap, workers) for workers in (1, 4)},
    "api/python": public_api,
    "api/commands": public_commands,
    "api/passes": public_passes,
}
"""Golden -> its text, made in the directory of `among_inputs`."""


def golden(name: str) -> Path:
    """The file of a golden."""
    return EXPECTED / f"{name}.txt"
