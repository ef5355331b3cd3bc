"""A step without and with the order, as bars on lanes: servers, links, workers."""

import heapq
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfwave.bundle.bundle import Bundle
from tfwave.bundle.links import service_seconds
from tfwave.bundle.step_stats import TransferRecord, op_runs
from tfwave.cost.model import WIRE_OPS
from tfwave.errors import MissingCost
from tfwave.graph.names import Channel, edge_source, short_channel
from tfwave.plan.plan import Plan
from tfwave.planner.workers import pulling_devices
from tfwave.proto.tensorflow_pb2 import StepStats
from tfwave.report.page.facts import Section, Table
from tfwave.report.page.given import CAPTURED, Given
from tfwave.sim.timeline import Interval, in_rows
from tfwave.sizes import milliseconds
from tfwave.whatif.change import Change
from tfwave.whatif.predict import predict
from tfwave.whatif.subject import bundle_subject

MOST_BARS = 20_000
"""More are not drawn: the shortest are left out, and the page says so."""
SIMULATED = "planned (simulated)"

_SERVERS_JOB = "ps"

_Run = tuple[tuple[str, str], tuple[float, float]]
"""Of an op: (device, node), and begin and end."""


@dataclass(frozen=True)
class Bar:
    """An interval of a step, with what a plan and a trace tell of a transfer.

    `wait_seconds` is from when the sender had the tensor until its channel worked on it; None: not traced. `rank`
    is None where no plan orders it.
    """

    interval: Interval
    wait_seconds: float | None = None
    rank: int | None = None


def timeline_section(given: Given) -> Section | None:
    """The traced step of median length of each mode; of one capture and a plan, also what that makes of it."""
    shown = {mode: _traced_bars(bundle, given.plan) for mode, bundle in given.bundles.items()}
    unknown = ""
    if given.plan is not None and given.plan.orders and list(shown) == [CAPTURED]:
        try:
            shown[SIMULATED] = _simulated_bars(given.bundles[CAPTURED], given.plan)
        except MissingCost as error:
            unknown = f" What the plan makes of it is not known: {error}."
    if not any(shown.values()):
        return None
    kinds = _lane_kinds(given.bundles.values())
    kept, left_out = _longest(shown)
    ends = {mode: max(bar.interval.end_seconds for bar in bars) for mode, bars in shown.items() if bars}
    text = ", ".join(f"{mode}: {milliseconds(end)}" for mode, end in ends.items())
    return Section(
        "timeline",
        "One step, op by op and transfer by transfer",
        f"The step of median length of each capture. {text}. Of ordered transfers the darker have the later ranks."
        f"{left_out}{unknown}",
        _chart(kept, kinds),
        summary=_summary(shown, kinds),
    )


def _traced_bars(bundle: Bundle, plan: Plan | None) -> list[Bar]:
    """Of the step whose last event is the median's; sends and receives as ops only wait."""
    waiting = {(node.device, node.name) for node in bundle.view.nodes if node.op in WIRE_OPS}
    steps = list(zip(bundle.steps, bundle.records, strict=True))
    ends = [
        max([0.0, *(end for _, (_, end) in _kernels(stats, waiting)), *(r.end_seconds for r in records)])
        for stats, records in steps
    ]
    stats, records = steps[ends.index(statistics.median_low(ends))]
    kernels = _kernels(stats, waiting)
    ops = [Bar(Interval(begin, end, device, name, "op")) for (device, name), (begin, end) in kernels]
    return [*ops, *_transfer_bars(records, _ranks(plan))]


def _kernels(stats: StepStats, waiting: Collection[tuple[str, str]]) -> Iterator[_Run]:
    """The ops that took time."""
    return (run for run in op_runs(stats) if run[1][1] > run[1][0] and run[0] not in waiting)


def _transfer_bars(
    records: Iterable[TransferRecord], ranks: Mapping[tuple[str, Channel], int]
) -> Iterator[Bar]:
    for record, seconds in service_seconds(records):
        begin, end = record.end_seconds - seconds, record.end_seconds
        interval = Interval(begin, end, str(record.channel), record.edge, "transfer", record.bytes)
        yield Bar(interval, begin - record.start_seconds, ranks.get((record.edge, record.channel)))


def _simulated_bars(bundle: Bundle, plan: Plan) -> list[Bar]:
    found = predict(bundle_subject(bundle, _SERVERS_JOB), Change(), plan)
    ranks = {(edge, str(channel)): rank for (edge, channel), rank in _ranks(plan).items()}
    return [
        Bar(each, rank=ranks.get((each.name, each.resource)))
        for each in found.ordered.intervals
        if each.kind != "control" and each.seconds > 0
    ]


def _ranks(plan: Plan | None) -> dict[tuple[str, Channel], int]:
    return {(t.edge, t.key.channel): t.rank for t in plan.transfers} if plan else {}


def _lane_kinds(bundles: Iterable[Bundle]) -> dict[str, str]:
    """Of each resource: "worker" for devices that pull or where nobody sends, "server" for the others."""
    kinds: dict[str, str] = {}
    for bundle in bundles:
        pulling = pulling_devices(bundle.view, bundle.transfers.data)
        for node in bundle.view.nodes:
            kinds[node.device] = "worker" if node.device in pulling or not pulling else "server"
    return kinds


def _longest(shown: Mapping[str, Sequence[Bar]]) -> tuple[dict[str, list[Bar]], str]:
    """The `MOST_BARS` longest bars of all modes together, and a word on those left out."""
    everything = [
        (_micros(bar.interval.seconds), -number, mode)
        for mode, bars in shown.items()
        for number, bar in enumerate(bars)
    ]
    if len(everything) <= MOST_BARS:
        return {mode: list(bars) for mode, bars in shown.items()}, ""
    kept = heapq.nlargest(MOST_BARS, everything)
    chosen = {mode: {-number for _, number, of in kept if of == mode} for mode in shown}
    said = (
        f" Of {len(everything):,} bars the {MOST_BARS:,} longest are drawn and listed; "
        f"what is left out took at most {kept[-1][0]} us each."
    )
    return {mode: [bars[i] for i in sorted(chosen[mode])] for mode, bars in shown.items()}, said


def _chart(shown: Mapping[str, Sequence[Bar]], kinds: Mapping[str, str]) -> dict[str, object]:
    """Lanes, names, and of each bar: lane, row, begin and length in us, name, bytes, rank, wait in us."""
    lanes = _lanes(shown, kinds)
    number = {lane: i for i, lane in enumerate(lanes)}
    names: dict[str, int] = {}
    bars: list[list[int | float | None]] = []
    rows = [1] * len(lanes)
    for mode, of_mode in shown.items():
        told = {bar.interval: bar for bar in of_mode}
        for interval, row in in_rows(bar.interval for bar in of_mode):
            lane, bar = number[mode, interval.resource], told[interval]
            rows[lane] = max(rows[lane], row + 1)
            tensor = edge_source(interval.name) if interval.kind == "transfer" else interval.name
            bars.append(
                [
                    lane,
                    row,
                    _micros(interval.begin_seconds),
                    _micros(interval.seconds),
                    names.setdefault(tensor, len(names)),
                    interval.bytes,
                    bar.rank,
                    None if bar.wait_seconds is None else _micros(bar.wait_seconds),
                ]
            )
    return {
        "modes": list(shown),
        "lanes": [
            {"mode": mode, "name": short_channel(resource), "kind": _kind(resource, kinds), "rows": rows[i]}
            for (mode, resource), i in number.items()
        ],
        "names": list(names),
        "bars": bars,
    }


def _lanes(shown: Mapping[str, Sequence[Bar]], kinds: Mapping[str, str]) -> list[tuple[str, str]]:
    """By mode, then servers, links, workers."""
    places = {"server": 0, "link": 1, "worker": 2}
    return [
        (mode, resource)
        for mode, bars in shown.items()
        for resource in sorted(
            {bar.interval.resource for bar in bars}, key=lambda r: (places[_kind(r, kinds)], r)
        )
    ]


def _summary(shown: Mapping[str, Sequence[Bar]], kinds: Mapping[str, str]) -> Table:
    """Of each lane: how many bars, and for how long they are."""
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for mode, bars in shown.items():
        for bar in bars:
            seconds[mode, bar.interval.resource].append(bar.interval.seconds)
    rows: list[tuple[str, str, str, int, str]] = []
    for mode, resource in _lanes(shown, kinds):
        own = seconds[mode, resource]
        rows.append((mode, _kind(resource, kinds), short_channel(resource), len(own), milliseconds(sum(own))))
    return Table(["step", "lane", "of", "bars", "in all"], rows)


def _kind(resource: str, kinds: Mapping[str, str]) -> str:
    return kinds.get(resource, "link")


def _micros(seconds: float) -> float:
    """To a tenth, which no clock tells."""
    return round(seconds * 1e6, 1)
