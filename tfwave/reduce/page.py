"""What a page says of reduces: who was waited for, who joined, and how long steps took."""

from collections.abc import Iterable, Sequence

from tfwave.reduce.options import Options
from tfwave.reduce.record import Seen, WorkerPart
from tfwave.reduce.update import ReduceFigures
from tfwave.report.page.facts import Answer, Facts, Figure, Section, Table
from tfwave.sizes import milliseconds

MOST_POINTS = 400
"""Of a curve of step times."""
_IN_SUMMARY = 10


def reduce_facts(options: Options, figures: ReduceFigures, seen: Seen) -> Facts:
    """All of the page that worker `options.rank` leaves."""
    rules = f"probes {options.probes}, local {options.local}, staleness {options.staleness}"
    sections = (_parts(seen), _times(seen.workers), _ticks(seen))
    return Facts(
        title=f"tfwave: the reduces of worker {options.rank}",
        inputs=(f"worker {options.rank} of {'a group of ' if options.groups else ''}{options.workers}",),
        answers=(_waited_for(seen.workers), _joined(figures, seen), Answer("What do I set?", f"{rules}.")),
        figures=_figures(figures, seen.workers),
        settings=Table(
            ["what", "set", "by"],
            [("reduces", rules, "tfwave.keras.PartialReduce, or tfwave.distribute.reduce")],
        ),
        sections=tuple([section for section in sections if section is not None]),
    )


def _waited_for(workers: Sequence[WorkerPart]) -> Answer:
    question = "Who is waited for?"
    worst = max(workers, key=lambda worker: worker.kept_waiting, default=None)
    if worst is None or not worst.kept_waiting:
        return Answer(question, "Nobody.", good=True)
    mean = milliseconds(worst.kept_waiting / worst.last)
    said = f"it came last in {worst.last:,} of the {worst.joined:,} reduces that it joined"
    return Answer(question, f"Worker {worst.rank} most: {said}, {mean} after the first one (mean).")


def _joined(figures: ReduceFigures, seen: Seen) -> Answer:
    said = f"{seen.complete:,} of {figures.reduces:,} reduces had a gradient of every worker"
    full = seen.complete == figures.reduces
    return Answer("Did all join?", f"{said}; in the mean {figures.joined:.0%} of them joined.", full or None)


def _figures(figures: ReduceFigures, workers: Sequence[WorkerPart]) -> tuple[Figure, ...]:
    longest = max([worker.longest_wait for worker in workers], default=0.0)
    return (
        Figure(f"{figures.reduces:,}", f"reduces counted, {figures.broken:,} broke"),
        Figure(f"{figures.joined:.0%}", "of the workers joined a reduce (mean)"),
        Figure(milliseconds(longest), "is the longest that a gradient waited for its reduce"),
        Figure(f"{figures.dropped:,}", "gradients of this worker were too stale, and dropped"),
    )


def _parts(seen: Seen) -> Section:
    columns = ["worker", "steps", "median step", "reduces", "joined", "share of the sums"]
    columns += ["came last", "kept waiting", "mean wait", "longest wait"]
    return Section(
        "reduces",
        "Who joined, and who was late",
        "Who came last kept the first waiting for so long in all, from that one's gradient to its own. A gradient "
        "waits until its reduce goes. The share is of the weight in all sums, whoever gave to them.",
        {},
        Table(columns, [_row(worker, seen.share(worker)) for worker in seen.workers]),
    )


def _row(worker: WorkerPart, share: float) -> tuple[int | str, ...]:
    return (
        worker.rank,
        worker.made,
        "" if worker.step is None else milliseconds(worker.step),
        worker.reduces,
        worker.joined,
        f"{share:.1%}",
        worker.last,
        milliseconds(worker.kept_waiting),
        milliseconds(worker.mean_wait),
        milliseconds(worker.longest_wait),
    )


def _times(workers: Iterable[WorkerPart]) -> Section | None:
    """The distribution of each worker's step times; None before there are steps."""
    times = {f"worker {worker.rank}": sorted(worker.steps) for worker in workers if worker.steps}
    if not times:
        return None
    ends = [(name, len(own), *map(milliseconds, (own[0], own[-1]))) for name, own in times.items()]
    return Section(
        "times",
        "How long steps took",
        "Each curve: the share of a worker's newest steps that took at most so long, without the waiting.",
        {"modes": [{"mode": name, "ms": _thinned(own)} for name, own in times.items()]},
        Table(["worker", "steps", "fastest", "slowest"], ends),
    )


def _thinned(times: Sequence[float]) -> list[float]:
    """So many of the sorted times, in ms, at equal distances; first and last among them."""
    count = min(len(times), MOST_POINTS)
    places = [number * (len(times) - 1) // max(1, count - 1) for number in range(count)]
    return [round(times[place] * 1e3, 3) for place in places]


def _ticks(seen: Seen) -> Section:
    rows = [
        (number, tick.rank, tick.gave, milliseconds(tick.waited_seconds) if tick.gave else "late")
        for number, ticks in reversed(seen.recent)
        for tick in ticks
    ]
    columns = ["reduce", "worker", "gradients", "waited"]
    return Section(
        "ticks",
        "Reduce by reduce",
        f"The newest {len(seen.recent):,}: how many gradients each worker gave, and how long the oldest waited. "
        "Who had none was late.",
        {},
        Table(columns, rows),
        Table(columns, rows[:_IN_SUMMARY]),
    )
