"""A small executor: it runs ops one by one, counts the references to each buffer, and writes what TensorFlow would.

What it says of the memory is what happened to its own pool, byte by byte: it knows nothing of readers to come.
"""

import random
from collections import Counter
from dataclasses import dataclass, field

from tests.memory_steps import Step
from tfwave.proto.tensorflow_pb2 import GraphDef

KINDS = ("Fill", "Fill", "Conv2D", "Relu", "Identity", "Split", "Const", "ReadVariableOp", "Keep", "Give")
MICROS = 100
"""From one op's begin to the next one's."""


@dataclass
class Pool:
    """First fit by address; the sum of what is allocated, after each change."""

    global_numbers: bool
    used: dict[int, int] = field(default_factory=dict)
    total: int = 0
    peak: int = 0
    number: int = 0

    def take(self, size: int) -> int:
        address = 64
        while any(address < a + s and a < address + size for a, s in self.used.items()):
            address = min(a + s for a, s in self.used.items() if a + s > address)
        self.used[address] = size
        self.total += size
        self.peak = max(self.peak, self.total)
        self.number += 1
        return address

    def give(self, address: int) -> None:
        self.total -= self.used.pop(address)


@dataclass
class Buffer:
    size: int
    address: int
    number: int
    owner: int
    references: int = 0


@dataclass
class Executed:
    graph: GraphDef
    step: Step
    peak: int
    left: int
    resident: int


class Executor:
    """Draws a step and runs it."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.pool = Pool(rng.random() < 0.5)
        self.kinds = [rng.choice(KINDS) for _ in range(rng.randint(1, 25))]
        self.graph = GraphDef()
        self.tensors: dict[str, Buffer] = {}
        self.pending: Counter[str] = Counter()
        self.list: list[Buffer] = []
        self.records: list[list[tuple[int, int]]] = []
        self.resident: dict[int, int] = {}

    def execute(self) -> Executed:
        wired = self._wire()
        step = Step()
        rows = [self._run(i, name, kind, inputs) for i, (name, kind, inputs) in enumerate(wired)]
        for i, (name, outputs, allocated, most) in enumerate(rows):
            step.run(
                name,
                i * MICROS,
                *outputs,
                lasts=50,
                allocated=allocated,
                freed=self.records[i],
                most=most,
            )
        return Executed(self.graph, step, self.pool.peak, self.pool.total, sum(self.resident.values()))

    def _wire(self) -> list[tuple[str, str, list[str]]]:
        """Who reads what, before anything runs."""
        made: list[str] = []
        wired: list[tuple[str, str, list[str]]] = []
        for i, kind in enumerate(self.kinds):
            name = f"n{i}"
            takes = kind in ("Relu", "Identity", "Split", "Keep", "Conv2D")
            inputs = self.rng.choices(made, k=self.rng.randint(1, 3)) if takes and made else []
            wired.append((name, "Fill" if takes and not inputs else kind, inputs))
            made += [name, f"{name}:1"][: {"Split": 2, "Keep": 0}.get(wired[-1][1], 1)]
        if made and self.rng.random() < 0.5:
            wired.append(("out", "_Retval", [self.rng.choice(made)]))
        for name, kind, inputs in wired:
            op = {"Keep": "TensorListPushBack", "Give": "TensorListPopBack"}.get(kind, kind)
            self.graph.node.add(name=name, op=op, input=inputs)
            self.pending.update(inputs)
        for node in self.graph.node:
            node.device = Step().device
        return wired

    def _run(self, i: int, name: str, kind: str, inputs: list[str]) -> tuple[str, list, list[int], int]:
        self.records.append([])
        reads = [self.tensors[text] for text in inputs]
        self._numbers = 0
        before, self.pool.peak, high = self.pool.total, self.pool.total, self.pool.peak
        scratch = [self._new(i) for _ in range(self.rng.randint(0, 2) if kind == "Conv2D" else 0)]
        early = scratch if self.rng.random() < 0.5 else []
        for buffer in early:
            self._free(i, buffer, 10)
        outputs = self._outputs(i, kind, reads)
        for buffer in scratch:
            if buffer not in early:
                self._free(i, buffer, 20)
        most, self.pool.peak = self.pool.peak - before, max(high, self.pool.peak)
        allocated = [b.size for b in (*scratch, *outputs) if b.owner == i]
        names = [name, f"{name}:1"][: len(outputs)]
        for text, buffer in zip(names, outputs, strict=True):
            self.tensors[text] = buffer
            buffer.references += self.pending[text]
        for buffer in reads:
            buffer.references -= kind != "_Retval"  # the caller's from now on
        for buffer in {id(b): b for b in (*reads, *outputs)}.values():
            self._free_unless_used(i, buffer)
        return name, [(b.size, b.address, b.number) for b in outputs], allocated, most

    def _outputs(self, i: int, kind: str, reads: list[Buffer]) -> list[Buffer]:
        if kind in ("Fill", "Conv2D"):
            return [self._new(i)]
        if kind == "Split":
            size = self.rng.randint(1, 9)
            return [self._new(i, size), self._new(i, size)]
        if kind in ("Relu", "Identity"):
            return [reads[0]]
        if kind in ("Const", "ReadVariableOp"):
            return [self._state(i, kind)]
        if kind == "Keep":
            self._keep(reads[0])
        if kind == "Give" and self.list:
            kept = self.list.pop()
            kept.references -= 1
            return [kept]
        return [self._new(i)] if kind == "Give" else []

    def _keep(self, buffer: Buffer) -> None:
        buffer.references += 1
        self.list.append(buffer)

    def _state(self, i: int, kind: str) -> Buffer:
        """One of two variables, or a constant of its own; outside the pool, in every step."""
        address = -1 - (self.rng.randint(0, 1) if kind == "ReadVariableOp" else 10 + i)
        size = self.resident.setdefault(address, self.rng.randint(1, 99))
        return Buffer(size, -address << 40, 0, owner=-1, references=1)

    def _new(self, i: int, size: int = 0) -> Buffer:
        size = size or self.rng.randint(1, 99)
        address = self.pool.take(size)
        self._numbers += 1
        return Buffer(size, address, self.pool.number if self.pool.global_numbers else self._numbers, i)

    def _free(self, now: int, buffer: Buffer, at: int) -> None:
        self.pool.give(buffer.address)
        self.records[buffer.owner].append((now * MICROS + at, buffer.size))

    def _free_unless_used(self, i: int, buffer: Buffer) -> None:
        if buffer.references == 0 and buffer.owner >= 0:
            buffer.references = -1
            self._free(i, buffer, 49)
