"""One rank of all_to_all.py: `all_to_all_task.py RANK ADDRESSES SETTINGS`, the latter two in JSON.

Prints as JSON, by mode, when its exchanges began and ended: {"in_time": {mode: [block: [Exchange]]},
"late": {mode: [[Exchange in time, with the last rank late]]}}. Ranks read the same clock.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.embedding.workers import Workers
from tfwave.runtime.control.credentials import Credentials
from tools.bench.interleaved import run_interleaved

UNEVEN, EVEN, TENSORFLOW = MODES = ("uneven", "even", "tensorflow")
ROW_BYTES = 256
TIMEOUT = 60.0
_WIDTH = ROW_BYTES // 4


class Exchange(NamedTuple):
    """When it began, when all splits had come, and when those of an exchange among the others had; seconds."""

    begin: float
    end: float
    among: float


def counts_of(mode: str, ranks: int, size: int) -> list[int]:
    """How many of so many rows, or bytes, each rank gets of any rank's array."""
    weights = [ranks - rank if mode == UNEVEN else 1 for rank in range(ranks)]
    counts = [size * weight // sum(weights) for weight in weights]
    return [counts[0] + size - sum(counts), *counts[1:]]


class Rank:
    """This rank."""

    def __init__(self, rank: int, addresses: Sequence[Sequence[str]], settings: dict[str, Any]) -> None:
        """`addresses`: of each rank one for tfwave, and one for TensorFlow."""
        import tensorflow

        self._tf: Any = tensorflow
        self._rank, self._ranks, self._settings = rank, len(addresses), settings
        self._rows = settings["bytes"] // ROW_BYTES
        self._device = f"/job:worker/task:{rank}/device:CPU:0"
        self._join_collectives([own[1] for own in addresses])
        self._group = Workers(
            [own[0] for own in addresses],
            rank,
            credentials=Credentials("only-for-this-benchmark"),
            deadline=TIMEOUT,
        )
        self._functions: dict[str, Callable[..., Any]] = {}
        self._keys = count(1)

    def measured(self) -> dict[str, Any]:
        """All that is to be printed."""
        with self._tf.device(self._device):
            blocks = {mode: lambda mode=mode: self._block(mode) for mode in MODES}
            in_time = run_interleaved(blocks, self._settings["repeats"])
            late = {mode: lambda mode=mode: self._late(mode) for mode in MODES}
            pairs = run_interleaved(late, self._settings["repeats"])
            self._wait_for_all()
        return {
            "in_time": in_time,
            "late": {mode: [pair for block in own for pair in block] for mode, own in pairs.items()},
        }

    def _join_collectives(self, addresses: Sequence[str]) -> None:
        from tensorflow.core.protobuf import tensorflow_server_pb2  # pyright: ignore
        from tensorflow.python.eager import context  # pyright: ignore

        leader = "/job:worker/replica:0/task:0"
        live: Any = context.context()
        live.configure_collective_ops(collective_leader=leader, use_nccl_communication=False)
        server: Any = tensorflow_server_pb2
        definition = server.ServerDef(
            cluster=self._tf.train.ClusterSpec({"worker": list(addresses)}).as_cluster_def(),
            job_name="worker",
            task_index=self._rank,
            protocol="grpc",
        )
        definition.default_session_config.experimental.collective_group_leader = leader
        live.enable_collective_ops(definition)

    def _block(self, mode: str) -> list[Exchange]:
        """After a first one, which is not counted."""
        exchange = self._even_of_tensorflow if mode == TENSORFLOW else self._own
        counts = counts_of(mode, self._ranks, self._rows)
        found: list[Exchange] = []
        for _ in range(1 + self._settings["exchanges"]):
            self._wait_for_all()
            found.append(exchange(counts))
        return found[1:]

    def _late(self, mode: str) -> list[list[Exchange]]:
        """After a first one of each kind, which is not counted."""
        found: list[list[Exchange]] = []
        for _ in range(1 + self._settings["exchanges"] // 2):
            found.append([])
            for seconds in (0.0, self._settings["late"]):
                self._wait_for_all()
                found[-1].append(self._with_one_late(mode, seconds))
        return found[1:]

    def _with_one_late(self, mode: str, seconds: float) -> Exchange:
        is_late = self._rank == self._ranks - 1
        counts = counts_of(mode, self._ranks, self._rows)
        if mode != UNEVEN:
            time.sleep(seconds if is_late else 0)
            return (self._even_of_tensorflow if mode == TENSORFLOW else self._own)(counts)
        if is_late:  # it has sent, before it is late, that it has nothing for the exchange among the others
            self._called("among", [0] * self._ranks)
            time.sleep(seconds)
            return self._own([1] * self._ranks)
        return self._both([1] * self._ranks, [*counts_of(mode, self._ranks - 1, self._rows), 0])

    def _own(self, counts: Sequence[int]) -> Exchange:
        return self._timed("all", counts, self._ranks)

    def _timed(self, tag: str, counts: Sequence[int], senders: int) -> Exchange:
        arguments = self._arguments(counts)
        begin = time.time()
        self._check(self._function(tag)(*arguments), senders)
        end = time.time()
        return Exchange(begin, end, end)

    def _both(self, counts: Sequence[int], others: Sequence[int]) -> Exchange:
        """An exchange of all ranks, and at once one without the last, in another thread: a function takes turns."""
        with ThreadPoolExecutor(1) as threads:
            among = threads.submit(self._without_the_last, others)
            whole = self._own(counts)
            return Exchange(min(whole.begin, among.result().begin), whole.end, among.result().end)

    def _without_the_last(self, counts: Sequence[int]) -> Exchange:
        with self._tf.device(self._device):
            return self._timed("among", counts, self._ranks - 1)

    def _called(self, tag: str, counts: Sequence[int]) -> None:
        self._function(tag)(*self._arguments(counts))

    def _arguments(self, counts: Sequence[int]) -> tuple[Any, Any]:
        rows = self._tf.fill([sum(counts), _WIDTH], float(self._rank))
        return rows, self._tf.constant(counts, self._tf.int64)

    def _function(self, tag: str) -> Callable[..., Any]:
        """What exchanges rows and gives the first number of each split."""
        if tag not in self._functions:
            tensorflow = self._tf

            def firsts(value: Any, counts: Any) -> Any:
                came = self._group.exchange.exchange(value, counts, tag)
                return tensorflow.concat([split[:1, 0] for split in came], 0)

            spec = [tensorflow.TensorSpec([None, _WIDTH]), tensorflow.TensorSpec([None], tensorflow.int64)]
            self._functions[tag] = tensorflow.function(firsts, input_signature=spec, autograph=False)
        return self._functions[tag]

    def _even_of_tensorflow(self, counts: Sequence[int]) -> Exchange:
        value = self._tf.fill([self._ranks, counts[0] * _WIDTH], float(self._rank))
        begin = time.time()
        came = self._tf.raw_ops.CollectiveAllToAllV2(
            input=value,
            group_size=self._ranks,
            group_key=1,
            instance_key=next(self._keys),
            ordering_token=[],
            timeout_seconds=TIMEOUT,
        )
        self._check(came[:, 0], self._ranks)
        end = time.time()
        return Exchange(begin, end, end)

    def _check(self, firsts: Any, senders: int) -> None:
        """What came is from each of so many ranks, in turn."""
        if firsts.numpy().tolist() != list(range(senders)):
            sys.exit(f"rank {self._rank} has other splits than were sent: {firsts.numpy()}")

    def _wait_for_all(self) -> None:
        self._called("barrier", [1] * self._ranks)


def main() -> None:
    """Exchange, print when, and leave at once: TensorFlow's threads would hold on."""
    rank, addresses, settings = sys.argv[1:]
    print(json.dumps(Rank(int(rank), json.loads(addresses), json.loads(settings)).measured()), flush=True)
    time.sleep(1)
    os._exit(0)


if __name__ == "__main__":
    main()
