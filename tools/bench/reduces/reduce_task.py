"""One host of tools/bench/reduces/reduce.py: `reduce_task.py MODE ADDRESSES RANK REDUCES BYTES...`.

Prints as JSON, for each number of bytes, seconds of the reduces and what a reduce took of the processor here.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import numpy as np

from tfwave.reduce.member import Member
from tfwave.reduce.place import Place
from tfwave.reduce.service import Coordinator
from tfwave.runtime.control.credentials import Credentials

PORT = 24444


Reduce = Callable[[], None]


@contextmanager
def tfwave_ring(
    addresses: list[str], rank: int
) -> Generator[Callable[[int], AbstractContextManager[Reduce]]]:
    """Sum by a member of tfwave's, one for each size."""
    token = Credentials("only-for-this-benchmark")
    place = Place.given([f"{address}:{PORT}" for address in addresses], rank)
    options = place.options(probes="all", credentials=token)

    @contextmanager
    def of_size(size: int) -> Generator[Reduce]:
        with Member(options, size) as member:
            member.join(b"")
            values = np.full(size, rank + 1, np.float32)

            def reduce() -> None:
                (update,) = member.exchange(values)
                check(update.values, len(addresses))

            yield reduce
            list(member.drain(bytes))

    with Coordinator(place.listen, token) if place.is_coordinator else nullcontext():
        yield of_size


@contextmanager
def collective(addresses: list[str], rank: int) -> Generator[Callable[[int], AbstractContextManager[Reduce]]]:
    """Sum by TensorFlow's ring."""
    tensorflow: Any = __import__("tensorflow")
    from tensorflow.core.protobuf import tensorflow_server_pb2  # pyright: ignore
    from tensorflow.python.eager import context  # pyright: ignore

    leader = "/job:worker/replica:0/task:0"
    live: Any = context.context()
    live.configure_collective_ops(collective_leader=leader, use_nccl_communication=False)
    spec = tensorflow.train.ClusterSpec({"worker": [f"{address}:{PORT}" for address in addresses]})
    server: Any = tensorflow_server_pb2
    definition = server.ServerDef(
        cluster=spec.as_cluster_def(), job_name="worker", task_index=rank, protocol="grpc"
    )
    definition.default_session_config.experimental.collective_group_leader = leader
    live.enable_collective_ops(definition)
    keys = iter(range(1, 1 << 30))

    @contextmanager
    def of_size(size: int) -> Generator[Reduce]:
        values = tensorflow.fill([size], float(rank + 1))

        def reduce() -> None:
            summed = tensorflow.raw_ops.CollectiveReduceV2(
                input=values,
                group_size=len(addresses),
                group_key=1,
                instance_key=next(keys),
                ordering_token=[],
                merge_op="Add",
                final_op="Id",
                communication_hint="ring",
            )
            check(summed.numpy(), len(addresses))

        yield reduce

    with tensorflow.device(f"/job:worker/task:{rank}/device:CPU:0"):
        yield of_size


def check(values: Any, members: int) -> None:
    """The first and last elements are sums."""
    if not values[0] == values[-1] == members * (members + 1) / 2:
        sys.exit("the sum is wrong")


def measured(reduce: Reduce, count: int) -> dict[str, Any]:
    """Seconds of each but the first, and of the processor in the mean."""
    reduce()
    seconds = list[float]()
    busy = time.process_time()
    for _ in range(count):
        begin = time.perf_counter()
        reduce()
        seconds.append(time.perf_counter() - begin)
    return {"seconds": seconds, "processor_seconds": (time.process_time() - busy) / count}


def main() -> None:
    """Reduce some times, print what it took, and leave at once: TensorFlow's threads would hold on."""
    mode, addresses, rank, reduces, *sizes = sys.argv[1:]
    ways = {"tfwave": tfwave_ring, "tensorflow": collective}
    found = dict[str, Any]()
    with ways[mode](addresses.split(","), int(rank)) as of_size:
        for size in sizes:
            with of_size(int(size) // 4) as reduce:
                found[size] = measured(reduce, int(reduces))
    print(json.dumps(found), flush=True)
    time.sleep(1)
    os._exit(0)


if __name__ == "__main__":
    main()
