"""What a page says of a training in waves: how many, since when, what their copies take, and whether they fit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfwave.graph.names import short_device
from tfwave.memory.step import StepMemory
from tfwave.plan.waves import Waves
from tfwave.report.page.facts import Answer, Facts, Figure, Section, Table
from tfwave.report.page.memory import Mark, section_of, step_view
from tfwave.runtime.waves.options import WaveOptions
from tfwave.sizes import in_words

_BY = "tfwave.distribute.waves, or tfwave.keras.TickTockCallback"


@dataclass(frozen=True)
class RunningWaves:
    """What is known of the waves of a training once they run.

    Attributes:
        options: in numbers, given or chosen.
        replicas: on which each wave runs.
        copies: the bytes of each variable of the further waves.
        limit: the bytes of the pool; None: it has no limit.
        planned: by which they are what they are, if by a plan or chosen.
        memory: of the step alone, if it was measured.
        second_begins: when the second wave does by the model, in seconds of that step, if that is known.
    """

    options: WaveOptions
    replicas: int
    copies: Sequence[int]
    limit: int | None = None
    planned: Waves | None = None
    memory: StepMemory | None = None
    second_begins: float | None = None


def wave_facts(waves: RunningWaves) -> Facts:
    """All of the page."""
    rows = wave_settings(waves).rows
    return Facts(
        title="tfwave: a training in waves",
        inputs=("waves",),
        answers=(_worth(waves), _fits(waves), Answer("What do I set?", f"{rows[0][1]}.")),
        figures=tuple(_figures(waves)),
        settings=wave_settings(waves),
        sections=tuple(_sections(waves)),
    )


def wave_settings(waves: RunningWaves) -> Table:
    """What was given or chosen."""
    options = waves.options
    how = "across devices" if options.is_parallel else f"offset {float(options.offset):g}"
    said = f"{options.waves} waves, {how}, average {options.average}" if options.waves > 1 else "no waves"
    return Table(["what", "set", "by"], [("waves", said, _BY)])


def _worth(waves: RunningWaves) -> Answer:
    question, verdict = "Is it worth it?", waves.planned.verdict if waves.planned else ""
    if verdict:
        return Answer(question, f"Forecast, nothing was compared: {verdict}.")
    return Answer(question, "Not known: nothing was compared. tfwave waves BUNDLE forecasts it.")


def _fits(waves: RunningWaves) -> Answer:
    question = "Does it fit?"
    if waves.limit is None:
        return Answer(question, "Nothing limits the CPU's pool: tfwave.colocate.limit_memory does.")
    pool = f"a pool of {in_words(waves.limit)}"
    if waves.planned is None:
        return Answer(question, f"Not known: there is {pool}, and no step was measured.")
    needed = waves.planned.needed_bytes
    said = f"The waves need up to {in_words(needed)} by the model, in {pool}."
    return Answer(question, said, needed <= waves.limit)


def _figures(waves: RunningWaves) -> Iterator[Figure]:
    options = waves.options
    each = f"on each of {waves.replicas} replicas" if waves.replicas > 1 else "a call"
    yield Figure(str(options.waves), f"waves {each}")
    size, count = in_words(sum(waves.copies)), len(waves.copies)
    yield Figure(size, f"are {count:,} variables that the further waves have of their own")
    if waves.memory is not None:
        yield Figure(in_words(waves.memory.profile.peak), "is the peak of a step alone (measured)")
    if waves.planned is not None:
        yield Figure(in_words(waves.planned.needed_bytes), "is what all waves need (by the model)")


def _sections(waves: RunningWaves) -> Iterator[Section]:
    if waves.memory is not None:
        begins, end = waves.second_begins, waves.memory.seconds
        marks = [] if begins is None else [Mark.of_seconds("the second wave begins", begins, end)]
        title = f"{short_device(waves.memory.profile.device)}, one step alone"
        yield section_of([step_view(waves.memory, title, waves.limit, marks)])
