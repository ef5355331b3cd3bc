"""How two waves, and what they are compared with, run in `tick_tock.py`: graphs, and what the model says."""

import json
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from grappler_passes.tick_tock import TickTock
from tfwave.bundle.bundle import Bundle, load_bundle
from tfwave.bundle.memory import CapturedMemory, captured_memory
from tfwave.graph.item import GraphItem
from tfwave.graph.verify import verify
from tfwave.memory.slots import room
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.rewrite.waves.names import SCOPE, wave_name
from tfwave.rewrite.waves.training import Training
from tfwave.waves.fit import fitting_offset, least_room, pool_needs, wave_peaks, wave_starts
from tfwave.waves.pair import Pace, WaveStep, pair_seconds
from tfwave.waves.verdict import StepUse, WaveVerdict, judge_waves
from tools.bench.memory.limited import Program
from tools.bench.memory.limited_models import LOSS, RESET, TRAIN
from tools.bench.memory.programs import step_program

MB = 1 << 20
GANG, REPLICAS, WAVES = "gang", "replicas", "tick_tock"


@dataclass(frozen=True)
class Case:
    """A model at a batch, run in a mode under a limit in bytes.

    1. "gang": one step with the batch.
    2. "replicas": two steps with half of it each, which begin at once; both update when both are done.
    3. "tick_tock": two waves with half of it each, `offset` apart.
    """

    model: str
    mode: str
    batch: int
    limit: int
    offset: float | None = None

    @property
    def each(self) -> int:
        """The batch of one step's graph."""
        return self.batch if self.mode == GANG else self.batch // 2


def program(graph: GraphDef, case: Case) -> Program:
    """What runs a case; `graph` is that of one step with the batch of each."""
    if case.mode == GANG:
        return step_program(graph)
    if case.mode == REPLICAS:
        waves = ungated(TickTock(average="batch")(item_of(graph)).item.graph)
    else:
        waves = TickTock(offset=case.offset or 0.0)(item_of(graph)).item.graph
    fetches = tuple([wave_name(f"{LOSS}:0", wave) for wave in range(2)])
    targets = tuple([wave_name(TRAIN, wave) for wave in range(2)])
    return Program(waves, (RESET,), ((fetches, targets),))


@dataclass(frozen=True)
class Traced:
    """A step with the batch of one wave: what was captured of it, and the peak that a large pool counted."""

    graph: GraphDef
    bundle: Bundle
    measured_peak: int

    @cached_property
    def captured(self) -> CapturedMemory:
        return captured_memory(self.bundle)

    @cached_property
    def training(self) -> Training:
        item = item_of(self.graph)
        return Training.of(item, verify(item))

    @property
    def seconds(self) -> float:
        return self.captured.memory.seconds

    def fitting(self, limit: int) -> float:
        """The offset that is chosen for a limit.

        Raises:
            PlanError: there is none.
        """
        return fitting_offset(self.training, self.captured.memory, limit, self.captured.others or 0)

    def peak(self, offset: float) -> int:
        """Of two waves, by the model."""
        return wave_peaks(self.training, self.captured.memory, [offset], self.captured.others or 0)[0]

    def least_limit(self, offset: float) -> int:
        """The least limit, in whole MB, under which two waves fit by the model."""
        others = self.captured.others or 0
        return least_limit(least_room(self.training, self.captured.memory, offset, others))

    def start(self, offset: float) -> float:
        """When the second wave starts by the model, as a share of the first's time."""
        return wave_starts(self.training, self.captured.memory, [offset])[0] / self.seconds

    @cached_property
    def compute_share(self) -> float:
        """What a step keeps busy of the machine, as far as nothing else ran on it."""
        return self.bundle.manifest.compute_share or 1.0

    def verdict(self, limit: int, offset: float) -> WaveVerdict:
        """Of the simulator, on these waves with batches as large as fit."""
        needs = pool_needs(self.training, self.captured.memory, self.captured.others or 0)
        return judge_waves(needs, StepUse(self.compute_share), limit, Pace.ROUNDS, [self.start(offset)])

    def speedup(self, offset: float, gang: float) -> float:
        """Samples per second of two waves over those of gang scheduling with so many times one wave's batch.

        As simulated: what compute units do grows with the batch, the rest of the step's time stays.
        """
        start, share = self.start(offset), self.compute_share
        step = WaveStep(start * self.seconds, (1 - start) * self.seconds, 0.0, share)
        gang_seconds = self.seconds * (1 - share + share * gang)
        return (2 / pair_seconds(step, Pace.ROUNDS)) / (gang / gang_seconds)


@cache
def load_traced(directory: Path) -> Traced:
    """What `limited_task` has written of a profile."""
    graph = GraphDef.FromString((directory / "graph.pb").read_bytes())
    peak = json.loads((directory / "steps.json").read_text())["peak"]
    return Traced(graph, load_bundle(directory / "bundle"), peak)


def least_limit(peak: int) -> int:
    """The least limit, in whole MB, that has room for so many bytes of two waves."""
    limit = peak // MB * MB
    while room(limit, 2) < peak:
        limit += MB
    return limit


def limits_between(low: int, high: int, count: int) -> list[int]:
    """Limits in whole MB from one to the other, evenly; each once."""
    steps = max(1, count - 1)
    found = [(low + (high - low) * number // steps) // MB * MB for number in range(count)]
    return sorted({max(low, limit) for limit in found})


def item_of(graph: GraphDef) -> GraphItem:
    return GraphItem(graph, fetches=(LOSS, TRAIN))


def ungated(graph: GraphDef) -> GraphDef:
    """With gates that are always open."""
    copy = GraphDef()
    copy.CopyFrom(graph)
    for node in copy.node:
        if node.name.startswith(f"{SCOPE}/gates/"):
            del node.input[:]
    return copy
