"""A burst plan: the search, and what it found as the section of a plan."""

import math
from collections.abc import Sequence

import numpy as np

from tfwave.burst.costs import LayerCosts
from tfwave.burst.job_limit import fastest_together
from tfwave.burst.network import Network
from tfwave.burst.profile import Profile
from tfwave.burst.search import Choice, fastest
from tfwave.errors import PlanError
from tfwave.plan.layers import OF_JOB, OF_LAYER, LayerDevices, Layers


def device_counts(devices: int, batch: int) -> tuple[int, ...]:
    """The numbers of devices to choose from: powers of two, and all that there are; none above the batch.

    Raises:
        PlanError: there is no device, or no sample.
    """
    if devices < 1 or batch < 1:
        raise PlanError(
            f"a burst plan for {devices} devices and a batch of {batch} cannot be: give at least 1"
        )
    powers = [1 << bit for bit in range(devices.bit_length())]
    return tuple(count for count in sorted({*powers, devices}) if count <= batch)


def plan_layers(  # noqa: PLR0913
    profile: Profile,
    devices: int,
    batch: int,
    network: Network,
    *,
    counts: Sequence[int] = (),
    limit: float | None = None,
    limit_of: str = OF_LAYER,
) -> Layers:
    """The fastest plan within the limit of device-seconds; `counts` are the numbers of devices to choose from.

    Raises:
        CostError: the profile cannot be used, or lacks a time; names the layer.
        PlanError: the limit is below 1, or more devices are to be used than there are; or as `fastest`.
    """
    kinds = tuple(sorted({1, *counts})) if counts else device_counts(devices, batch)
    if kinds[0] < 1 or kinds[-1] > min(devices, batch):
        raise PlanError(
            f"a layer cannot run on {kinds[0] if kinds[0] < 1 else kinds[-1]} devices: there are {devices}, for a "
            f"batch of {batch}"
        )
    costs = profile.costs(batch, kinds, network)
    if limit is not None and limit_of == OF_JOB:
        choice, bound = fastest_together(costs, limit)
    else:
        choice = fastest(costs, math.inf if limit is None else limit)
        bound = choice.seconds
    everywhere = Choice((0,) * len(costs.names), (kinds[-1],) * len(costs.names), 0.0)
    return Layers(
        devices=devices,
        batch=batch,
        limit=limit or 0.0,
        limit_of=limit_of,
        layers=tuple(map(LayerDevices, costs.names, choice.first, choice.count)),
        seconds=choice.seconds,
        bound_seconds=bound,
        one_device_seconds=float(costs.alone.sum()),
        device_seconds=float(work_of(costs, choice).sum()),
        data_parallel_seconds=_in_turn(costs, everywhere),
    )


def work_of(costs: LayerCosts, choice: Choice) -> np.ndarray:
    """Device-seconds of each layer, with all that it reads moved to it."""
    kinds = [costs.counts.index(count) for count in choice.count]
    seconds = np.array([costs.own[layer, kind] for layer, kind in enumerate(kinds)])
    for edge, (before, here) in enumerate(costs.edges):
        table = costs.near if choice.first[before] == choice.first[here] else costs.far
        seconds[here] += table[edge, kinds[before], kinds[here]]
    return seconds * np.array(choice.count)


def _in_turn(costs: LayerCosts, choice: Choice) -> float:
    """Seconds of a step in which one layer runs after the other."""
    return float((work_of(costs, choice) / np.array(choice.count)).sum())
