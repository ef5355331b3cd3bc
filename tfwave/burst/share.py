"""A cluster on which a burst job's idle devices train other jobs: a simulation (DeepPool sections 5 and 7)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from tfwave.burst.costs import LayerCosts
from tfwave.burst.network import Network
from tfwave.burst.profile import Profile
from tfwave.burst.section import device_counts
from tfwave.errors import PlanError
from tfwave.plan.layers import LayerDevices, Layers

STEPS = 64
"""Of the foreground that are simulated: where the background's slices begin differs from one to the next."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Operation:
    """One way to use the cluster.

    Attributes:
        name: what the foreground has: "data parallel", "burst", "burst, shared", or "2 devices".
        seconds: of a step of the foreground.
        speedup: of that, over a step on one device.
        foreground: samples that it trains a second.
        background: samples a second that the other jobs train, all together.
    """

    name: str
    seconds: float
    speedup: float
    foreground: float
    background: float

    @property
    def samples(self) -> float:
        """A second, of all jobs."""
        return self.foreground + self.background


@dataclass(frozen=True)
class Background:
    """Jobs that train a model each on one device, and take what the foreground leaves of it.

    Attributes:
        profile: of the model.
        batch: samples of a step.
        slice_seconds: for how long a job keeps a device that the foreground wants back, at most; 0: it gives way at
            once, as a process does at SCHED_IDLE.

    Raises:
        PlanError: a slice below 0.
    """

    profile: Profile
    batch: int
    slice_seconds: float

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if not 0 <= self.slice_seconds < math.inf:
            raise PlanError(f"a slice of {self.slice_seconds} s cannot be: give 0 or more")

    @property
    def rate(self) -> float:
        """Samples a second on a device of its own.

        Raises:
            MissingCost: the profile has no time of that many samples.
            PlanError: it takes no time.
        """
        seconds = sum(layer.seconds_of(self.batch) for layer in self.profile.layers)
        if not seconds > 0:
            raise PlanError(
                "the background takes no time by its profile, so its samples a second are not known"
            )
        return self.batch / seconds


def operations(
    layers: Layers, profile: Profile, network: Network, background: Background
) -> tuple[Operation, ...]:
    """Every layer on all devices; the plan, without and with a background; and clusters parted in two.

    Where it is parted, the foreground has some devices for all its layers, and each other device is a background's.

    Raises:
        CostError: the profile cannot be used, or lacks a time; names the layer.
        PlanError: the plan is of other layers, or they take no time.
    """
    _check_layers(layers, profile)
    parts = device_counts(layers.devices, layers.batch)
    counts = tuple(sorted({*parts, *(layer.count for layer in layers.layers)}))
    costs = profile.costs(layers.batch, counts, network)
    alone = float(costs.alone.sum())
    if not alone > 0:
        raise PlanError("the layers take no time by the profile, so no speed-up is known")

    def operation(name: str, seconds: float, background_share: float) -> Operation:
        """`background_share`: devices' worth of seconds that the background has in each second."""
        rate = background_share * background.rate
        return Operation(name, seconds, alone / seconds, layers.batch / seconds, rate)

    plan = layers.layers
    burst = simulate(costs, plan, layers.devices, math.inf).seconds
    shared = simulate(costs, plan, layers.devices, background.slice_seconds)
    on_all, *fewer = [simulate(costs, _all_on(costs, k), k, math.inf).seconds for k in reversed(parts)]
    return (
        operation("data parallel", on_all, layers.devices - parts[-1]),
        operation("burst", burst, 0),
        operation("burst, shared", shared.seconds, shared.background / shared.seconds),
        *(
            operation(f"{k} device{'s' * (k > 1)}", seconds, layers.devices - k)
            for k, seconds in zip(reversed(parts[:-1]), fewer, strict=True)
        ),
    )


@dataclass(frozen=True)
class Simulated:
    """Means over steps: seconds of one, and of the background in it, all devices together."""

    seconds: float
    background: float


def simulate(
    costs: LayerCosts, layers: Sequence[LayerDevices], devices: int, slice_seconds: float, steps: int = STEPS
) -> Simulated:
    """A foreground whose layers run on their devices, and a background on each device between them.

    1. A layer takes its devices when all that it reads has run and each has ended its slice of the background. So
       waiting for what moves to it is its own time, as in the plan's device-seconds. Then it runs undisturbed.
    2. A device that no layer has taken begins a slice at once, and another one when that ends.
    3. An infinite slice is none: there is no background.
    """
    kinds = [costs.counts.index(layer.count) for layer in layers]
    reads: list[list[tuple[int, float]]] = [[] for _ in layers]
    for number, (before, here) in enumerate(costs.edges):
        table = costs.near if layers[before].first == layers[here].first else costs.far
        reads[here].append((before, float(table[number, kinds[before], kinds[here]])))
    cluster = _Devices([0.0] * devices, slice_seconds)
    now = 0.0
    for _ in range(steps):
        done: list[float] = []
        for number, layer in enumerate(layers):
            own = range(layer.first, layer.first + layer.count)
            taken = cluster.take(own, max((done[before] for before, _ in reads[number]), default=now))
            arrived = max((done[before] + moved for before, moved in reads[number]), default=taken)
            done.append(max(taken, arrived) + float(costs.own[number, kinds[number]]))
            cluster.leave(own, done[-1])
        now = max(done)
    return Simulated(now / steps, cluster.given_until(now) / steps)


@dataclass
class _Devices:
    """Since when each has been free of the foreground, and the seconds that the background had so far."""

    free: list[float]
    slice_seconds: float
    given: float = field(default=0.0)

    def take(self, devices: range, wanted: float) -> float:
        """When all of them have ended their slices."""
        ends = [self._slice_end(self.free[device], wanted) for device in devices]
        if self.slice_seconds < math.inf:
            self.given += sum(end - self.free[device] for device, end in zip(devices, ends, strict=True))
        return max(ends)

    def leave(self, devices: range, at: float) -> None:
        """The foreground is done with them."""
        for device in devices:
            self.free[device] = at

    def given_until(self, now: float) -> float:
        """With what it had since the foreground left each device."""
        left = sum(now - free for free in self.free) if self.slice_seconds < math.inf else 0.0
        return self.given + left

    def _slice_end(self, free: float, wanted: float) -> float:
        if wanted <= free or self.slice_seconds in (0, math.inf):
            return max(free, wanted)
        slices = math.ceil((wanted - free) / self.slice_seconds - _ROUNDING)
        return max(wanted, free + slices * self.slice_seconds)


def _all_on(costs: LayerCosts, count: int) -> list[LayerDevices]:
    return [LayerDevices(name, 0, count) for name in costs.names]


def _check_layers(layers: Layers, profile: Profile) -> None:
    planned, profiled = ([layer.name for layer in some] for some in (layers.layers, profile.layers))
    if planned != profiled:
        odd = sorted({*planned} ^ {*profiled}) or ["in another order"]
        raise PlanError(
            f"the plan's layers are not those of the profile ({', '.join(odd)[:200]}): give the profile that "
            "it was made from"
        )
