"""Random graphs as a user builds them: devices named, nothing cut yet."""

import random

from tests.graphs import SERVERS, WORKER
from tfwave.graph.item import GraphItem
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, GraphDef


def random_uncut(rng: random.Random) -> GraphItem:
    """Constants and sums on up to three servers and a worker, with control edges, in any order; one fetch."""
    graph = GraphDef()
    servers = SERVERS[: rng.randint(1, 3)]
    made: list[str] = []
    for i in range(rng.randint(2, 8)):
        node = graph.node.add(name=f"v{i}", op="Const", device=rng.choice(servers))
        node.attr["dtype"].type = DT_FLOAT
        node.attr["value"].tensor.dtype = DT_FLOAT
        node.attr["value"].tensor.float_val.append(rng.randint(1, 9))
        made.append(node.name)
    for i in range(rng.randint(2, 12)):
        inputs = rng.sample(made, min(len(made), rng.randint(1, 3)))
        device = WORKER if rng.random() < 0.8 else rng.choice(servers)
        node = graph.node.add(name=f"op{i}", op="AddN", input=inputs, device=device)
        node.attr["T"].type = DT_FLOAT
        node.attr["N"].i = len(inputs)
        if rng.random() < 0.3:
            node.input.append(f"^{rng.choice(made)}")
        made.append(node.name)
    total = graph.node.add(name="total", op="AddN", input=made, device=WORKER)
    total.attr["T"].type = DT_FLOAT
    total.attr["N"].i = len(made)
    shuffled = GraphDef(node=rng.sample(list(graph.node), len(graph.node)))
    return GraphItem(shuffled, fetches=("total:0",))
