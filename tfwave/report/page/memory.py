"""What a step holds, tensor by tensor: as captured, and as the plan has it run."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate

from tfwave.bundle.bundle import Bundle
from tfwave.bundle.memory import CapturedMemory, captured_memory
from tfwave.bundle.memory.captured import memory_devices
from tfwave.errors import GraphError, PassError, PlanError
from tfwave.graph.item import GraphItem
from tfwave.graph.names import short_device
from tfwave.graph.verify import verify
from tfwave.memory.pool.lives import Life
from tfwave.memory.step import StepMemory
from tfwave.offload.captured import captured_step
from tfwave.offload.planned import planned_lives
from tfwave.plan.fingerprint import first_difference, graph_print
from tfwave.plan.groups import Groups
from tfwave.plan.match import check_jobs
from tfwave.plan.memory import METHODS, Memory
from tfwave.plan.plan import Plan
from tfwave.plan.waves import Waves
from tfwave.report.page.facts import Section, Table
from tfwave.report.page.given import Given
from tfwave.rewrite.waves.training import Training
from tfwave.sizes import in_words
from tfwave.waves.fit import wave_starts

MOST_BANDS = 24
"""Tensors that have a band of their own, those that hold most bytes for longest; the rest have one together."""
MOST_POINTS = 400

Point = tuple[float, int]


@dataclass(frozen=True)
class Band:
    """A tensor and its life, in the unit of its view."""

    name: str
    bytes: int
    begin: float
    end: float
    made_by: str
    read_by: str


@dataclass(frozen=True)
class Mark:
    """A group, or a wave, from when on until when."""

    name: str
    begin: float
    end: float

    @classmethod
    def of_seconds(cls, name: str, begin: float, end: float) -> "Mark":
        """In the unit of a captured view, ms."""
        return cls(name, _ms(begin), _ms(end))


@dataclass(frozen=True)
class View:
    """A curve of bytes over time: ms, or the number of an op where a plan has them one after the other."""

    title: str
    unit: str
    points: tuple[Point, ...]
    resident: int
    bands: tuple[Band, ...]
    limit: int | None = None
    marks: tuple[Mark, ...] = ()


def memory_section(given: Given) -> Section | None:
    """None where no trace tells of memory.

    Raises:
        PlanError: the plan keeps another step to its limit, or its jobs are others.
        BundleError, GraphError: as `captured_step`.
    """
    views = [view for bundle in [*given.bundles.values()][:1] for view in _views(bundle, given.plan)]
    return section_of(views) if views else None


def section_of(views: Sequence[View]) -> Section:
    """A chart and a table of one view or more."""
    peaks = [f"{view.title}: peak {in_words(max(held for _, held in view.points))}" for view in views]
    rows = [
        (
            view.title,
            b.name,
            in_words(b.bytes),
            f"{b.begin:.2f}",
            f"{b.end:.2f}",
            view.unit,
            b.made_by,
            b.read_by,
        )
        for view in views
        for b in view.bands
    ]
    columns = ["view", "tensor", "size", "from", "until", "unit", "made by", "last read by"]
    return Section(
        "memory",
        "What a step holds in memory",
        f"{'; '.join(peaks)}.",
        {"views": [asdict(view) for view in views]},
        Table(columns, rows),
        Table(columns, rows[:10]),
    )


def _views(bundle: Bundle, plan: Plan | None) -> Iterator[View]:
    fitted = plan.memory if plan else None
    if plan is not None and plan.groups is not None:
        check_jobs(plan.groups, bundle.view)
    found = [captured_memory(bundle, device) for device in memory_devices(bundle)]
    found.sort(key=lambda captured: -captured.memory.profile.peak)
    for captured in found:
        yield _captured_view(bundle, captured, plan)
    if fitted is None or not found:
        return
    own = [f for f in found if {op.node for op in f.memory.profile.ops} == set(fitted.order)]
    if not own:
        raise PlanError(
            "the plan's section memory is for another step than that of the capture: make it again"
        )
    if not fitted.places:
        yield _planned_view(bundle, own[0].memory.profile.device, fitted)


def _captured_view(bundle: Bundle, captured: CapturedMemory, plan: Plan | None) -> View:
    memory = captured.memory
    title = f"{short_device(memory.profile.device)}, as captured"
    limit = plan.memory.limit_bytes if plan and plan.memory else None
    return step_view(memory, title, limit, tuple(_marks(bundle, memory, plan)))


def step_view(memory: StepMemory, title: str, limit: int | None, marks: Sequence[Mark]) -> View:
    """What a step was seen to hold."""
    ops = memory.profile.ops
    bands: list[Band] = []
    for tensor in memory.tensors:
        begin, end = memory.life(tensor)
        until = memory.seconds if end is None else end
        bands.append(
            Band(
                tensor.names[0],
                tensor.bytes,
                _ms(begin),
                _ms(until),
                ops[tensor.born].node,
                ops[tensor.read].node,
            )
        )
    return View(
        title,
        "ms",
        thinned([(_ms(at), held) for at, held in memory.curve_to_end]),
        memory.profile.resident,
        _largest(bands),
        limit,
        tuple(marks),
    )


def _planned_view(bundle: Bundle, device: str, fitted: Memory) -> View:
    """Op after op; what comes back from where it was away has a band of its own."""
    step = captured_step(bundle, device).step
    lives = planned_lives(step, fitted)
    labelled = [each for method in METHODS for each in fitted.labelled(method)]
    back = {label: tensor.names[0] for label, tensor in labelled}
    bands = [
        Band(
            life.op,
            life.bytes,
            life.born / 2,
            life.dies / 2,
            life.op,
            f"for {back[label]}, which comes back"
            if (label := life.op.rpartition("/")[2]) in back
            else fitted.order[(life.dies - 1) // 2],
        )
        for life in lives
    ]
    return View(
        f"{short_device(device)}, as planned",
        "op",
        thinned(_held(lives, step.resident, len(fitted.order))),
        step.resident,
        _largest(bands),
        fitted.limit_bytes,
    )


def _largest(bands: Iterable[Band]) -> tuple[Band, ...]:
    return tuple(sorted(bands, key=lambda b: (-b.bytes * (b.end - b.begin), b.begin, b.name))[:MOST_BANDS])


def _held(lives: Iterable[Life], resident: int, ops: int) -> list[Point]:
    """Bytes from each op on, at its begin and its end."""
    changes = [0] * (2 * ops + 1)
    for life in lives:
        changes[life.born] += life.bytes
        changes[min(life.dies, 2 * ops)] -= life.bytes
    held = list(accumulate(changes, initial=resident))[1:]
    return [(moment / 2, size) for moment, size in enumerate(held)]


def _marks(bundle: Bundle, memory: StepMemory, plan: Plan | None) -> Iterator[Mark]:
    if plan is not None and plan.groups is not None:
        yield from _group_marks(bundle, memory, plan.groups)
    if plan is not None and plan.waves is not None and plan.waves.count > 1:
        start = _second_wave(bundle, memory, plan.waves)
        if start is not None:
            yield Mark.of_seconds("the second wave begins", start, memory.seconds)


def _group_marks(bundle: Bundle, memory: StepMemory, groups: Groups) -> Iterator[Mark]:
    """The node groups of the job whose step this is, from their first op's begin to their last's end.

    Jobs of one model at several batches have ops of the same names.
    """
    ran, own = {op.node for op in memory.profile.ops}, graph_print(bundle.view)
    for planned in groups.jobs:
        number = {name: i for i, group in enumerate(planned.job.groups) for name in group.ops}
        if planned.graph != own or not ran <= number.keys():
            continue
        spans: dict[int, list[float]] = {}
        for op, begin, end in zip(memory.profile.ops, memory.begins, memory.ends, strict=True):
            spans.setdefault(number[op.node], []).extend((begin, end))
        for group, times in sorted(spans.items()):
            yield Mark.of_seconds(f"group {group}", min(times), max(times))
        return


def _second_wave(bundle: Bundle, memory: StepMemory, waves: Waves) -> float | None:
    """When it begins by the model, in seconds.

    None where the plan is for a graph that the bundle does not hold, or where that does not tell the passes of the
    step apart, as of many a tf.function.
    """
    graph, *more = bundle.graphs
    if more or first_difference(waves.graph, bundle.view) is not None:
        return None
    item = GraphItem(graph, fetches=tuple(bundle.manifest.fetches))
    try:
        return wave_starts(Training.of(item, verify(item)), memory, [waves.offset])[0]
    except (GraphError, PassError, PlanError):
        return None


def thinned(points: Sequence[Point]) -> tuple[Point, ...]:
    """At most about `MOST_POINTS`, first and last among them: of each stretch of time its least and its most."""
    if len(points) <= MOST_POINTS:
        return tuple(points)
    begin, end = points[0][0], points[-1][0]
    edges = [begin + (end - begin) * i / (MOST_POINTS // 2) for i in range(1, MOST_POINTS // 2)]
    stretches: dict[int, list[int]] = {}
    for number, (at, _) in enumerate(points):
        stretches.setdefault(bisect_right(edges, at), []).append(number)
    kept = {0, len(points) - 1}
    for own in stretches.values():
        kept |= {min(own, key=lambda i: points[i][1]), max(own, key=lambda i: points[i][1])}
    return tuple([points[i] for i in sorted(kept)])


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 4)
