"""A process with a limited pool, which takes memory until it gets no more: says on its last line what it got.

python -m tools.gpu.allocator_task cpu|gpu BYTES [--no-growth] [--asynchronous]
"""

import argparse
import json
from importlib import import_module
from typing import Any

from tfwave.colocate import limit_memory
from tools.gpu.gpus import used_mb

MODULE = "tools.gpu.allocator_task"
PIECES = 32
"""Of the limit; twice as many are asked for."""


def main() -> None:
    """Take and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", choices=("cpu", "gpu"))
    parser.add_argument("limit", type=int)
    parser.add_argument("--no-growth", action="store_true")
    parser.add_argument("--asynchronous", action="store_true")
    given = parser.parse_args()
    before = used_mb()
    said = limit_memory(
        given.limit, device=given.device, growth=not given.no_growth, asynchronous=given.asynchronous
    )
    tf: Any = import_module("tensorflow")
    device = f"{given.device.upper()}:0"
    with tf.device(device):
        kept = [tf.zeros([16])]
        begun = used_mb()
        got = taken(tf, kept, given.limit // PIECES)
    told = {
        "said": said,
        "got_bytes": got,
        "of_limit": got / given.limit,
        "peak": tf.config.experimental.get_memory_info(device)["peak"],
        "machine_mb": {"before": before, "begun": begun, "full": used_mb()},
    }
    print(json.dumps(told))


def taken(tf: Any, kept: list[Any], piece: int) -> int:
    """The bytes that were given, in pieces, up to twice the limit."""
    for number in range(2 * PIECES):
        try:
            kept.append(tf.zeros([piece // 4]))
            kept[-1][-1].numpy()
        except tf.errors.ResourceExhaustedError:
            return number * piece
    return 2 * PIECES * piece


if __name__ == "__main__":
    main()
