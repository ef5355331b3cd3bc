"""Fuzz tfwave for some minutes: graphs, pipelines, files, commands and peers; the checks are those of tests/fuzz.

python tools/fuzz.py [--minutes 10] [--seeds 1000000] [--seed 0] [--only SEED]

It may take 4 GiB. Prints each new kind of failure once, with the seed that shows it again (--only); exit code 1 if
there was any.
"""

import argparse
import logging
import random
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.fuzz.documents import check_documents
from tests.fuzz.files import check_commands
from tests.fuzz.invariants import Hang, check_graph, check_text
from tests.fuzz.orders import any_orders, check_bytes, check_orders
from tests.fuzz.peers import Target, check_answers, check_control, check_reduces, control_target
from tests.fuzz.requests import any_tensor_request, check_calls, check_tensor_request
from tests.fuzz.strategies import any_graph, any_pipeline

ROOT = Path(__file__).resolve().parents[1]
MEMORY = 4 << 30


def main(arguments: Sequence[str]) -> None:
    """Run seed after seed until the time is up."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seeds", type=int, default=1_000_000, help="At most so many.")
    parser.add_argument("--seed", type=int, default=0, help="The first seed.")
    parser.add_argument("--only", type=int, help="Run this seed, with its traceback.")
    options = parser.parse_args(arguments)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    logging.disable()  # of what is refused
    with control_target() as target:
        if options.only is not None:
            run(options.only, target)
            return
        found, seeds = _run_all(range(options.seed, options.seed + options.seeds), options.minutes, target)
    good = found.pop("", 0)
    print(f"{seeds} seeds: {good} good, {found.total()} failures of {len(found)} kinds")
    sys.exit(bool(found))


def _run_all(seeds: range, minutes: float, target: Target) -> tuple[Counter[str], int]:
    """How often which failure was found ("": none), and in how many seeds."""
    found: Counter[str] = Counter()
    end = time.monotonic() + minutes * 60
    for seed in seeds:
        if time.monotonic() >= end:
            break
        failure = _failure(seed, target)
        if failure and not found[failure]:
            print(f"seed {seed}: {failure}", flush=True)
        found[failure] += 1
    return found, found.total()


def run(seed: int, target: Target) -> None:
    """All checks with one seed; `target` is the control service that is called."""
    rng = random.Random(seed)
    graph = any_graph(rng)
    check_graph(rng, graph, any_graph(rng))
    check_text(any_pipeline(rng, graph))
    with tempfile.TemporaryDirectory() as folder:
        check_commands(rng, Path(folder))
        check_documents(rng, Path(folder))
    check_peers(rng, target)


def check_peers(rng: random.Random, target: Target) -> None:
    """What peers say; orders take longer than all else, as members wait for each other."""
    check_control(rng, target)
    check_answers(rng)
    check_reduces(rng)
    check_bytes(rng)
    check_tensor_request(any_tensor_request(rng))
    check_calls(rng)
    if rng.random() < 0.05:
        check_orders(any_orders(rng))


def _failure(seed: int, target: Target) -> str:
    """What went wrong and where; empty if nothing did."""
    try:
        run(seed, target)
    except (Exception, Hang) as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if frame.filename.startswith(str(ROOT))][-1]
        text = str(error)[:100] if isinstance(error, AssertionError) else ""
        return f"{type(error).__name__} at {own.filename}:{own.lineno} {text}"
    return ""


if __name__ == "__main__":
    main(sys.argv[1:])
