"""A burst job that shares its devices, against a SimPy program of its own; and the command."""

import json
import math
import random
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import simpy

from tests.pages import DOCS, text_of
from tests.property.burst_oracle import EDGES_OF_BLOCKS, chain, random_costs
from tests.unit.conftest import Command
from tfwave.burst.costs import LayerCosts
from tfwave.burst.network import Network
from tfwave.burst.profile import Layer, Profile
from tfwave.burst.released import read_released
from tfwave.burst.section import plan_layers
from tfwave.burst.share import Background, operations, simulate
from tfwave.cost.cluster import parse_bandwidth, parse_latency
from tfwave.errors import PlanError
from tfwave.plan.layers import LayerDevices

DEVICES, STEPS = 4, 5
DIAMOND = EDGES_OF_BLOCKS[0]
NETWORK = Network(1e6, 1e-3)


class Oracle:
    """Devices as SimPy resources: the background asks for each, slice after slice, behind whoever else does."""

    def __init__(self, costs: LayerCosts, layers: list[LayerDevices], slice_seconds: float) -> None:
        self.env = simpy.Environment()
        self.costs, self.layers, self.slice_seconds = costs, layers, slice_seconds
        self.devices = [simpy.PriorityResource(self.env) for _ in range(DEVICES)]
        self.had = 0.0
        self.running: dict[simpy.PriorityResource, float] = {}
        for device in self.devices:
            self.env.process(self._background(device))
        self.env.run(self.env.process(self._foreground()))
        self.seconds = self.env.now

    def _background(self, device: simpy.PriorityResource) -> Generator[simpy.Event, Any, None]:
        yield from self._let_others_ask()
        while True:
            with device.request(priority=1) as turn:
                yield turn
                begin = self.env.now
                self.running[device] = begin
                yield self.env.timeout(self.slice_seconds)
                del self.running[device]
                self.had += self.env.now - begin

    def _foreground(self) -> Generator[simpy.Event, Any, None]:
        for _ in range(STEPS):
            done = [self.env.event() for _ in self.layers]
            for number in range(len(self.layers)):
                self.env.process(self._layer(number, done))
            yield self.env.all_of(done)
        self.had += sum(self.env.now - begin for begin in self.running.values())

    def _layer(self, number: int, done: list[simpy.Event]) -> Generator[simpy.Event, Any, None]:
        costs, layer = self.costs, self.layers[number]
        before = [(edge, a) for edge, (a, b) in enumerate(costs.edges) if b == number]
        yield self.env.all_of([done[a] for _, a in before])
        turns = [
            device.request(priority=0) for device in self.devices[layer.first : layer.first + layer.count]
        ]
        arrived = 0.0
        for edge, a in before:
            table = costs.near if self.layers[a].first == layer.first else costs.far
            ends = self._kind(a), self._kind(number)
            arrived = max(arrived, done[a].value + table[edge][ends])
        yield self.env.all_of(turns)
        yield self.env.timeout(max(0.0, arrived - self.env.now) + costs.own[number, self._kind(number)])
        done[number].succeed(self.env.now)
        yield from self._let_others_ask()
        for device, turn in zip(self.devices[layer.first :], turns, strict=False):
            device.release(turn)

    def _let_others_ask(self) -> Generator[simpy.Event, Any, None]:
        for _ in range(6):
            yield self.env.timeout(0)

    def _kind(self, number: int) -> int:
        return self.costs.counts.index(self.layers[number].count)


@pytest.mark.parametrize("edges", [chain(4), DIAMOND, EDGES_OF_BLOCKS[2]])
@pytest.mark.parametrize("slice_seconds", [0.7, 6.0, 45.0])
def test_a_simulation_is_that_of_simpy(edges: tuple[tuple[int, int], ...], slice_seconds: float) -> None:
    for seed in range(6):
        rng = random.Random(seed)
        costs = random_costs(rng, edges, (1, 2, 4))
        layers = [placed(rng, number, apart=edges == DIAMOND) for number in range(len(costs.names))]
        ours = simulate(costs, layers, DEVICES, slice_seconds, STEPS)
        theirs = Oracle(costs, layers, slice_seconds)
        assert ours.seconds * STEPS == pytest.approx(theirs.seconds, rel=1e-9)
        assert ours.background * STEPS == pytest.approx(theirs.had, rel=1e-9)


def placed(rng: random.Random, number: int, apart: bool) -> LayerDevices:
    """Of a diamond the branches have devices of their own."""
    count = rng.choice((1, 2)) if apart else rng.choice((1, 2, 4))
    first = {1: 0, 2: 2}.get(number, 0) if apart else rng.choice(range(0, DEVICES - count + 1, count))
    return LayerDevices(f"layer{number}", first, count)


def test_what_gives_way_at_once_has_all_that_is_idle_and_slows_nobody() -> None:
    costs = random_costs(random.Random(1), chain(5), (1, 2, 4))
    layers = [placed(random.Random(n), n, apart=False) for n in range(5)]
    alone, shared = (simulate(costs, layers, DEVICES, s) for s in (math.inf, 0.0))
    assert shared.seconds == pytest.approx(alone.seconds)
    assert alone.background == 0
    kinds = [costs.counts.index(layer.count) for layer in layers]
    busy = sum(
        (costs.own[n, k] + moved(costs, layers, kinds, n)) * layers[n].count for n, k in enumerate(kinds)
    )
    assert shared.background == pytest.approx(DEVICES * alone.seconds - busy)


def moved(costs: LayerCosts, layers: list[LayerDevices], kinds: list[int], n: int) -> float:
    table = costs.near if n and layers[n - 1].first == layers[n].first else costs.far
    return float(table[n - 1, kinds[n - 1], kinds[n]]) if n else 0.0


def profile(scale: float = 1.0) -> Profile:
    wide = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}
    times = {"wide": wide, "narrow": dict.fromkeys(wide, 3.0)}
    layers = [
        Layer(
            name=name,
            reads=("wide",) if name == "narrow" else (),
            output_bytes=1000,
            weight_bytes=0,
            seconds={batch: scale * seconds for batch, seconds in times[name].items()},
        )
        for name in times
    ]
    return Profile(model="m", layers=tuple(layers))


def test_operations_are_those_of_the_plan_and_of_parts() -> None:
    layers = plan_layers(profile(), 8, 8, NETWORK, limit=2)
    found = {one.name: one for one in operations(layers, profile(), NETWORK, Background(profile(), 1, 0.0))}
    assert list(found) == ["data parallel", "burst", "burst, shared", "4 devices", "2 devices", "1 device"]
    assert found["data parallel"].seconds == pytest.approx(layers.data_parallel_seconds)
    assert found["burst"].seconds == found["burst, shared"].seconds == pytest.approx(layers.seconds)
    assert found["1 device"].seconds == layers.one_device_seconds == 11
    assert (found["1 device"].speedup, found["1 device"].foreground) == (1, 8 / 11)
    assert found["1 device"].background == pytest.approx(7 / 4)
    idle = 7 * (layers.seconds - 1)  # all but the device of the narrow layer, but for the wide one
    assert found["burst, shared"].background == pytest.approx(idle / layers.seconds / 4)
    assert found["data parallel"].background == found["burst"].background == 0


@pytest.mark.parametrize(
    ("table", "limit", "slice_seconds", "gain", "speedup"),
    [
        ("vgg", 1.3, 0, 1.60, 4.38),
        ("vgg", 1.3, 2e-4, 1.59, 4.32),
        ("wrn", 1.5, 0, 1.40, 2.65),
        ("wrn", 2.0, 0, 1.21, 3.05),
    ],
)
def test_what_the_pages_say_of_the_released_tables(
    table: str, limit: float, slice_seconds: float, gain: float, speedup: float
) -> None:
    released = read_released(Path(__file__).with_name(f"A100_{table}.prof"))
    told = re.search(r"`--bandwidth (\w+) --latency (\w+)`", text_of(DOCS / "tutorial" / "bursts.md"))
    assert told is not None
    network = Network(parse_bandwidth(told[1]), parse_latency(told[2]))
    layers = plan_layers(released, 8, 32, network, limit=limit, limit_of="job")
    data_parallel, _, shared, *_ = operations(
        layers, released, network, Background(released, 4, slice_seconds)
    )
    assert shared.samples / data_parallel.samples == pytest.approx(gain, abs=0.005)
    assert shared.speedup == pytest.approx(speedup, abs=0.005)


def test_devices_without_a_sample_are_the_backgrounds_in_data_parallel_too() -> None:
    layers = plan_layers(profile(), 8, 4, NETWORK, counts=(4,))
    data_parallel, *_ = operations(layers, profile(), NETWORK, Background(profile(), 1, 0.0))
    assert data_parallel.background == pytest.approx(4 / 4)


def test_what_cannot_be_is_refused() -> None:
    layers = plan_layers(profile(), 8, 8, NETWORK)
    other = Profile(model="o", layers=profile().layers[:1])
    with pytest.raises(PlanError, match=r"not those of the profile \(narrow\): give the profile that"):
        operations(layers, other, NETWORK, Background(profile(), 1, 0.0))
    with pytest.raises(PlanError, match="a slice of -1 s cannot be"):
        Background(profile(), 1, -1)
    with pytest.raises(PlanError, match="takes no time by its profile"):
        operations(layers, profile(), NETWORK, Background(profile(0.0), 1, 0.0))
    with pytest.raises(PlanError, match="the layers take no time by the profile"):
        operations(layers, profile(0.0), NETWORK, Background(profile(), 1, 0.0))


def test_the_command_prints_what_it_simulates(tfwave: Command, tmp_path: Path) -> None:
    plan, own, other = (tmp_path / name for name in ("plan.json", "own.json", "other.json"))
    profile().write(own)
    profile(0.5).write(other)
    network = ("--bandwidth", "8mbit", "--latency", "1ms")
    made = ("--devices", 8, "--batch", 8, "--amplification", 2, *network)
    assert tfwave("burst", "plan", own, *made, "-o", plan).code == 0
    ran = tfwave("burst", "share", plan, own, *network)
    assert ran.code == 0
    assert "simulated: shared, all train" in ran.out
    said = json.loads(tfwave("burst", "share", plan, own, *network, "--json").out)
    assert said["simulated"] is True
    data_parallel, _, shared, *parted = said["operations"]
    assert said["samples_over_data_parallel"] == pytest.approx(shared["samples"] / data_parallel["samples"])
    as_much = [one for one in parted if one["samples"] >= shared["samples"]]
    fastest = max((one["speedup"] for one in as_much), default=math.inf)
    assert (said["speedup_over_parted"] or 0) == pytest.approx(shared["speedup"] / fastest)
    faster = json.loads(tfwave("burst", "share", plan, own, *network, "--background", other, "--json").out)
    assert faster["operations"][2]["background"] == pytest.approx(2 * shared["background"])
    slowed = json.loads(tfwave("burst", "share", plan, own, *network, "--slice", "500ms", "--json").out)
    assert slowed["operations"][2]["seconds"] > shared["seconds"]
