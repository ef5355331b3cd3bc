"""A process of its own, as the pool is there once for all that it runs: trains, captures, tells the pool's peaks.

python -m tests.numerics.memory.memory_job MODEL BUNDLES THREADS BATCHES...
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from tfwave.capture.session import capture_session
from tfwave.runtime.allocator import AllocatorSettings, one_region, set_up

LIMIT = 384 << 20
"""Bytes."""
WARMUP, STEPS, LATER = 4, 4, 3


def main(model: str, bundles: Path, threads: int, batches: list[int]) -> None:
    """For each batch, write a bundle, and the pool's peak in each step that was traced and in some that follow."""
    set_up(AllocatorSettings(LIMIT))
    tf: Any = import_module("tensorflow")
    one_region()
    config = tf.compat.v1.ConfigProto(
        inter_op_parallelism_threads=threads, intra_op_parallelism_threads=1, use_per_session_threads=True
    )
    for times in batches:
        peaks = _train(tf, model, times, config, bundles / str(times))
        told = {"traced": peaks[WARMUP : WARMUP + STEPS], "later": peaks[WARMUP + STEPS :]}
        sys.stdout.write(json.dumps(told) + "\n")


def _train(tf: Any, model: str, times: int, config: Any, out: Path) -> list[int]:
    peaks: list[int] = []
    with tf.Graph().as_default():
        built = import_module("tests.numerics.memory.memory_models").build(model, times)
        init = tf.compat.v1.global_variables_initializer()
        with tf.compat.v1.Session(config=config) as session:
            session.run(init)
            with capture_session(session, out=out, steps=STEPS, warmup=WARMUP):
                for _ in range(WARMUP + STEPS + LATER):
                    tf.config.experimental.reset_memory_stats("CPU:0")
                    session.run(built.fetches, built.feeds)
                    peaks.append(tf.config.experimental.get_memory_info("CPU:0")["peak"])
    return peaks


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), [int(text) for text in sys.argv[4:]])
