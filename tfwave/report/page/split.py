"""What a worker does in a step: it computes, something is on the way to or from it, both, or neither."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from tfwave.bundle.bundle import Bundle
from tfwave.graph.names import short_device
from tfwave.planner.workers import pulling_devices
from tfwave.report.iterations import Work, traced_work
from tfwave.report.page.facts import Section, Table
from tfwave.report.page.given import Given
from tfwave.sizes import milliseconds

Span = tuple[float, float]


@dataclass(frozen=True)
class Split:
    """Seconds of a step of one worker; the four add up to it."""

    compute: float
    both: float
    transfer: float
    idle: float

    @property
    def seconds(self) -> float:
        """Of the whole step."""
        return self.compute + self.both + self.transfer + self.idle

    @property
    def overlap(self) -> float:
        """The share of the time with transfers in which the worker computed, too; 0 without transfers."""
        on_the_way = self.both + self.transfer
        return self.both / on_the_way if on_the_way else 0.0


def split_section(given: Given) -> Section | None:
    """The mean over the traced steps, by mode and worker; None where nothing was traced."""
    rows = [
        (mode, short_device(device), split)
        for mode, bundle in given.bundles.items()
        for device, split in splits(bundle).items()
    ]
    if not rows:
        return None
    parts = ("compute", "both", "transfer", "idle")
    return Section(
        "split",
        "Idle, compute, transfer",
        "The mean traced step of each worker. Overlap is the share of the time with transfers in which the worker "
        "computed, too.",
        {
            "rows": [f"{device}, {mode}" for mode, device, _ in rows],
            "parts": {part: [round(getattr(s, part) * 1e3, 3) for *_, s in rows] for part in parts},
            "overlap": [round(s.overlap, 4) for *_, s in rows],
        },
        Table(
            ["mode", "worker", "step", "compute only", "both", "transfer only", "idle", "overlap"],
            [(mode, device, *_cells(s)) for mode, device, s in rows],
        ),
    )


def splits(bundle: Bundle) -> dict[str, Split]:
    """Of each worker the mean over the traced steps in which it ran something; all devices, where nobody pulls."""
    pulling = pulling_devices(bundle.view, bundle.transfers.data)
    devices = sorted(pulling or {node.device for node in bundle.view.nodes})
    steps = traced_work(bundle, pulling)
    found = {device: [_of_device(step[device]) for step in steps if step[device].runs] for device in devices}
    return {device: _mean(own) for device, own in found.items() if own}


def mean_overlap(bundle: Bundle) -> float | None:
    """Over all workers; None without transfers."""
    found = [split.overlap for split in splits(bundle).values() if split.both + split.transfer]
    return statistics.fmean(found) if found else None


def _of_device(work: Work) -> Split:
    return split_of(work.runs, [(r.start_seconds, r.end_seconds) for r in work.records])


def split_of(runs: Iterable[Span], sent: Iterable[Span]) -> Split:
    """From the spans in which ops ran and in which tensors were on the way, each from (begin, end), in seconds."""
    changes = sorted(
        [
            (at, kind, change)
            for kind, spans in enumerate((runs, sent))
            for b, e in spans
            for at, change in ((b, 1), (e, -1))
        ]
    )
    seconds = {(False, False): 0.0, (True, False): 0.0, (False, True): 0.0, (True, True): 0.0}
    busy = [0, 0]
    last = changes[0][0] if changes else 0.0
    for at, kind, change in changes:
        seconds[busy[0] > 0, busy[1] > 0] += at - last
        busy[kind] += change
        last = at
    return Split(seconds[True, False], seconds[True, True], seconds[False, True], seconds[False, False])


def _mean(found: list[Split]) -> Split:
    mean = statistics.fmean
    return Split(
        mean(s.compute for s in found),
        mean(s.both for s in found),
        mean(s.transfer for s in found),
        mean(s.idle for s in found),
    )


def _cells(split: Split) -> tuple[str, ...]:
    parts = (split.seconds, split.compute, split.both, split.transfer, split.idle)
    return (*map(milliseconds, parts), f"{split.overlap:.1%}")
