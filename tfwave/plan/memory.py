"""The section of a plan on a step in a limited memory."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfwave.errors import PlanError
from tfwave.graph.names import parse_input
from tfwave.plan.fingerprint import GraphPrint

OFFLOAD, RECOMPUTE = "offload", "recompute"
METHODS = (OFFLOAD, RECOMPUTE)
_LABELS = {OFFLOAD: "host", RECOMPUTE: "again"}
PIECE = 256
"""Bytes: places begin at a multiple of these."""


@dataclass(frozen=True)
class AwayTensor:
    """A tensor that is away between its last use in the forward pass and its first in the backward pass.

    Attributes:
        names: ``node:port`` of all that lie in its buffer, one after the other.
        bytes: of that.
        method: how it comes back: `OFFLOAD` copies it to the host and back, `RECOMPUTE` makes it again.
        after: the last op of the forward pass that uses it, behind which it leaves.
        gone: the op that needs its bytes: it begins when they are free.
        back: the op before which it is fetched, or made again: its bytes are held from there on.
        wanted: the first op of the backward pass that uses it.
        again: of `RECOMPUTE`: the ops that run again, in turn.
    """

    names: tuple[str, ...]
    bytes: int
    method: str
    after: str
    gone: str
    back: str
    wanted: str
    again: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """Bytes of the region in which a step's buffers lie that an op may use, for an output or as scratch.

    Those of ops may overlap: what lies there one after the other. The op is one of the order, or one that is added
    to bring a tensor back (`Memory.labelled`).
    """

    op: str
    offset: int
    bytes: int
    is_scratch: bool = False


@dataclass(frozen=True)
class Memory:
    """How a step keeps to a limited memory (Dymem, thesis chapter 4), and what that promises.

    What it does not name is kept.

    Attributes:
        graph: of the step that ran.
        limit_bytes: of the memory.
        policy: who chose.
        order: all ops of the step, by name.
        tensors: what is away, in the order in which it was made.
        peak_bytes: predicted: the most that is held at once, resident bytes included.
        seconds: predicted: of a step that runs so, copies and repeated ops included.
        plain_seconds: predicted: of the step as it is.
        least_bytes: the least limit at which the step still fits.
        chained: of the order, in turn: the ops that move the peak, which keep their turn.
        beside: of each of these: how many of them just before it may still run when it begins; empty: none.
        apart: where there are places: the ops that must not go on in a buffer that they read, as what they make has
            a place of its own, or becomes a variable's value.
        swapped: likewise: the ops whose two inputs change places, so that they go on in the buffer of the second.
        places: where its buffers lie, where that was decided; several of one op as it takes them.
        region_bytes: that the places take.

    Raises:
        PlanError: a peak above the limit, an op or a tensor twice, or a tensor of an unknown method, without bytes,
            or whose ops are not in the order, or not in this turn; an op that keeps another turn, or has more ops
            beside it than the turns before it allow; a place that is not in the region, or of no such op; or an op
            apart that is no such, or without any place; names it.
    """

    graph: GraphPrint
    limit_bytes: int
    policy: str
    order: tuple[str, ...]
    tensors: tuple[AwayTensor, ...]
    peak_bytes: int
    seconds: float
    plain_seconds: float
    least_bytes: int
    chained: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    region_bytes: int = 0
    beside: tuple[int, ...] = ()
    apart: tuple[str, ...] = ()
    swapped: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Hold what every reader relies on."""
        if not 0 < self.peak_bytes <= self.limit_bytes:
            raise PlanError(
                f"the plan's step holds {self.peak_bytes} bytes of a limit of {self.limit_bytes}: make it again"
            )
        if not (math.isfinite(self.seconds) and 0 <= self.plain_seconds <= self.seconds):
            raise PlanError(
                f"the plan's step takes {self.seconds} s, and {self.plain_seconds} s if it runs as it is"
            )
        places = {name: place for place, name in enumerate(self.order)}
        if len(places) < len(self.order):
            name = next(n for place, n in enumerate(self.order) if places[n] != place)
            raise PlanError(f"the plan's order has the op '{name}' twice")
        _check_chained(self.chained, places)
        _check_beside(self.chained, self.beside)
        named: set[str] = set()
        for tensor in self.tensors:
            _check(tensor, places)
            for name in tensor.names:
                if name in named:
                    raise PlanError(f"the plan has the tensor '{name}' away twice")
                named.add(name)
        there = {*places, *self._added()} if self.places else ()
        for place in self.places:
            _check_place(place, there, self.region_bytes)
        _check_apart(self.apart, there)
        unknown = next((name for name in self.swapped if name not in places), None)
        if unknown is not None:
            raise PlanError(f"the plan swaps the inputs of the op '{unknown}', which is not in its order")

    @property
    def extra_seconds(self) -> float:
        """Predicted: what a step so takes longer than it does as it is."""
        return self.seconds - self.plain_seconds

    def away(self, method: str) -> tuple[AwayTensor, ...]:
        """What comes back in this way."""
        return tuple(tensor for tensor in self.tensors if tensor.method == method)

    def labelled(self, method: str) -> Iterator[tuple[str, AwayTensor]]:
        """What comes back in this way, each with how the names of the nodes end that are added for it.

        What copies ``a:0`` back, or makes it again, is called ``a/`` and the label.
        """
        return ((f"{_LABELS[method]}_{number}", tensor) for number, tensor in enumerate(self.away(method)))

    def _added(self) -> Iterator[str]:
        """The names that nodes may have which bring tensors back."""
        for method in METHODS:
            for label, tensor in self.labelled(method):
                nodes = tensor.again or [parse_input(name).node for name in tensor.names]
                yield from (f"{node}/{label}" for node in nodes)


def _check_chained(chained: Sequence[str], places: Mapping[str, int]) -> None:
    last = -1
    for name in chained:
        if places.get(name, -1) <= last:
            raise PlanError(f"the plan chains the op '{name}' out of its order")
        last = places[name]


def _check_beside(chained: Sequence[str], beside: Sequence[int]) -> None:
    if beside and len(beside) != len(chained):
        raise PlanError(
            f"the plan says of {len(beside)} ops what may run beside them, and chains {len(chained)}"
        )
    first = 0
    for index, (name, count) in enumerate(zip(chained, beside, strict=False)):
        if not first <= index - count <= index:
            raise PlanError(f"the plan lets {count} ops run beside '{name}', which come before others' turn")
        first = index - count


def _check(tensor: AwayTensor, places: Mapping[str, int]) -> None:
    if not tensor.names or tensor.bytes < 1:
        raise PlanError(f"the plan has a tensor away without a name, or of {tensor.bytes} bytes")
    what = f"the tensor '{tensor.names[0]}'"
    if tensor.method not in METHODS:
        raise PlanError(f"{what} comes back by '{tensor.method}', it must be one of {', '.join(METHODS)}")
    if (tensor.method == RECOMPUTE) != bool(tensor.again):
        raise PlanError(
            f"{what} comes back by '{tensor.method}', with {len(tensor.again)} ops that run again"
        )
    for op in (tensor.after, tensor.gone, tensor.back, tensor.wanted, *tensor.again):
        if op not in places:
            raise PlanError(f"{what} names the op '{op}', which is not in the plan's order")
    after, gone, back, wanted = (places[op] for op in (tensor.after, tensor.gone, tensor.back, tensor.wanted))
    if not after < gone <= back <= wanted:
        raise PlanError(
            f"{what} does not leave after '{tensor.after}' and come back before '{tensor.wanted}'"
        )
    if any(places[op] >= back for op in tensor.again):
        raise PlanError(f"{what} is made by ops that have not run before '{tensor.back}'")


def _check_place(place: Place, ops: Collection[str], region: int) -> None:
    if place.op not in ops:
        raise PlanError(
            f"the plan has a place for the op '{place.op}', which is not in its order, and brings nothing back"
        )
    if place.bytes < 1 or place.offset < 0 or place.offset % PIECE or place.offset + place.bytes > region:
        raise PlanError(
            f"the plan's place of {place.bytes} bytes at {place.offset} for the op '{place.op}' is not in its "
            f"region of {region} bytes, or no multiple of {PIECE}"
        )


def _check_apart(apart: Sequence[str], ops: Collection[str]) -> None:
    name = next((name for name in apart if name not in ops), None)
    if name is not None:
        raise PlanError(
            f"the plan keeps the op '{name}' apart, and has no places, or neither has it in its order nor brings "
            "back what it makes"
        )
