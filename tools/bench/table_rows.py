"""Steps on tables of more and more rows, in one process: their time and memory must go by the batch alone.

Ways take turns, each on a table of its own with Adagrad's accumulators, and so do the numbers of rows:

    staged      `tfwave.embedding.staged`, as with a server
    workers     `Table(where="workers")` of a group of one worker

Peak is what a block takes beside what there was at its begin. Ids are any rows, so that a large table's are in no
cache of the processor; what that costs is in the ratio of times.

    tools/bench/table_rows.py
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tfwave.runtime.ports import reserved_ports
from tools.bench.interleaved import run_interleaved

WAYS = ("staged", "workers")
_CALL = 4
_RATE = 0.05


class Steps:
    """Steps of one way on one table."""

    def __init__(self, way: str, rows: int, width: int, batch: int, group: Any) -> None:
        import numpy as np
        import tensorflow

        from tfwave.embedding import Adagrad, Table

        self._tf: Any = tensorflow
        self._random = np.random.default_rng(rows)
        self._rows, self._batch = rows, batch
        variable = self._tf.Variable(self._tf.zeros([rows, width]), name=f"{way}_{rows}")
        held = {"where": "workers", "workers": group} if way == "workers" else {}
        self.table = Table(variable, Adagrad(_RATE), **held)
        self._run = self._on_workers() if held else self._staged()

    def block(self, count: int) -> dict[str, Any]:
        """Mean seconds of so many steps, and their peak in bytes."""
        batches = [self._random.integers(0, self._rows, self._batch) for _ in range(count)]
        before = reset_peak()
        begin = time.perf_counter()
        self._run(batches)
        seconds = time.perf_counter() - begin
        return {"seconds": seconds / count, "peak_bytes": peak() - before}

    def _on_workers(self) -> Callable[[Sequence[Any]], None]:
        tensorflow, table = self._tf, self.table

        @tensorflow.function(
            input_signature=[tensorflow.TensorSpec([None], tensorflow.int64)], autograph=False
        )
        def step(ids: Any) -> None:
            pulled = table.pull(ids)
            table.push(pulled, tensorflow.cos(pulled.rows))

        def run(batches: Sequence[Any]) -> None:
            for ids in batches:
                step(tensorflow.constant(ids))

        return run

    def _staged(self) -> Callable[[Sequence[Any]], None]:
        from tfwave.embedding import staged

        tensorflow = self._tf

        def step(embedded: Any, batch: Any) -> Any:
            return batch, {"table": tensorflow.cos(embedded["table"])}

        train = staged(step, {"table": self.table}, steps=_CALL)

        def run(batches: Sequence[Any]) -> None:
            ids = tensorflow.constant(batches)
            data = tensorflow.data.Dataset.from_tensor_slices(
                ({"table": ids}, tensorflow.zeros(len(batches)))
            )
            for call in train.calls(data):
                call.function(*call.args)

        return run


def reset_peak() -> int:
    """Forget this process's peak; bytes that it has now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak() -> int:
    """Most bytes since then."""
    return _status("VmHWM")


def _status(name: str) -> int:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """By way and rows, and how the most rows compare with the least."""
    from tfwave.embedding import Workers

    with reserved_ports(1) as (port,), Workers([f"127.0.0.1:{port}"], 0) as group:
        steps = {
            f"{way} {rows}": Steps(way, rows, given.width, given.batch, group)
            for way in WAYS
            for rows in sorted(given.rows)
        }
        for one in steps.values():
            one.block(_CALL)  # traces
        blocks = run_interleaved(
            {name: lambda one=one: one.block(given.steps) for name, one in steps.items()}, given.repeats
        )
    found: dict[str, dict[str, dict[str, Any]]] = {way: {} for way in WAYS}
    for name, own in blocks.items():
        way, _, rows = name.partition(" ")
        found[way][rows] = {
            "table_bytes": int(rows) * given.width * 4,
            "median_seconds": statistics.median(block["seconds"] for block in own),
            "blocks_seconds": [block["seconds"] for block in own],
            "peak_bytes": max(block["peak_bytes"] for block in own),
        }
    least, most = str(min(given.rows)), str(max(given.rows))
    ratios = {way: own[most]["median_seconds"] / own[least]["median_seconds"] for way, own in found.items()}
    return {"settings": vars(given), "ways": found, "time_most_over_least_rows": ratios}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[10**5, 10**6, 10**7])
    parser.add_argument("--width", type=int, default=4)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=32, help="of a block")
    parser.add_argument("--repeats", type=int, default=6)
    print(json.dumps(measure(parser.parse_args()), indent=1))
