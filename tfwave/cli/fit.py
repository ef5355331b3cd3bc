"""`tfwave fit`: whether and how a captured step fits into a memory, before it runs there."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tfwave.bundle.bundle import load_bundle
from tfwave.cli.inputs import MemoryDevice
from tfwave.cli.output import (
    JsonFlag,
    console,
    milliseconds,
    print_json,
    say_written,
    short_device,
    under_way,
)
from tfwave.cli.outputs import check_outputs
from tfwave.cli.plan_file import AddTo, PlanFile, PlanOutput
from tfwave.cli.show_plan import print_memory
from tfwave.offload.captured import captured_step
from tfwave.offload.fit import Fit, Policy
from tfwave.offload.question import Question
from tfwave.plan.sections import memory_dict
from tfwave.report.drawn.figure import save_figure
from tfwave.report.drawn.fitted import fit_figure
from tfwave.sizes import in_words, limit_in_words, parse_size


def fit_command(  # noqa: PLR0913, PLR0917
    bundle: Annotated[Path, typer.Argument(help="A capture bundle.", metavar="BUNDLE")],
    memory: Annotated[
        str,
        typer.Option(
            metavar="512MiB",
            help="What the step may hold; bytes, or with a unit. TensorFlow's own pools have whole MiB of it.",
        ),
    ],
    policy: Annotated[Policy, typer.Option(help="Who chooses what is away; exact needs tfwave\\[exact].")] = (
        Policy.GREEDY
    ),
    at_other_batch: Annotated[
        Path | None,
        typer.Option(
            metavar="BUNDLE", help="The same step, captured at another batch: tells how its bytes grow."
        ),
    ] = None,
    device: MemoryDevice = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw what is held and away, op after op, to a file (.png or .svg)."),
    ] = None,
    placement: Annotated[
        bool,
        typer.Option(
            "--placement",
            help="For tfwave.colocate.planned_pool: also plan where all that the step takes lies.",
        ),
    ] = False,
    output: PlanOutput = None,
    add_to: AddTo = None,
    as_json: JsonFlag = False,
) -> None:
    """Tell whether a captured training step fits into a memory, and what makes it fit: a forecast.

    Ops that move its peak begin in an order that needs less, some side by side where there is room; tensors are
    away between the forward and the backward pass, on the host, or made again. Says what that costs, from which
    limit on the step fits, and how large a batch would. Exits with code 1 if the step does not fit.

    With --placement the plan also says where each buffer lies, so that nothing of the memory is lost between them:
    a pool of tfwave.colocate.planned_pool serves it so. More fits then, or the same in less time.

    [bold]Examples[/bold]

      tfwave fit captured --memory 512MiB

      tfwave fit captured --memory 512MiB --at-other-batch captured32 -o plan.json

      tfwave fit captured --memory 512MiB --placement -o plan.json

      tfwave fit captured --memory 2GB --policy exact --json

      tfwave fit captured --memory 512MiB --plot fitted.png
    """
    check_outputs((bundle, at_other_batch), (output,), plot)
    file = PlanFile.of(output, add_to)
    with under_way(f"fitting '{bundle}' into {memory}"):
        captured = captured_step(load_bundle(bundle), device)
        other = None if at_other_batch is None else captured_step(load_bundle(at_other_batch), device)
        asked = Question(captured, other, parse_size(memory), policy, placement)
        told = _document(asked)  # nothing is written if the captures do not belong together
        if asked.fit is not None:
            file.write(asked.plan)
        if plot is not None:
            save_figure(lambda: fit_figure(asked), plot)
    if as_json:
        print_json(told)
    else:
        _print(asked)
        say_written(plot, "drawn")
    if asked.fit is None:
        raise typer.Exit(1)
    if not as_json:
        say_written(output)


def _document(asked: Question) -> dict[str, Any]:
    fit, found, memory = asked.fit, asked.captured.found, asked.section
    return {
        "fits": fit is not None,
        "text": _verdict(asked),
        "device": asked.captured.step.device,
        "step": found.step,
        "limit_bytes": asked.limit,
        "usable_bytes": asked.usable,
        "captured_peak_bytes": found.peak,
        "least_bytes": asked.least,
        "extra_seconds": memory and memory.extra_seconds,
        "exposed": fit and fit.prices.exposed,
        "price_seconds": fit and fit.price,
        "bound_seconds": fit and fit.bound,
        "bound": fit and fit.bound_name,
        "largest_batch": {"plain": asked.batch.plain, "fitted": asked.batch.fitted},
        "memory": memory and memory_dict(memory),
    }


def _verdict(asked: Question) -> str:
    memory = asked.section
    if memory is None:
        return asked.refusal
    share = memory.extra_seconds / memory.plain_seconds if memory.plain_seconds else 0.0
    how = "with some tensors away" if memory.tensors else "with nothing away"
    return f"it fits into {in_words(asked.limit)} {how}, at {share:+.1%} of its time"


def _print(asked: Question) -> None:
    captured, batch = asked.captured, asked.batch
    console.print(
        f"{short_device(captured.step.device)}: step {captured.found.step + 1} holds "
        f"{in_words(captured.found.peak)} as captured; "
        f"its ops take {milliseconds(captured.step.seconds)}, side by side where they can\n"
        f"{_verdict(asked)}\n"
        f"fits from {limit_in_words(asked.least)} on; largest batch, estimated from "
        f"{'two captures' if asked.other else 'one capture'}: {batch.plain:.2f} x as it is, {batch.fitted:.2f} x "
        "with all away that can be",
        soft_wrap=True,
    )
    if asked.fit is None and not asked.places:
        console.print("a planned pool may do with less: ask with --placement")
    if asked.fit is not None and asked.section is not None:
        print_memory(asked.section)
        console.print(_price(asked.fit), soft_wrap=True)


def _price(fit: Fit) -> str:
    gap = "" if fit.gap is None else f", {fit.gap:.1%} above the bound ({fit.bound_name})"
    share = f"copies at {fit.prices.exposed:.0%} of their time and repeated ops"
    return f"chosen by what it costs, {share}: {milliseconds(fit.price)}{gap}"
