"""A process of its own in a limited pool: variables that begin as constants, as they are, and in their own buffers.

It tells the losses, and how many bytes the steps take for good.

python -m tests.numerics.memory.owned_job
"""

import json
import sys
from typing import Any

from tfwave.runtime.allocator import AllocatorSettings, one_region, set_up

set_up(AllocatorSettings(64 << 20))

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from tfwave.graph.item import GraphItem  # noqa: E402
from tfwave.graph.rewriter import GraphRewriter  # noqa: E402
from tfwave.proto.tensorflow_pb2 import GraphDef  # noqa: E402
from tfwave.rewrite.fitted.owned import own_buffers  # noqa: E402

v1 = tf.compat.v1
VARIABLES, FLOATS, STEPS = 32, 1 << 14, 3


def described() -> GraphItem:
    """A step of variables of 64 KiB each, every other one behind another name of its constant."""
    with tf.Graph().as_default() as graph:
        losses: list[Any] = []
        for number in range(VARIABLES):
            first = tf.constant(np.linspace(0, number, FLOATS, dtype=np.float32))
            variable = v1.Variable(tf.identity(first) if number % 2 else first, use_resource=True)
            losses.append(tf.reduce_sum(tf.square(variable)))
        loss = tf.add_n(losses, name="loss")
        v1.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
        tf.group(v1.global_variables_initializer(), name="init")
    return GraphItem(GraphDef.FromString(graph.as_graph_def().SerializeToString()))


def owned(item: GraphItem) -> GraphItem:
    rewriter = GraphRewriter(item)
    own_buffers(rewriter, ())
    return rewriter.finish()


def ran(item: GraphItem, optimizer: bool) -> dict[str, Any]:
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = not optimizer
    with tf.Graph().as_default() as graph, v1.Session(graph=graph, config=config) as session:
        tf.import_graph_def(v1.GraphDef.FromString(item.graph.SerializeToString()), name="")
        session.run("init")
        before = held()
        losses = [float(session.run(["loss:0", "train"])[0]).hex() for _ in range(STEPS)]
        return {"losses": losses, "grown": held() - before}


def held() -> int:
    """Bytes of the pool."""
    return tf.config.experimental.get_memory_info("CPU:0")["current"]


def main() -> None:
    """With TensorFlow's optimizer off, and on; and the bytes of all variables."""
    one_region()
    item = described()
    ran_with = {
        name: [ran(each, optimizer) for each in (item, owned(item))]
        for name, optimizer in (("off", False), ("on", True))
    }
    sys.stdout.write(json.dumps({"bytes": 4 * FLOATS * VARIABLES, **ran_with}))


if __name__ == "__main__":
    main()
