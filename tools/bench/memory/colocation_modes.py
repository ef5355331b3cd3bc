"""How two jobs share a pool in `colocation.py`: the slots of each mode, and the graph that keeps to them.

A mode that does more than order one graph's nodes can be added to `MODES` with `Planned` fields of its own.
"""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from grappler_passes.counter_barrier import CounterBarrier
from tfwave.bundle.bundle import load_bundle
from tfwave.colocate import captured_step
from tfwave.errors import PlanError
from tfwave.graph.item import GraphItem
from tfwave.graph.verify import verify
from tfwave.memory.colocation import FINENESSES, JobStep, colocate
from tfwave.memory.groups import LevelledStep, Unit, levelled
from tfwave.memory.pairing import algorithm_one
from tfwave.memory.profile import MemoryProfile, OpMemory
from tfwave.memory.schedule import in_turn, modelled_peak
from tfwave.plan.groups import GroupedJob, NodeGroup, Slot, Turn
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.rewrite.steps.step import Step
from tools.bench.memory import limited_task
from tools.bench.memory.limited import Program
from tools.bench.memory.limited_models import LOSS, RESET, TRAIN

BACKWARD = "gradients/"
LEDGER_MODULE = "tools.bench.memory.colocation_ledger"
SEQUENTIAL = "sequential"
BESIDE = "side by side"
SPLIT = "split_"
SPLITS = (16, 32, 64, 96, 128, 192)
"""MiB: of 512 the shares that the paper's split sizes of 1 to 12 GB are of the 32 GB of its device."""


@dataclass(frozen=True)
class Profile:
    """A model's step at one batch: its graph, a capture of it, and the peak that a large pool counted."""

    graph: GraphDef
    step: JobStep
    losses: tuple[str, ...]
    measured_peak: int

    @cached_property
    def levels(self) -> LevelledStep:
        return levelled(self.step.view, self.step.profile, self.step.costs)

    @cached_property
    def anytime(self) -> frozenset[str]:
        """The nodes that no barrier may hold back: those that give the variables their first values need them."""
        item = GraphItem(self.graph, fetches=(RESET,))
        reset = Step.of(item, verify(item))
        return frozenset(reset.view.names[node] for node in reset.fanins)

    def grouped(self, name: str, numbers: Callable[[tuple[str, ...]], int]) -> GroupedJob:
        """In groups by the number of each unit."""
        members: dict[int, list[Unit]] = defaultdict(list)
        for unit in self.levels.units:
            members[numbers(unit.ops)].append(unit)
        places = {node: number for number, own in members.items() for unit in own for node in unit.nodes}
        done = self.levels.replay.at(places)
        groups = tuple([_group(own, done[number]) for number, own in sorted(members.items())])
        return GroupedJob(name, groups, self.step.resident)


def _group(units: Sequence[Unit], done: Sequence[OpMemory]) -> NodeGroup:
    ops = tuple([op for unit in units for op in unit.ops])
    net, peak = sum(op.net for op in done), MemoryProfile("", done, 0).peak
    piece, seconds = max(op.piece for op in done), math.fsum(unit.seconds for unit in units)
    return NodeGroup(ops, units[0].level, units[-1].level, net, peak, piece, seconds)


@cache
def load_profile(directory: Path) -> Profile:
    """What `limited_task` has written; `steps.json` is written last."""
    bundle = load_bundle(directory / "bundle")
    graph = GraphDef.FromString((directory / "graph.pb").read_bytes())
    steps = json.loads((directory / "steps.json").read_text())
    return Profile(graph, captured_step("", bundle), tuple(steps["losses"]), steps["peak"])


@dataclass(frozen=True)
class Planned:
    """A way to run jobs: their slots, and what they need by the model; a call for each job, or one for all.

    `fits` is a mode's own word that the limit holds; `variant` tells ways of one mode from each other; `module` is
    that of the process that runs them. What runs just as in another mode has the trials of that: `same_as`.
    """

    jobs: tuple[GroupedJob, ...]
    slots: tuple[Slot, ...]
    fits: bool
    variant: str = ""
    calls_apart: bool = False
    module: str = limited_task.MODULE
    same_as: str = ""

    @property
    def peak_bytes(self) -> int:
        return modelled_peak(self.jobs, self.slots)


Jobs = Mapping[str, Profile]
"""The profiles of jobs by their names, which are the prefixes of their nodes."""


def alone(jobs: Jobs, limit: int) -> Iterator[Planned]:
    """Each job's step by itself, one after the other."""
    whole = tuple([profile.grouped(name, lambda _: 0) for name, profile in jobs.items()])
    slots = in_turn(whole)
    yield Planned(whole, slots, modelled_peak(whole, slots) <= limit, calls_apart=True)


def uncontrolled(jobs: Jobs, limit: int) -> Iterator[Planned]:
    """All jobs' steps at once."""
    whole = tuple([profile.grouped(name, lambda _: 0) for name, profile in jobs.items()])
    slots = (tuple([Turn(job.name, 0) for job in whole]),)
    yield Planned(whole, slots, modelled_peak(whole, slots) <= limit)


def waterwave_s(jobs: Jobs, limit: int) -> Iterator[Planned]:
    """Two groups a job, cut behind the peak or before the backward pass: 3 slots of two jobs."""
    for variant, cut in (("peak", _at_peak), ("backward", _at_backward)):
        grouped = tuple([cut(name, profile) for name, profile in jobs.items()])
        slots = algorithm_one(grouped, limit)
        yield Planned(grouped, slots, modelled_peak(grouped, slots) <= limit, variant)


def algorithm(jobs: Jobs, limit: int) -> Iterator[Planned]:
    """Algorithm 1, mended: the two splits that need least by the model."""
    found: list[Planned] = []
    for parts in FINENESSES[2:]:
        grouped = tuple([_cut(name, profile, parts) for name, profile in jobs.items()])
        slots = algorithm_one(grouped, limit)
        found.append(Planned(grouped, slots, modelled_peak(grouped, slots) <= limit, f"{parts} parts"))
    yield from sorted(found, key=lambda planned: planned.peak_bytes)[:2]


def split_at(size: int) -> "Mode":
    """Algorithm 1, mended, with groups that end at a split size in bytes (Waterwave, section 5.4)."""

    def plans(jobs: Jobs, limit: int) -> Iterator[Planned]:
        cut = {name: profile.levels.cut(size) for name, profile in jobs.items()}
        grouped = tuple([GroupedJob(name, cut[name], jobs[name].step.resident) for name in jobs])
        slots = algorithm_one(grouped, limit)
        yield Planned(grouped, slots, modelled_peak(grouped, slots) <= limit)

    return plans


def colocation(jobs: Jobs, limit: int) -> Iterator[Planned]:
    """What tfwave plans; nothing where it refuses. Uncut steps in turn need no barrier: they are "sequential"."""
    try:
        planned = colocate([replace(profile.step, name=name) for name, profile in jobs.items()], limit)
    except PlanError:
        return
    whole = planned.is_in_turn and all(len(job.groups) <= 1 for job in planned.jobs)
    if whole:
        yield Planned(planned.jobs, planned.slots, True, calls_apart=True, same_as=SEQUENTIAL)
    else:
        variant = "in turn" if planned.is_in_turn else BESIDE
        yield Planned(planned.jobs, planned.slots, True, variant)


def ledger(jobs: Jobs, limit: int) -> Iterator[Planned]:
    """What `tfwave.colocate.run` does: measures and plans in the pool, and a ledger says which group starts."""
    for planned in colocation(jobs, limit):
        yield replace(planned, calls_apart=True, module=LEDGER_MODULE, same_as="")


Mode = Callable[[Jobs, int], Iterator[Planned]]
MODES: dict[str, Mode] = {
    SEQUENTIAL: alone,
    "uncontrolled": uncontrolled,
    "waterwave_s": waterwave_s,
    "algorithm_1": algorithm,
    "colocation": colocation,
    "ledger": ledger,
    **{f"{SPLIT}{size}": split_at(size << 20) for size in SPLITS},
}


def program_of(jobs: Jobs, planned: Planned) -> Program:
    """The graph of all jobs, and how to run it."""
    graph = GraphDef()
    for name, profile in jobs.items():
        graph.versions.CopyFrom(profile.graph.versions)
        graph.node.extend(_prefixed(profile.graph, name).node)
    item = GraphItem(graph, fetches=tuple([f"{name}/{TRAIN}" for name in jobs]))
    groups = _groups(jobs, planned)
    if len(groups) > 1 and not planned.calls_apart:
        item = CounterBarrier(groups)(item).item
    steps = [(name,) for name in jobs] if planned.calls_apart else [tuple(jobs)]
    calls = [_call(step) for step in steps]
    return Program(item.graph, tuple([f"{name}/{RESET}" for name in jobs]), tuple(calls), planned.module)


def _call(jobs: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple([f"{job}/{LOSS}:0" for job in jobs]), tuple([f"{job}/{TRAIN}" for job in jobs])


def _groups(jobs: Jobs, planned: Planned) -> tuple[tuple[str, ...], ...]:
    """The nodes of each slot that a barrier can hold back."""
    known = {name: {node.name for node in jobs[name].graph.node} - jobs[name].anytime for name in jobs}
    groups = {job.name: job.groups for job in planned.jobs}
    slots = [
        [(t.job, op) for t in slot for op in groups[t.job][t.group].ops if op in known[t.job]]
        for slot in planned.slots
    ]
    return tuple([tuple([f"{job}/{op}" for job, op in slot]) for slot in slots if slot])


def _prefixed(graph: GraphDef, name: str) -> GraphDef:
    """With other names for the nodes and the variables."""
    copy = GraphDef(node=graph.node)
    for node in copy.node:
        node.name = f"{name}/{node.name}"
        inputs = [f"^{name}/{text[1:]}" if text[0] == "^" else f"{name}/{text}" for text in node.input]
        del node.input[:]
        node.input.extend(inputs)
        node.attr.pop("_class", None)  # there is one device
        if node.op == "VarHandleOp":
            node.attr["shared_name"].s = node.name.encode()
    return copy


def _cut(name: str, profile: Profile, parts: int) -> GroupedJob:
    rise = sum(group.transient for group in profile.levels.whole)
    groups = profile.levels.cut(max(1, -(-rise // parts)))
    return GroupedJob(name, groups, profile.step.resident)


def _at_peak(name: str, profile: Profile) -> GroupedJob:
    """The second group begins behind the unit at which most is held, one unit after the other."""
    one_each = profile.grouped(name, {u.ops: i for i, u in enumerate(profile.levels.units)}.__getitem__)
    during = [held + group.transient for held, group in zip(one_each.held, one_each.groups, strict=False)]
    peak = during.index(max(during))
    first = {op for unit in profile.levels.units[: peak + 1] for op in unit.ops}
    return profile.grouped(name, lambda ops: int(ops[0] not in first))


def _at_backward(name: str, profile: Profile) -> GroupedJob:
    """The second group is the backward pass, with what waits for it."""
    view = profile.step.view
    backward: set[str] = set()
    for node in view.topological_order:
        after = any(view.names[fanin] in backward for fanin in view.fanins[node])
        if after or view.names[node].startswith(BACKWARD):
            backward.add(view.names[node])
    return profile.grouped(name, lambda ops: int(ops[0] in backward))
