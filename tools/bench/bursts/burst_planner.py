"""Burst plans against all plans that there are, and against those of DeepPool's released search on its own tables.

1. Random small models of each family: those that have a faster plan within the limit, or a plan that is not as the
   planner says, passes the limit, or has more devices than there are. The limit is asked of each edge; where
   branches meet, "summed" are those that pass it with what all edges move together.
2. VGG-16 and WideResNet-101-2 from the released A100 tables, batch 32, on 8 GPUs. The released search passes its
   own limit; so it is held against the plan at the limit that it does keep to, too.

Nothing of it is timed, so it says the same on a busy machine; the planner's own time is in burst.py.

    tools/bench/bursts/burst_planner.py                     a thousand models of each family: minutes
    tools/bench/bursts/burst_planner.py --models 20         to see whether it works
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.property.burst_trials import FAMILIES, Tried, tried
from tfwave.burst.costs import LayerCosts
from tfwave.burst.network import Network
from tfwave.burst.released import read_released
from tfwave.burst.search import Choice, fastest
from tfwave.burst.section import device_counts, work_of

TABLES = Path(__file__).resolve().parents[3] / "tests" / "unit" / "burst"
MODELS = {"VGG-16": "A100_vgg.prof", "WideResNet-101-2": "A100_wrn.prof"}
DEVICES, BATCH = 8, 32
NVSWITCH = Network(2.66e11, 40e-6)
"""As the released programs have it."""
EXEMPT_SECONDS = 300e-6
"""The released search asks no limit of shorter layers."""
LIMITS = (1.25, 1.5, 2.0, 3.0, 5.0, 8.0)
_ROUNDING = 1 + 1e-9


def family(name: str, models: int) -> dict[str, object]:
    """Part 1, of one."""
    found = [tried(name, seed) for seed in range(models)]
    return {
        "family": name,
        "models": models,
        "not_optimal": sum(not one.is_optimal for one in found),
        "worst_over_optimum": max(one.planned / one.best for one in found),
        "not_as_said": sum(not one.is_as_said for one in found),
        "over_limit": sum(not one.keeps_limit for one in found),
        "over_limit_summed": sum(not one.keeps_limit_summed for one in found),
        "over_capacity": sum(not one.keeps_capacity for one in found),
        "seeds_of_wrong": wrong(found),
    }


def wrong(found: list[Tried]) -> list[int]:
    return [seed for seed, one in enumerate(found) if not one.is_right]


def released_search(costs: LayerCosts, limit: float) -> Choice:
    """The counts that the released `searchLinear` chooses for a chain.

    The limit is asked of the layer before, with what the fastest way to it moved; where no way keeps to it, one
    of a lesser amplification than the last that was taken will do; and layers of under 300 us are exempt.
    """
    counts = costs.counts
    reached, last = [0.0 for _ in counts], [0.0 for _ in counts]
    ways: list[list[int]] = []
    for layer in range(len(costs.names)):
        now = [_extended(costs, layer, here, (reached, last), limit) for here in range(len(counts))]
        ways.append([before for _, _, before in now])
        reached, last = [seconds for seconds, _, _ in now], [own for _, own, _ in now]
    at = int(np.argmin(reached))
    chosen = [at]
    for way in reversed(ways[1:]):
        at = way[at]
        chosen.append(at)
    chosen.reverse()
    return Choice((0,) * len(chosen), tuple(counts[kind] for kind in chosen), min(reached))


def _extended(
    costs: LayerCosts, layer: int, here: int, before: tuple[list[float], list[float]], limit: float
) -> tuple[float, float, int]:
    """The way to a layer with a count: its seconds, those of the layer with its move, and the count before."""
    best, step, chosen, amplified = float("inf"), float("inf"), 0, float("inf")
    own = float(costs.own[layer, here])
    for way, (reached, last) in enumerate(zip(*before, strict=True)):
        moved = float(costs.near[layer - 1, way, here]) if layer else 0.0
        asked = layer and costs.alone[layer - 1] > EXEMPT_SECONDS
        amplification = last * costs.counts[way] / costs.alone[layer - 1] if asked else 1.0
        if reached + moved + own < best and (amplification < limit or amplification < amplified):
            best, step, chosen, amplified = reached + moved + own, moved + own, way, amplification
    return best, step, chosen


def worst_layer(costs: LayerCosts, choice: Choice) -> float:
    """The most device-seconds of a layer over those on one device."""
    return float((work_of(costs, choice) / costs.alone).max())


def table(model: str) -> list[dict[str, object]]:
    """Part 2, of one, at each limit."""
    costs = read_released(TABLES / MODELS[model]).costs(BATCH, device_counts(DEVICES, BATCH), NVSWITCH)
    return [{"model": model, "limit": limit} | beside_released(costs, limit) for limit in LIMITS]


def beside_released(costs: LayerCosts, limit: float) -> dict[str, object]:
    theirs, ours = released_search(costs, limit), fastest(costs, limit)
    kept = worst_layer(costs, theirs)
    equal = fastest(costs, max(kept, 1.0))
    return {
        "released": {"seconds": theirs.seconds, "worst_layer": kept},
        "planned": {"seconds": ours.seconds, "worst_layer": worst_layer(costs, ours)},
        "at_equal_limit": {"seconds": equal.seconds, "worst_layer": worst_layer(costs, equal)},
        "is_as_fast_at_an_equal_limit": equal.seconds <= theirs.seconds * _ROUNDING,
        "most_devices": max(first + count for first, count in zip(ours.first, ours.count, strict=True)),
    }


def main() -> None:
    """Compare, and say it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=int, default=1000, help="of each family")
    arguments = parser.parse_args()
    families = [family(name, arguments.models) for name in FAMILIES]
    print(
        json.dumps(
            {"families": families, "tables": [row for model in MODELS for row in table(model)]}, indent=1
        )
    )


if __name__ == "__main__":
    main()
