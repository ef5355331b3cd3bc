"""Model parallel training steps by hand, and at random: partitions on devices of their own."""

import random
from dataclasses import dataclass

from tests.steps import FLOAT, Builder
from tfwave.graph.item import GraphItem

F, B = "F", "B"


def device(number: int) -> str:
    return f"/job:localhost/replica:0/task:0/device:CPU:{number}"


def update(build: Builder, number: int, gradient: str, place: int | None = None) -> str:
    """Of a weight by its number, on the device of that number, or of another."""
    at = device(number if place is None else place)
    return build.node(
        f"update{number}", "AssignSubVariableOp", f"w{number}", gradient, device=at, dtype=FLOAT
    )


def initialise(build: Builder) -> None:
    """What gives each variable its first value, where the variable is."""
    for node in [node for node in build.graph.node if node.op == "VarHandleOp"]:
        value = build.const(f"{node.name}/value")
        build.node(
            f"{node.name}/Assign", "AssignVariableOp", node.name, value, device=node.device, dtype=FLOAT
        )


def layer(build: Builder, number: int, *inputs: str) -> str:
    """A weight on a device, and what adds it to its inputs there."""
    build.handle(f"w{number}", device=device(number))
    build.read(f"read{number}", f"w{number}", device=device(number))
    return build.add(f"layer{number}", *inputs, f"read{number}", device=device(number))


def parted(count: int = 3) -> Builder:
    """A chain of partitions with a layer each: ``read0, layer0, ..., loss``, then ``..., back1, back0``."""
    build = Builder()
    made = [build.node("x", "Placeholder", dtype=FLOAT)]
    for number in range(count):
        made.append(layer(build, number, made[-1]))
    made.append(build.add("loss", made[-1], device=device(count - 1)))
    for number in reversed(range(count)):
        made.append(build.add(f"back{number}", made[-1], f"layer{number}", device=device(number)))
        update(build, number, made[-1])
    build.node("train", "NoOp", *(f"^update{number}" for number in range(count)))
    initialise(build)
    return build


def cells_of(count: int) -> dict[tuple[str, int], set[str]]:
    """What of `parted` passes each partition, forward and backward."""
    found = {(F, p): {f"read{p}", f"layer{p}"} for p in range(count)}
    found[F, count - 1].add("loss")
    return found | {(B, p): {f"back{p}"} for p in range(count)}


def by_device(count: int, waves: int) -> list[list[tuple[str, int, int]]]:
    """Per device (direction, partition, wave) by cycle, by the paper's rule: on to p + 1 and b - 1."""
    table: list[list[tuple[str, int, int]]] = []
    for number in range(count):
        forward = [(F, cycle, (number - cycle) % count) for cycle in range(count)]
        both = [*forward, *((B, p, b) for _, p, b in reversed(forward))]
        table.append([one for one in both if one[2] < waves])
    return table


@dataclass(frozen=True)
class RandomModel:
    """A random step: the devices of its partitions in their order, and what of it passes each partition."""

    item: GraphItem
    devices: tuple[int, ...]
    cells: dict[tuple[str, int], set[str]]


def random_parted(rng: random.Random) -> RandomModel:
    """Several ops a partition, connections that skip some, nodes on no device, clipping at times."""
    count = rng.randint(2, 5)
    model = _Grower(rng, tuple(rng.sample(range(count), count)))
    for p in range(count):
        model.forward(p)
    model.loss()
    gradients = {p: model.backward(p) for p in reversed(range(count))}
    if rng.random() < 0.3:
        model.build.add("norm", *gradients.values(), device=device(rng.randrange(count)))
        for p, gradient in gradients.items():
            gradients[p] = model.build.add(f"clipped{p}", gradient, "norm", device=model.place(p))
    for p, gradient in gradients.items():
        update(model.build, p, gradient, model.devices[p])
    return model.finished()


@dataclass
class _Grower:
    rng: random.Random
    devices: tuple[int, ...]

    def __post_init__(self) -> None:
        self.build = Builder()
        self.made = [self.build.node("x", "Placeholder", dtype=FLOAT)]
        self.cells: dict[tuple[str, int], set[str]] = {}

    def place(self, p: int) -> str:
        return device(self.devices[p])

    def some(self, least: int) -> list[str]:
        """Of what the forward pass made so far, without what is fed."""
        return self.rng.sample(self.made[1:], min(len(self.made) - 1, self.rng.randint(least, 2)))

    def forward(self, p: int) -> None:
        self.build.handle(f"w{p}", device=self.place(p))
        last = self.build.read(f"read{p}", f"w{p}", device=self.place(p))
        self.cells[F, p] = {last}
        for i in range(self.rng.randint(1, 4)):
            place = self.place(p) if not i or self.rng.random() < 0.8 else ""
            taken = [last, self.made[-1], *self.some(0)]
            last = self.build.add(f"forward{p}_{i}", *taken, device=place)
            self.made.append(last)
            self.cells[F, p] |= {last} if place else set()

    def loss(self) -> None:
        place = self.rng.choice((self.place(len(self.devices) - 1), ""))
        self.build.add("loss", *self.made[1:], device=place)
        self.cells[F, len(self.devices) - 1] |= {"loss"} if place else set()
        self.last = "loss"

    def backward(self, p: int) -> str:
        """The gradient of a partition."""
        self.cells[B, p] = set()
        for i in range(self.rng.randint(1, 3)):
            self.last = self.build.add(f"back{p}_{i}", self.last, *self.some(1), device=self.place(p))
            self.cells[B, p].add(self.last)
        return self.last

    def finished(self) -> RandomModel:
        nodes = self.build.graph.node
        self.build.node("train", "NoOp", *(f"^update{p}" for p in range(len(self.devices))))
        initialise(self.build)
        shuffled = self.rng.sample(list(nodes), len(nodes))
        del nodes[:]
        nodes.extend(shuffled)
        return RandomModel(self.build.item("loss:0", "train", feeds=["x:0"]), self.devices, self.cells)
