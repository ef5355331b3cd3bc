"""One host of tools/bench/reduce.py: `reduce_task.py MODE ADDRESSES RANK SIZE REDUCES`; prints seconds as JSON."""

import json
import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from tfwave.reduce.member import Member
from tfwave.reduce.place import Place
from tfwave.reduce.service import Coordinator
from tfwave.runtime.control.credentials import Credentials

PORT = 24444


@contextmanager
def tfwave_ring(addresses: list[str], rank: int, size: int) -> Generator[Callable[[], None]]:
    """Sum by a member of tfwave's."""
    token = Credentials("only-for-this-benchmark")
    place = Place.given([f"{address}:{PORT}" for address in addresses], rank)
    with ExitStack() as stack:
        if place.is_coordinator:
            stack.enter_context(Coordinator(place.listen, token))
        member = stack.enter_context(Member(place.options(probes="all", credentials=token), size))
        member.join(b"")
        values = np.full(size, rank + 1, np.float32)

        def reduce() -> None:
            (update,) = member.exchange(values)
            check(update.values, len(addresses))

        yield reduce
        list(member.drain(bytes))


@contextmanager
def collective(addresses: list[str], rank: int, size: int) -> Generator[Callable[[], None]]:
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
    with tensorflow.device(f"/job:worker/task:{rank}/device:CPU:0"):
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


def check(values: Any, members: int) -> None:
    """The first and last elements are sums."""
    if not values[0] == values[-1] == members * (members + 1) / 2:
        sys.exit("the sum is wrong")


def main() -> None:
    """Reduce some times, print how long each took, and leave at once: TensorFlow's threads would hold on."""
    mode, addresses, rank, size, reduces = sys.argv[1:]
    ways = {"tfwave": tfwave_ring, "tensorflow": collective}
    seconds = list[float]()
    with ways[mode](addresses.split(","), int(rank), int(size)) as reduce:
        for _ in range(int(reduces)):
            begin = time.perf_counter()
            reduce()
            seconds.append(time.perf_counter() - begin)
    print(json.dumps(seconds), flush=True)
    time.sleep(1)
    os._exit(0)


if __name__ == "__main__":
    main()
