"""A process of its own in a small pool: runs a step from a file, and tells its losses, or that there was no room.

python -m tests.numerics.memory.fitted_small GRAPH MEBIBYTES STEPS
"""

import json
import os
import sys
from pathlib import Path

from tfwave.runtime.allocator import AllocatorSettings, one_region, set_up

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
set_up(AllocatorSettings(int(sys.argv[2]) << 20))

import tensorflow as tf  # noqa: E402

from tfwave.runtime.stash import load_stash_ops  # noqa: E402

v1 = tf.compat.v1


def main(graph: Path, steps: int) -> None:
    """Grappler is off."""
    one_region()
    load_stash_ops()
    config = v1.ConfigProto(
        inter_op_parallelism_threads=2, intra_op_parallelism_threads=1, use_per_session_threads=True
    )
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    tf.import_graph_def(v1.GraphDef.FromString(graph.read_bytes()), name="")
    losses: list[str] = []
    with v1.Session(config=config) as session:
        try:
            session.run("init")
            losses = [float(session.run(["loss:0", "train"])[0]).hex() for _ in range(steps)]
        except tf.errors.ResourceExhaustedError:
            losses = []
    sys.stdout.write(json.dumps({"losses": losses}))


if __name__ == "__main__":
    with tf.Graph().as_default():
        main(Path(sys.argv[1]), int(sys.argv[3]))
