"""A step's memory in full: its profile, the tensors behind it, and its times."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise

from tfwave.memory.profile import MemoryProfile, OpMemory


@dataclass(frozen=True)
class Tensor:
    """A buffer that a step allocates.

    Attributes:
        names: ``node:port`` of the tensors in it, that for which it was allocated first; of what an op keeps to
            itself, such as the contents of a list, the node alone.
        bytes: as the allocator counts it.
        born: the place among the profile's ops of the op that allocates it.
        read: that of the last op that reads it, or gives it out.
        dies: that of the op after which it is free, which is later where something else kept it, or where ops ran
            side by side; None if it outlives the step.
        uses: those of all ops that write, read or give it out, ascending; empty where that is not known.
        asked: those of its bytes that were asked for: a pool gives up to twice as much, as it happens to have it
            free; 0 where that is not known.
    """

    names: tuple[str, ...]
    bytes: int
    born: int
    read: int
    dies: int | None
    uses: tuple[int, ...] = field(default=(), compare=False)
    asked: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Shape:
    """How far a curve first increases, then drops (Waterwave section 2, figure 1).

    Attributes:
        over_average: the peak over the average; both count what is resident.
        peak_at: when the peak is reached, as a share of the step's time.
        rise: of the bytes by which ops raise what is held up to the peak, the share not freed before it; 1 if
            nothing is freed before the peak.
        drop: of the bytes by which ops lower it after the peak, the share not allocated again; 1 if nothing is
            allocated after the peak.
    """

    over_average: float
    peak_at: float
    rise: float
    drop: float


@dataclass(frozen=True)
class StepMemory:
    """A traced step on one device.

    Attributes:
        profile: what each op does to the pool, in the order in which the ops began.
        tensors: all that the ops allocate, by birth.
        begins: of each op, in seconds since the first began.
        ends: likewise.
    """

    profile: MemoryProfile
    tensors: tuple[Tensor, ...]
    begins: tuple[float, ...]
    ends: tuple[float, ...]

    @property
    def seconds(self) -> float:
        """From the begin of the first op to the end of the last."""
        return max(self.ends, default=0.0)

    @property
    def largest_piece(self) -> int:
        """The most bytes that the step asks for at once: of a tensor, or of an op's scratch.

        TensorFlow's pool gives a free chunk of less than twice as much whole, and what is free lies in pieces.
        Without room for one more such piece, 4 of 29 trials of two waves in pools of 103 to 278 MB ran out, or
        waited for memory.
        """
        scratch = max((op.scratch for op in self.profile.ops), default=0)
        return max([scratch, *(tensor.bytes for tensor in self.tensors)])

    @property
    def peak_op(self) -> int:
        """The place of the first op at which the peak is reached."""
        return max(range(len(self.begins)), key=self._during)

    @property
    def curve(self) -> tuple[tuple[float, int], ...]:
        """Bytes held, what is resident included, from each time (seconds) on, until the next.

        An op holds its scratch until it ends; what is freed after it is so at its end, or when the next begins.
        """
        points: list[tuple[float, int]] = []
        running: list[int] = []
        for op, following in enumerate([*self.begins[1:], float("inf")]):
            running.append(op)
            points.append((self.begins[op], self._during(op)))
            for ended in sorted((r for r in running if self.ends[r] < following), key=self.ends.__getitem__):
                running.remove(ended)
                points.append((self.ends[ended], self._beside(op, running)))
            running = [r for r in running if self.ends[r] > following]
        return tuple(points)

    @property
    def curve_to_end(self) -> tuple[tuple[float, int], ...]:
        """The same, and what is held when the step ends."""
        curve = self.curve
        return (*curve, (self.seconds, curve[-1][1]))

    @property
    def average(self) -> float:
        """Bytes held on average over the step's time."""
        points = [*self.curve, (self.seconds, 0)]
        if not self.seconds:
            return float(self.profile.peak)
        return sum(held * (until - at) for (at, held), (until, _) in pairwise(points)) / self.seconds

    @property
    def shape(self) -> Shape:
        """How far it first increases, then drops."""
        nets = [op.net for op in self.profile.ops]
        peak = self.peak_op
        at = self.begins[peak] / self.seconds if self.seconds else 0.0
        average = self.average
        return Shape(
            self.profile.peak / average if average else 1.0,
            at,
            _kept(_with_takes(self.profile.ops, peak)),
            _kept([-net for net in nets[peak + 1 :]]),
        )

    def life(self, tensor: Tensor) -> tuple[float, float | None]:
        """When a tensor is born and freed, in seconds; None if it outlives the step."""
        return self.begins[tensor.born], None if tensor.dies is None else self.ends[tensor.dies]

    @cached_property
    def held(self) -> tuple[tuple[int, int], ...]:
        """Bytes before and after each op, what is resident included."""
        return tuple(pairwise(accumulate((op.net for op in self.profile.ops), initial=self.profile.resident)))

    def _during(self, op: int) -> int:
        return self.held[op][0] + self.profile.ops[op].most

    def _beside(self, op: int, running: Collection[int]) -> int:
        """Bytes held when the last op to begin was `op`, and only `running` have not ended."""
        before, after = self.held[op]
        held = before + self.profile.ops[op].takes if op in running else after
        return held + sum(self.profile.ops[r].scratch for r in running)


def _with_takes(ops: Sequence[OpMemory], peak: int) -> list[int]:
    """The net bytes of the ops before the peak, and all that the peak's own op takes."""
    return [*(op.net for op in ops[:peak]), *(op.takes for op in ops[peak : peak + 1])]


def _kept(changes: Iterable[int]) -> float:
    """What is left of all increases, as a share."""
    values = list(changes)
    up = sum(value for value in values if value > 0)
    return max(0, sum(values)) / up if up else 1.0
