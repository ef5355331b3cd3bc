"""A fitted step whose ops run side by side, whichever is done first: what it holds at most, by rules of its own.

An op begins as soon as it may, or later: by chance. It may once all is done that it reads, that keeps a turn
before those beside it, and that it needs gone. It holds its scratch until it is done. A buffer is free once all are
done that use it, and while it is away; an op that goes on in one which others still use takes it a second time.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tfwave.offload.step import Buffer, TrainingStep
from tfwave.plan.memory import METHODS, AwayTensor, Memory


def most_held(step: TrainingStep, plan: Memory, rng: random.Random) -> int:
    """Bytes at the worst moment of one such run."""
    return max(_Race(step, plan, rng).run())


def without_place(step: TrainingStep, plan: Memory, rng: random.Random) -> list[str]:
    """The ops that in one such run find a place of theirs taken by something else, or none so large."""
    race, region = _Race(step, plan, rng), _Region(plan)
    for _ in race.run():
        region.follow(dict(race.live()))
    return region.without


@dataclass
class _Region:
    """What lies where: an op takes the smallest of its places that is large enough and free."""

    plan: Memory
    spans: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    without: list[str] = field(default_factory=list[str])

    def follow(self, live: dict[str, tuple[str, int]]) -> None:
        self.spans = {what: span for what, span in self.spans.items() if what in live}
        for what, (op, size) in live.items():
            if what not in self.spans:
                self.spans[what] = self._taken(op, size, what.startswith("scratch"))

    def _taken(self, op: str, size: int, is_scratch: bool) -> tuple[int, int]:
        places = [place for place in self.plan.places if place.is_scratch == is_scratch]
        for place in sorted(places, key=lambda place: place.bytes):
            begin, end = place.offset, place.offset + size
            if (
                place.op == op
                and place.bytes >= size
                and all(end <= low or high <= begin for low, high in self.spans.values())
            ):
                return begin, end
        self.without.append(op)
        return 0, 0


@dataclass
class _Race:
    step: TrainingStep
    plan: Memory
    rng: random.Random
    begun: set[str] = field(default_factory=set[str])
    done: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.number = {op.node: n for n, op in enumerate(self.step.ops)}
        self.away = {
            n: t for t in self.plan.tensors for n, b in enumerate(self.step.buffers) if b.names == t.names
        }
        self.needs = {op.node: self._needs_of_op(number) for number, op in enumerate(self.step.ops)}
        for buffer, tensor in self.away.items():
            self._add_moves(buffer, tensor)

    def run(self) -> Iterator[int]:
        """What is held at each moment."""
        yield self._held()
        while len(self.done) < len(self.needs):
            may = [name for name in self.needs if name not in self.begun and self.needs[name] <= self.done]
            running = sorted(self.begun - self.done)
            assert may or running
            name = self.rng.choice(may * 3 + running)
            (self.done if name in self.begun else self.begun).add(name)
            yield self._held()

    def live(self) -> Iterator[tuple[str, tuple[str, int]]]:
        """What is held now: what it is, the node that takes it, and bytes. But for what may outlive the step."""
        for name in self.begun - self.done:
            op = self.step.ops[self.number[name]] if name in self.number else None
            if op is not None and op.scratch and not op.changes:
                yield f"scratch of {name}", (name, op.scratch)
        for number, buffer in enumerate(self.step.buffers):
            if not buffer.stays:
                yield from self._live_in(number, buffer)
        for method in METHODS:
            for label, tensor in self.plan.labelled(method):
                yield from self._live_again(label, tensor)

    def _live_in(self, number: int, buffer: Buffer) -> Iterator[tuple[str, tuple[str, int]]]:
        names = [self.step.ops[use].node for use in buffer.uses]
        if not buffer.bytes or names[0] not in self.begun or f"back of {number}" in self.begun:
            return
        if self._is_there(number, names) if number in self.away else not set(names) <= self.done:
            yield f"buffer {number}", (self.step.ops[buffer.writers[0]].node, buffer.bytes)

    def _live_again(self, label: str, tensor: AwayTensor) -> Iterator[tuple[str, tuple[str, int]]]:
        number = next(n for n, each in self.away.items() if each is tensor)
        buffer, back = self.step.buffers[number], f"back of {number}"
        made_by = self.step.ops[buffer.writers[0]].node if tensor.again else tensor.names[0].partition(":")[0]
        if back in self.begun and not {self.step.ops[use].node for use in buffer.uses} <= self.done:
            yield f"buffer {number}, back", (f"{made_by}/{label}", buffer.bytes)
        if not tensor.again or back not in self.begun - self.done:
            return
        again = {self.number[name] for name in tensor.again}
        for other, made in enumerate(self.step.buffers):
            if other != number and again & set(made.writers):
                node = self.step.ops[made.writers[0]].node
                yield f"{other} for {number}", (f"{node}/{label}", made.bytes)
        scratch = max((self.step.ops[op] for op in sorted(again)), key=lambda op: op.scratch)
        if scratch.scratch:
            yield f"scratch for {number}", (f"{scratch.node}/{label}", scratch.scratch)

    def _needs_of_op(self, number: int) -> set[str]:
        name = self.step.ops[number].node
        found = {self.step.ops[source].node for source in self.step.ops[number].after}
        if name in self.plan.chained:
            found |= self._turn(self.plan.chained.index(name))
        return found

    def _turn(self, index: int) -> set[str]:
        beside = self.plan.beside[index] if index < len(self.plan.beside) else 0
        return set(self.plan.chained[: index - beside])

    def _next(self, name: str) -> int:
        """The number of the first op from one of the order on that keeps its turn."""
        places = [self.plan.order.index(each) for each in self.plan.chained]
        return sum(place < self.plan.order.index(name) for place in places)

    def _add_moves(self, buffer: int, tensor: AwayTensor) -> None:
        index = self._next(tensor.back)
        begin, turn = f"back of {buffer}", self._turn(index) | self._leaving(index)
        if tensor.method == "offload":
            out = f"out of {buffer}"
            self.needs[out] = {tensor.after}
            self.needs[begin] = {out, *turn}
            for name in self.plan.chained[self._next(tensor.gone) :][:1]:
                self.needs[name].add(out)
        else:
            needed = {
                f"back of {n}" for n, t in self.away.items() if n != buffer and self._feeds(n, t, tensor)
            }
            self.needs[begin] = turn | needed
            for name in self.plan.chained[self._next(tensor.back) :][:1]:
                self.needs[name].add(begin)
        for name in {self.step.ops[use].node for use in self.step.buffers[buffer].uses}:
            if not self._is_early(name, tensor):
                self.needs[name].add(begin)

    def _leaving(self, index: int) -> set[str]:
        """The copies out for which an op that keeps its turn waits, and what comes back before it."""
        offloaded = [(n, t) for n, t in self.away.items() if t.method == "offload"]
        return {f"out of {n}" for n, t in offloaded if self._next(t.gone) == index < len(self.plan.chained)}

    def _is_early(self, name: str, tensor: AwayTensor) -> bool:
        return self.plan.order.index(name) < self.plan.order.index(tensor.wanted)

    def _feeds(self, buffer: int, tensor: AwayTensor, made: AwayTensor) -> bool:
        """Is it read by what runs again, where that is not made by it?"""
        used = {self.number[name] for name in made.again}
        here = used & set(self.step.buffers[buffer].uses)
        back, at = self.plan.order.index(tensor.back), self.plan.order.index(made.back)
        return bool(here) and not used & set(self.step.buffers[buffer].writers) and back <= at

    def _held(self) -> int:
        running = self.begun - self.done
        scratch = sum(self.step.ops[self.number[name]].scratch for name in running if name in self.number)
        return (
            self.step.resident
            + scratch
            + sum(self._of_buffers())
            + sum(map(self._of_chain, self.plan.tensors))
        )

    def _of_buffers(self) -> Iterator[int]:
        for number, buffer in enumerate(self.step.buffers):
            names = [self.step.ops[use].node for use in buffer.uses]
            there = buffer.stays or not set(names) <= self.done
            if number in self.away:
                there = there and self._is_there(number, names)
            if names[0] in self.begun and there:
                yield buffer.bytes * (1 + self._taken_twice(number))

    def _is_there(self, number: int, names: list[str]) -> bool:
        early = {name for name in names if self._is_early(name, self.away[number])}
        left = self.away[number].method == "offload" and f"out of {number}" not in self.done
        return not early <= self.done or left or f"back of {number}" in self.begun

    def _taken_twice(self, number: int) -> int:
        """By a writer that runs while an op before it still uses the buffer, or one that runs again."""
        buffer = self.step.buffers[number]
        names = {use: self.step.ops[use].node for use in buffer.uses}
        read_again = any(self._reads_again(number, other, tensor) for other, tensor in self.away.items())
        return sum(
            names[writer] in self.begun - self.done
            and (read_again or any(names[use] not in self.done for use in buffer.uses if use < writer))
            for writer in buffer.writers[1:]
        )

    def _reads_again(self, number: int, other: int, tensor: AwayTensor) -> bool:
        """Do ops that run again now, for another buffer, read one that they do not make?"""
        used = {self.number[name] for name in tensor.again}
        buffer = self.step.buffers[number]
        running = f"back of {other}" in self.begun - self.done
        return running and bool(used & set(buffer.uses)) and not used & set(buffer.writers)

    def _of_chain(self, tensor: AwayTensor) -> int:
        """What ops hold that run again, besides what they make again; until the op that wants it has begun."""
        buffer = next(n for n, each in self.away.items() if each is tensor)
        if not tensor.again or f"back of {buffer}" not in self.begun - self.done:
            return 0
        again = {self.number[name] for name in tensor.again}
        made = sum(b.bytes for n, b in enumerate(self.step.buffers) if again & set(b.writers) and n != buffer)
        return made + max(self.step.ops[op].scratch for op in again)
