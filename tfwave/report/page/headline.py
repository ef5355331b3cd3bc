"""What a page says first: is it worth it, was the order kept, and four figures."""

import statistics
from collections.abc import Iterator, Sequence

from tfwave.cost.uniform import is_timed
from tfwave.plan.plan import Plan
from tfwave.report.conformance import conformance
from tfwave.report.page.facts import Answer, Figure
from tfwave.report.page.given import ORDERED, UNORDERED, Given, Measured
from tfwave.report.page.order import said_of
from tfwave.report.page.planned import settings
from tfwave.report.page.split import mean_overlap
from tfwave.sizes import in_words, milliseconds

MOST_FIGURES = 4


def answers(given: Given) -> tuple[Answer, ...]:
    """To the three questions, in this order."""
    return (_worth(given), _kept(given), _to_set(given.plan))


def figures(given: Given) -> tuple[Figure, ...]:
    """The first four that are known; measured ones before forecasts."""
    found = [*_measured(given), *_traced(given), *_planned(given.plan), *_captured(given)]
    return tuple(found[:MOST_FIGURES])


def _worth(given: Given) -> Answer:
    question = "Is it worth it?"
    if given.measured is not None:
        return Answer(question, *_judged(given, given.measured))
    said = [text for text in _verdicts(given.plan) if text]
    if said:
        gains = given.plan is not None and is_timed(given.plan.costs) and given.plan.predicted.gain_low > 0
        return Answer(question, f"Forecast, nothing was measured: {'; '.join(said)}.", gains or None)
    if given.plan is None:
        return Answer(question, "Not known: no plan was given. tfwave plan BUNDLE -o plan.json makes one.")
    return Answer(question, "Not known: the plan was made without times, and nothing was measured.")


def _judged(given: Given, measured: Measured) -> tuple[str, bool | None]:
    """By medians; clear where three of four steps of one mode are faster than three of four of the other."""
    before, after = given.figures[UNORDERED].median_seconds, given.figures[ORDERED].median_seconds
    said = f"ordered steps take {milliseconds(after)}, unordered ones {milliseconds(before)}"
    equal = "bit-equal" if measured.outputs_equal else "not equal"
    said += f", {before / after:.2f} x the throughput; outputs are {equal}."
    times = {mode: [max(step) for step in steps] for mode, steps in measured.step_seconds.items()}
    slow, fast = _middle(times[UNORDERED]), _middle(times[ORDERED])
    if not measured.outputs_equal:
        return f"No, results differ: {said}", False
    if fast[1] < slow[0]:
        return f"Yes: {said}", True
    if slow[1] < fast[0]:
        return f"No: {said}", False
    return f"No clear difference: {said} Step times of the two overlap.", None


def _middle(seconds: Sequence[float]) -> tuple[float, float]:
    """The first and the third quartile."""
    if len(seconds) < 2:
        return seconds[0], seconds[0]
    first, _, third = statistics.quantiles(seconds, method="inclusive")
    return first, third


def _verdicts(plan: Plan | None) -> Iterator[str]:
    """What each section of a plan promises."""
    if plan is None:
        return
    if is_timed(plan.costs):
        yield plan.predicted.verdict
    if plan.waves:
        yield plan.waves.verdict
    if plan.memory:
        slower = plan.memory.seconds / plan.memory.plain_seconds - 1 if plan.memory.plain_seconds else 0.0
        yield f"the step fits into {in_words(plan.memory.limit_bytes)} and takes {slower:.1%} longer"
    if plan.groups and plan.groups.seconds:
        gain = plan.groups.in_turn_seconds / plan.groups.seconds
        yield f"the jobs together run at {gain:.2f} x the speed of one after the other"
    if plan.layers and plan.layers.seconds:
        gain = plan.layers.one_device_seconds / plan.layers.seconds
        yield f"the model runs at {gain:.2f} x the speed of one device"
    if plan.embeddings:
        yield plan.embeddings.verdict


def _kept(given: Given) -> Answer:
    question = "Was the order kept?"
    if given.hand_offs is None:
        return Answer(question, "Not measured: a run with its hand-offs tells (tfwave demo -o RUN).")
    found = conformance(given.hand_offs[ORDERED])
    outside = found.late + found.released
    said = said_of(found) + (f" {outside:,} hand-offs were late or released." if outside else "")
    return Answer(question, said, found.exact)


def _to_set(plan: Plan | None) -> Answer:
    said = [f"{what}: {value}" for what, value, _ in settings(plan).rows]
    return Answer("What do I set?", f"{'; '.join(said)}." if said else "Nothing yet: there is no plan.")


def _measured(given: Given) -> Iterator[Figure]:
    if given.figures:
        before, after = given.figures[UNORDERED], given.figures[ORDERED]
        ratio = before.median_seconds / after.median_seconds
        yield Figure(f"{ratio:.2f} x", "throughput, ordered against unordered (medians of measured steps)")
    if given.hand_offs is not None:
        found = conformance(given.hand_offs[ORDERED])
        yield Figure(
            f"{found.exact_steps:,} of {found.steps:,}", "steps kept the planned order, counted by channel"
        )


def _traced(given: Given) -> Iterator[Figure]:
    overlaps = [mean_overlap(bundle) for bundle in given.bundles.values()]
    shown = [f"{overlap:.0%}" for overlap in overlaps if overlap is not None]
    if shown:
        yield Figure(" to ".join(shown), f"of the time with transfers a worker computes, too{_both(shown)}")
    own = [[i.efficiency for i in iterations] for iterations in given.iterations.values() if iterations]
    shown = [f"{statistics.median(efficiencies):.2f}" for efficiencies in own]
    if shown:
        words = "efficiency E of a traced step (median): 1 is perfect, 0 is all in a row"
        yield Figure(" to ".join(shown), f"{words}{_both(shown)}")


def _both(shown: Sequence[str]) -> str:
    return f", {UNORDERED} to {ORDERED}" if len(shown) > 1 else ""


def _planned(plan: Plan | None) -> Iterator[Figure]:
    if plan is None:
        return
    if is_timed(plan.costs) and plan.predicted.unordered_seconds:
        yield Figure(f"{plan.predicted.gain:.0%}", "of the step should the order save (forecast)")
        yield Figure(milliseconds(plan.predicted.ordered_seconds), "a step under the order (forecast)")
        yield Figure(
            f"{plan.predicted.gap:.1%}", f"above the best bound of any order ({plan.predicted.bound})"
        )
    if plan.memory:
        yield Figure(
            in_words(plan.memory.peak_bytes), f"peak, of a limit of {in_words(plan.memory.limit_bytes)}"
        )
        yield Figure(
            in_words(plan.memory.least_bytes), "is the least limit at which the step fits (forecast)"
        )
    if plan.waves:
        yield Figure(str(plan.waves.count), f"waves a call, offset {plan.waves.offset:g}")
    if plan.groups:
        yield Figure(in_words(plan.groups.peak_bytes), "held by all jobs together at most (forecast)")
    if plan.placement and plan.placement.bytes:
        yield Figure(
            in_words(max(plan.placement.bytes)), "to and from the busiest server in a step (forecast)"
        )
    if plan.layers:
        yield Figure(milliseconds(plan.layers.seconds), "a step with these devices for each layer (forecast)")
    if plan.embeddings:
        yield Figure(milliseconds(plan.embeddings.seconds), "a staged step (forecast)")


def _captured(given: Given) -> Iterator[Figure]:
    for mode, bundle in given.bundles.items():
        words = f"a captured step, {mode} (median)" if len(given.bundles) > 1 else "a captured step (median)"
        yield Figure(milliseconds(bundle.manifest.median_seconds), words)
        sent = sum(t.bytes for t in bundle.transfers.data)
        if sent:
            yield Figure(in_words(sent), "sent from task to task in a step")
