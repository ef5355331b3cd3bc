"""Timing modes against each other: in turn, one block of each a repeat, so that all see the same machine."""

import statistics
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

ETHERNET_SHARE = 1448 / 1514
"""TCP payload in an Ethernet frame, as a link's rate counts frames."""

Blocks = dict[str, list[list[float]]]
"""Seconds of each step, in blocks, by mode."""

_Block = TypeVar("_Block")


def wire_seconds(sizes: Iterable[int], bits_per_second: float) -> float:
    """How long the bytes alone take on a link."""
    return sum(sizes) / (bits_per_second / 8 * ETHERNET_SHARE)


def run_interleaved(modes: Mapping[str, Callable[[], _Block]], repeats: int) -> dict[str, list[_Block]]:
    """Run a block of each mode, `repeats` times; the order of the modes turns each time."""
    blocks: dict[str, list[_Block]] = {mode: [] for mode in modes}
    for repeat in range(repeats):
        for mode in list(modes) if repeat % 2 == 0 else list(modes)[::-1]:
            blocks[mode].append(modes[mode]())
    return blocks


def paired_ratio(ones: Iterable[float], others: Iterable[float]) -> float:
    """How many times the others: the median of pairs."""
    return statistics.median(one / other for one, other in zip(ones, others, strict=True))


def against_floor(blocks: Blocks, floor: float) -> dict[str, object]:
    """Of the modes "overlapped" and "stock", where a step takes at least `floor`; throughput is paired by block."""
    modes = figures(blocks, "stock", floor)
    return {
        "bound_seconds": floor,
        "throughput": paired_ratio(*(map(statistics.median, blocks[m]) for m in ("stock", "overlapped"))),
        "over_bound": modes["overlapped"]["over_wire"],
        "modes": modes,
    }


def forecast_against(blocks: Blocks, mode: str, stock: float, seconds: float) -> dict[str, float]:
    """What was forecast of a mode, seconds of its steps and of stock ones and the gain, beside what came of it."""
    medians = {
        name: statistics.median(t for block in of_mode for t in block) for name, of_mode in blocks.items()
    }
    return {
        "stock_seconds": stock,
        "seconds": seconds,
        "gain": 1 - seconds / stock,
        "measured_gain": 1 - medians[mode] / medians["stock"],
        "stock_error": stock / medians["stock"] - 1,
        "error": seconds / medians[mode] - 1,
    }


def figures(blocks: Blocks, baseline: str, wire: float) -> dict[str, dict[str, object]]:
    """Of each mode. The ratio to the baseline is that of the two blocks of a repeat; the median of them.

    One step alone has no deviation: None.
    """
    medians = {mode: [statistics.median(block) for block in of_mode] for mode, of_mode in blocks.items()}
    steps = {mode: [t for block in of_mode for t in block] for mode, of_mode in blocks.items()}
    return {
        mode: {
            "steps": len(times),
            "median_seconds": statistics.median(times),
            "stdev_seconds": statistics.stdev(times) if len(times) > 1 else None,
            "over_wire": statistics.median(times) / wire,
            f"paired_ratio_to_{baseline}": paired_ratio(medians[mode], medians[baseline]),
            "blocks_seconds": medians[mode],
        }
        for mode, times in steps.items()
    }
