"""`tfwave memory`: what a training step holds in memory, and when."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tfwave.bundle.bundle import Bundle, load_bundle
from tfwave.bundle.memory import CapturedMemory, captured_memory
from tfwave.cli.inputs import MemoryDevice
from tfwave.cli.output import (
    JsonFlag,
    console,
    milliseconds,
    print_json,
    print_table,
    say_written,
    short_device,
    under_way,
)
from tfwave.cli.outputs import check_outputs
from tfwave.cli.placement import placed_step
from tfwave.cli.plan_file import PlanFile, PlanOutput
from tfwave.errors import PlanError
from tfwave.memory.pool.step import least_pool
from tfwave.memory.step import StepMemory, Tensor
from tfwave.offload.placed import placed_section
from tfwave.plan.plan import Plan
from tfwave.report.drawn.figure import save_figure
from tfwave.report.drawn.placed import placed_figure
from tfwave.report.drawn.step import step_figure
from tfwave.sizes import in_words


def memory_command(  # noqa: PLR0913, PLR0917
    bundle: Annotated[Path, typer.Argument(help="A capture bundle.", metavar="BUNDLE")],
    device: MemoryDevice = None,
    top: Annotated[int, typer.Option(min=1, help="How many tensors to show.")] = 20,
    plot: Annotated[Path | None, typer.Option(help="Draw the curve to a file (.png or .svg).")] = None,
    placement: Annotated[
        bool,
        typer.Option("--placement", help="Show which pool each way of placing the step's bytes needs."),
    ] = False,
    plan: Annotated[
        Path | None,
        typer.Option(help="With --placement: the step as the section memory of this plan has it run."),
    ] = None,
    output: PlanOutput = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what a captured step holds in memory: the peak, the least pool, the curve, and the largest tensors.

    Of several captured steps, that with the highest peak is shown. With --placement: which pool TensorFlow's
    allocator (bfc), best fit, CNMeM, GTBM and an offline placement need for it, and U_f, the share of what is free
    that is too small for a request; -o then writes where the offline placement lets the captured step's bytes lie,
    for tfwave.colocate.planned_pool.

    [bold]Examples[/bold]

      tfwave memory demo-run/bundle --device /job:worker/replica:0/task:0/device:CPU:0

      tfwave memory captured --top 5 --plot memory.png

      tfwave memory captured --json

      tfwave memory captured --placement --plot placed.png -o plan.json
    """
    if not placement and (plan is not None or output is not None):
        raise PlanError("--plan and -o are for --placement: give that, too")
    check_outputs((bundle, plan), (output,), plot)
    file = PlanFile.of(output, None)
    loaded = load_bundle(bundle)
    found = captured_memory(loaded, device)
    if placement:
        with under_way(f"placing what '{bundle}' holds"):
            placed = placed_step(loaded, found, device, plan)
            if plot is not None:
                save_figure(lambda: placed_figure(placed.lives, placed.figures), plot)
            file.write(lambda: Plan(memory=placed_section(loaded, device)))
        if as_json:
            print_json(placed.document())
        else:
            placed.show()
            say_written(output)
        return
    if plot is not None:
        save_figure(lambda: step_figure(found.memory), plot)
    if as_json:
        print_json(_document(loaded, found, top))
        return
    _print(loaded, found, top)
    say_written(plot, "drawn")


def _largest(memory: StepMemory, top: int) -> Sequence[Tensor]:
    """The largest first; of equals the earlier one."""
    return sorted(memory.tensors, key=lambda t: (-t.bytes, t.born, t.names))[:top]


def _document(bundle: Bundle, found: CapturedMemory, top: int) -> dict[str, Any]:
    memory = found.memory
    profile = memory.profile
    return {
        "device": profile.device,
        "step": found.step,
        "steps": len(bundle.steps),
        "seconds": memory.seconds,
        "resident_bytes": profile.resident,
        "others_bytes": found.others,
        "peak_bytes": profile.peak,
        "pool_peak_bytes": found.peak,
        "least_pool_bytes": least_pool(memory, found.others or 0),
        "peak_op": profile.ops[memory.peak_op].node,
        "average_bytes": memory.average,
        "largest_piece_bytes": memory.largest_piece,
        "shape": vars(memory.shape),
        "tensors": [_tensor_document(memory, tensor) for tensor in _largest(memory, top)],
        "ops": [vars(op) for op in profile.ops],
        "curve": [{"seconds": seconds, "bytes": held} for seconds, held in memory.curve],
    }


def _tensor_document(memory: StepMemory, tensor: Tensor) -> dict[str, Any]:
    ops = memory.profile.ops
    begin, end = memory.life(tensor)
    return {
        "names": list(tensor.names),
        "bytes": tensor.bytes,
        "born": ops[tensor.born].node,
        "last_read": ops[tensor.read].node,
        "dies": None if tensor.dies is None else ops[tensor.dies].node,
        "born_seconds": begin,
        "dies_seconds": end,
    }


def _print(bundle: Bundle, found: CapturedMemory, top: int) -> None:
    memory, profile, shape = found.memory, found.memory.profile, found.memory.shape
    console.print(
        f"{short_device(profile.device)}: step {found.step + 1} of {len(bundle.steps)}, that with the highest "
        f"peak; {len(profile.ops)} ops in {milliseconds(memory.seconds)}\n"
        f"peak: {in_words(profile.peak)}, at {shape.peak_at:.0%} of the step, in "
        f"{profile.ops[memory.peak_op].node}\n"
        f"average: {in_words(memory.average)}; peak/average {shape.over_average:.2f}; "
        f"largest piece (a tensor, or an op's scratch): {in_words(memory.largest_piece)}\n"
        f"resident (variables, constants, fed): {in_words(profile.resident)}; {_others(found.others)}, which then "
        f"peaks at {in_words(found.peak)}\n"
        f"least pool: {in_words(least_pool(memory, found.others or 0))}, by a model of TensorFlow's allocator, "
        "which gives larger pieces than are asked for\n"
        f"first increase, then drop: {shape.rise:.0%} of what is added before the peak is still held at it, "
        f"{shape.drop:.0%} of what goes after it is not added again",
        soft_wrap=True,
    )
    rows = [_row(memory, tensor) for tensor in _largest(memory, top)]
    print_table(
        "largest tensors",
        ["tensor", "size", "also", "from", "until", "last read by"],
        rows,
        words=["last read by"],
    )
    if len(memory.tensors) > top:
        console.print(f"... and {len(memory.tensors) - top} more")


def _others(count: int | None) -> str:
    if count is None:
        return "others in the pool: not known"
    where = "others in the pool" if count >= 0 else "of it not in the pool"
    return f"{where}: {in_words(abs(count))}"


def _row(memory: StepMemory, tensor: Tensor) -> tuple[object, ...]:
    begin, end = memory.life(tensor)
    name, *others = tensor.names
    return (
        name,
        in_words(tensor.bytes),
        len(others),
        _share(begin, memory.seconds),
        "-" if end is None else _share(end, memory.seconds),
        memory.profile.ops[tensor.read].node,
    )


def _share(part: float, whole: float) -> str:
    return f"{part / whole if whole else 0.0:.0%}"
