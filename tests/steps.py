"""Training steps by hand, and at random: variables on a server, what reads and what updates them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tfwave.graph.item import GraphItem
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, AttrValue, GraphDef

FLOAT = AttrValue(type=DT_FLOAT)
SERVER, WORKER = "/job:ps/task:0", "/job:worker/task:0"


class Access(NamedTuple):
    variable: str
    node: str
    writes: bool


@dataclass
class Builder:
    """A step of training, node by node; remembers what touches which variable."""

    graph: GraphDef = field(default_factory=GraphDef)
    accesses: list[Access] = field(default_factory=list)

    def node(self, name: str, op: str, *inputs: str, device: str = "", **attrs: AttrValue) -> str:
        self.graph.node.add(name=name, op=op, input=inputs, device=device, attr=attrs)
        return name

    def const(self, name: str, *waits: str) -> str:
        value = AttrValue()
        value.tensor.dtype = DT_FLOAT
        value.tensor.float_val.append(1.0)
        return self.node(name, "Const", *waits, dtype=FLOAT, value=value)

    def handle(self, name: str, shared_name: str = "", device: str = SERVER) -> str:
        shape = AttrValue()
        shape.shape.SetInParent()
        named = AttrValue(s=(shared_name or name).encode())
        return self.node(name, "VarHandleOp", device=device, dtype=FLOAT, shape=shape, shared_name=named)

    def read(self, name: str, handle: str, *waits: str, variable: str = "", device: str = SERVER) -> str:
        self.accesses.append(Access(variable or handle, name, writes=False))
        return self.node(name, "ReadVariableOp", handle, *waits, device=device, dtype=FLOAT)

    def update(self, name: str, handle: str, value: str, *waits: str, variable: str = "") -> str:
        self.accesses.append(Access(variable or handle, name, writes=True))
        return self.node(name, "AssignSubVariableOp", handle, value, *waits, device=SERVER, dtype=FLOAT)

    def add(self, name: str, *inputs: str, device: str = WORKER) -> str:
        count = sum(not text.startswith("^") for text in inputs)
        return self.node(name, "AddN", *inputs, device=device, T=FLOAT, N=AttrValue(i=count))

    def item(self, *fetches: str, feeds: Sequence[str] = ()) -> GraphItem:
        return GraphItem(self.graph, tuple(feeds), fetches)


def layers(count: int = 2) -> Builder:
    """Weights that are read by one sum each; each update waits for the sum of all."""
    build = Builder()
    values = [build.node("x", "Placeholder", device=WORKER, dtype=FLOAT)]
    for i in range(count):
        build.handle(f"w{i}")
        build.read(f"read{i}", f"w{i}")
        values.append(build.add(f"layer{i}", values[-1], f"read{i}"))
    build.add("loss", *values)
    for i in reversed(range(count)):
        build.add(f"gradient{i}", "loss", values[i])
        build.update(f"update{i}", f"w{i}", f"gradient{i}")
    build.node("train", "NoOp", *(f"^update{i}" for i in range(count)))
    return build


def random_step(rng: random.Random) -> tuple[Builder, GraphItem]:
    """Reads and updates of some variables in any number and order, through one handle or two."""
    build = Builder()
    made = [build.const("c")]
    variables = [f"v{i}" for i in range(rng.randint(1, 4))]
    for variable in variables:
        build.handle(variable)
        build.handle(f"{variable}_too", variable)
    for i in range(rng.randint(2, 14)):
        data = rng.sample(made, min(len(made), rng.randint(1, 3)))
        waits = [
            f"^{n.node}" for n in rng.sample(build.accesses, min(len(build.accesses), rng.randint(0, 2)))
        ]
        variable = rng.choice(variables)
        handle = rng.choice((variable, f"{variable}_too"))
        kind = rng.random()
        if kind < 0.4:
            made.append(build.read(f"n{i}", handle, *waits, variable=variable))
        elif kind < 0.7:
            build.update(f"n{i}", handle, data[0], *waits, variable=variable)
        else:
            made.append(build.add(f"n{i}", *data, *waits))
    build.node("all", "NoOp", *(f"^{node.name}" for node in build.graph.node))
    shuffled = GraphDef(node=rng.sample(list(build.graph.node), len(build.graph.node)))
    return build, GraphItem(shuffled, fetches=("all",))
