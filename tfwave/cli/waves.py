"""`tfwave waves`: whether waves of a captured step would gain anything in a memory, before they run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from tfwave.bundle.bundle import Bundle, load_bundle
from tfwave.bundle.memory import captured_memory
from tfwave.bundle.memory.captured import memory_devices
from tfwave.cli.inputs import Fetches, MemoryDevice
from tfwave.cli.output import (
    JsonFlag,
    console,
    milliseconds,
    print_json,
    print_table,
    say_written,
    short_device,
)
from tfwave.cli.outputs import check_outputs
from tfwave.cli.partition_waves import PartitionWaves
from tfwave.cli.plan_file import AddTo, PlanFile, PlanOutput
from tfwave.cli.wave_step import CapturedStep, training_of
from tfwave.errors import BundleError
from tfwave.memory.slots import room
from tfwave.plan.plan import Plan
from tfwave.sizes import in_words, parse_size
from tfwave.waves.pair import Pace
from tfwave.waves.verdict import Choice, StepUse, WaveVerdict, judge_waves


@dataclass(frozen=True)
class _Judged:
    """A captured step, what it uses, and what two waves of it would do at each offset."""

    bundle: Bundle
    step: CapturedStep
    use: StepUse
    is_counted: bool
    """Was it counted how busy the cores were?"""
    pace: Pace

    @property
    def limit(self) -> int:
        return self.step.limit

    @cached_property
    def verdict(self) -> WaveVerdict:
        return judge_waves(self.step.needs, self.use, self.limit, self.pace)

    @property
    def waves(self) -> int:
        """As many as are worth running: tick and tock, or one; also where two do not fit with this batch."""
        return 2 if self.verdict.is_gain and not self.step.is_too_large else 1

    @property
    def is_memory_bound(self) -> bool:
        return self.verdict.gang_batch < 2

    @property
    def ceiling(self) -> float:
        """Samples per second over those of the captured step, were no core ever idle."""
        return 1 / self.use.compute_share


def waves_command(  # noqa: PLR0913, PLR0917
    bundle: Annotated[Path, typer.Argument(help="A capture bundle.", metavar="BUNDLE")],
    memory: Annotated[
        str, typer.Option(metavar="512MiB", help="What both waves share; bytes, or with a unit.")
    ],
    device: MemoryDevice = None,
    pace: Annotated[
        Pace, typer.Option(help="How waves wait for each other; a graph with both runs in rounds.")
    ] = Pace.ROUNDS,
    compute_share: Annotated[
        float | None,
        typer.Option(help="The share of the device that a step keeps busy, where it was not counted."),
    ] = None,
    sync_ms: Annotated[
        float, typer.Option(help="Milliseconds to exchange gradients after a step, with nothing beside it.")
    ] = 0.0,
    graph: Annotated[
        str | None,
        typer.Option(
            metavar="TRAIN.pb",
            help="The graph that is to be rewritten; else the offset is of the one that ran.",
        ),
    ] = None,
    fetches: Fetches = None,
    output: PlanOutput = None,
    add_to: AddTo = None,
    as_json: JsonFlag = False,
) -> None:
    """Tell whether waves of a captured step would help in a memory: tick-tock against one larger batch.

    Both by the model, each with the largest batch that fits. Exits with code 1 if no gain is expected. Says, too,
    with which offset the pass tick_tock fits two waves of the captured batch into that memory. A plan has the
    number of waves that is worth running: two, or one with the reason.

    Of a step on several devices, with its graph, tells how many batches may pass them at once, for the pass
    tick_tock_partitions: as many as fit, less those that slow the first one. CPU devices share the memory evenly.

    [bold]Examples[/bold]

      tfwave waves captured --memory 512MiB

      tfwave waves captured --memory 512MiB --graph train.pb --fetch loss:0 --fetch train -o plan.json

      tfwave waves captured --memory 2GB --pace steady --compute-share 0.4

      tfwave waves captured --memory 512MiB --json
    """
    check_outputs((bundle, graph), (output,))
    file = PlanFile.of(output, add_to)
    loaded, limit = load_bundle(bundle), parse_size(memory)
    names = fetches or loaded.manifest.fetches
    training = training_of(loaded, graph, names)
    if device is None and not isinstance(training, str) and len(memory_devices(loaded)) > 1:
        parts = PartitionWaves(loaded, training, limit, _use(loaded, compute_share, sync_ms).compute_share)
        file.write(parts.plan)
        _tell(parts.document, parts.show, output, as_json=as_json)
        raise typer.Exit(int(parts.count.waves == 1))
    step = CapturedStep(captured_memory(loaded, device), training, limit)
    use = _use(loaded, compute_share, sync_ms)
    judged = _Judged(loaded, step, use, compute_share is None, pace)
    file.write(lambda: Plan(waves=step.planned(judged.verdict)))

    def show() -> None:
        _print(judged)
        _print_offset(step, graph or "TRAIN.pb", names, output if judged.waves > 1 else None)

    _tell(lambda: _document(judged), show, output, as_json=as_json)
    if not judged.verdict.is_gain:
        raise typer.Exit(1)


def _tell(
    document: Callable[[], Any], show: Callable[[], None], output: Path | None, *, as_json: bool
) -> None:
    if as_json:
        print_json(document())
        return
    show()
    say_written(output)


def _use(bundle: Bundle, compute_share: float | None, sync_ms: float) -> StepUse:
    """As given, or as counted."""
    return StepUse(_counted_share(bundle) if compute_share is None else compute_share, sync_ms / 1e3)


def _counted_share(bundle: Bundle) -> float:
    """Of the cores, as far as nothing else ran on the machine.

    Raises:
        BundleError: the bundle does not say.
    """
    share = bundle.manifest.compute_share
    if share is None:
        raise BundleError(
            "the bundle does not say how busy the cores were: give --compute-share, or capture it again"
        )
    return share


def _document(judged: _Judged) -> dict[str, Any]:
    verdict, step, memory = judged.verdict, judged.step, judged.step.found.memory
    return {
        "gain_expected": verdict.is_gain,
        "text": verdict.text,
        "waves": judged.waves,
        "device": memory.profile.device,
        "step": step.found.step,
        "steps": len(judged.bundle.steps),
        "seconds": memory.seconds,
        "limit_bytes": judged.limit,
        "usable_bytes": {"one_wave": room(judged.limit, 1), "two_waves": room(judged.limit, 2)},
        "peak_bytes": memory.profile.peak,
        "resident_bytes": memory.profile.resident,
        "others_bytes": step.needs.others,
        "gradient_bytes": None if isinstance(step.training, str) else step.needs.gradient_bytes,
        "largest_piece_bytes": step.needs.piece,
        "peak_share": verdict.peak_share,
        "above_half": verdict.above_half,
        "memory_bound": judged.is_memory_bound,
        "gang_batch": verdict.gang_batch,
        "compute_share": judged.use.compute_share,
        "compute_share_counted": judged.is_counted,
        "sync_seconds": judged.use.sync_seconds,
        "pace": judged.pace.value,
        "speedup_ceiling": judged.ceiling,
        "speedup": {"predicted": verdict.best.speedup, "low": verdict.low, "high": verdict.high},
        "best_offset": verdict.best.offset,
        "offsets": [vars(choice) for choice in verdict.choices],
        "fitting_offset": None if isinstance(step.offset, str) else step.offset,
        "fitting_offset_missing": step.offset if isinstance(step.offset, str) else None,
        "passes": step.passes,
    }


def _print(judged: _Judged) -> None:
    verdict, memory = judged.verdict, judged.step.found.memory
    bound = "bound by memory" if judged.is_memory_bound else "not bound by memory"
    counted = "counted" if judged.is_counted else "given"
    console.print(
        f"{short_device(memory.profile.device)}: step {judged.step.found.step + 1} of {len(judged.bundle.steps)}, "
        f"{milliseconds(memory.seconds)}\n"
        f"needs {in_words(memory.profile.peak)} of {in_words(judged.limit)} ({verdict.peak_share:.0%}), "
        f"{in_words(memory.profile.resident)} of it resident, more than half for {verdict.above_half:.0%} of its "
        f"time: {bound}, a batch {verdict.gang_batch:.2f} times as large fits\n"
        f"keeps {judged.use.compute_share:.0%} of the compute units busy ({counted}): whatever runs beside it, no "
        f"more than x{judged.ceiling:.2f} its samples per second",
        soft_wrap=True,
    )
    print_table(
        f"two waves ({judged.pace.value}), by how long after tick's start tock starts",
        ["offset", "both peak at", "over one", "fits", "batch of each", "speed-up"],
        [_row(judged, choice) for choice in verdict.choices],
    )
    console.print(verdict.text, soft_wrap=True)
    console.print(f"number of waves: {judged.waves}")


def _print_offset(step: CapturedStep, graph: str, fetches: Sequence[str], plan: Path | None) -> None:
    """What the memory criterion counts, and how to go on to the pass, or why there is no way."""
    if isinstance(step.training, str):
        told = "not counted, without the graph: the two copies of each gradient that waves keep\n"
    else:
        told = f"counted: two copies of all gradients that waves keep, {in_words(step.needs.gradient_bytes)} each\n"
    if isinstance(step.offset, str):
        told += f"no offset for tick_tock: {step.offset}"
    else:
        names = " ".join(f"--fetch {quote(name)}" for name in fetches)
        passes = (
            f"--passes '{step.passes}'" if plan is None else f"--plan {quote(str(plan))} --passes tick_tock"
        )
        told += (
            f"two waves of the captured batch fit from {step.offset:.0%} of the backward pass's nodes on:\n"
            f"  tfwave rewrite {quote(graph)} {names} {passes} -o WAVES.pb"
        )
    console.print(told, soft_wrap=True)


def _row(judged: _Judged, choice: Choice) -> tuple[object, ...]:
    return (
        f"{choice.offset:.0%}",
        in_words(choice.peak_bytes),
        f"{choice.peak_bytes / judged.step.found.peak:.2f} x",
        "yes" if choice.batch >= 1 else "no",
        f"{choice.batch:.2f} x" if choice.batch > 0 else "none",
        f"x{choice.speedup:.2f}",
    )
