"""`tfwave demo`: see it work."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tfwave.cli.conformance import print_conformance
from tfwave.cli.output import JsonFlag, console, milliseconds, print_json, print_table, progress_console
from tfwave.demo.cluster import DemoJob
from tfwave.demo.model import Replicas, check_device, check_model
from tfwave.demo.networks import NETWORKS
from tfwave.demo.run import PAGE, Blocks, DemoResult, result_dict, run_demo
from tfwave.order.registry import POLICY_NAMES, find_policy


def demo_command(  # noqa: PLR0913, PLR0917
    servers: Annotated[int, typer.Option(min=1, max=4, help="Parameter servers.")] = 1,
    workers: Annotated[int, typer.Option(min=1, max=4, help="Workers.")] = 2,
    model: Annotated[
        str,
        typer.Option(help=f"A model of tf_keras.applications, or {', '.join(NETWORKS)}."),
    ] = "ResNet50",
    image: Annotated[int, typer.Option(min=32, help="Image side, pixels.")] = 224,
    batch: Annotated[int, typer.Option(min=1, help="Images a worker and step.")] = 16,
    device: Annotated[
        str, typer.Option(help="Of each worker, where it computes: CPU:1, or GPU:0 (never run on a GPU).")
    ] = "CPU:0",
    rate: Annotated[float, typer.Option(min=1, help="Link of each host, Mbit/s.")] = 1000,
    repeats: Annotated[int, typer.Option(min=1, help="Blocks of each mode, interleaved.")] = 4,
    steps: Annotated[int, typer.Option(min=1, help="Steps a block.")] = 4,
    policy: Annotated[str, typer.Option(help=f"{', '.join(POLICY_NAMES)}.")] = "tac",
    out: Annotated[Path, typer.Option("-o", "--output", help="Where to write what was seen.")] = Path(
        "demo-run"
    ),
    as_json: JsonFlag = False,
) -> None:
    """Run a real parameter-server job unordered and in tfwave's order, in turn, and compare.

    Writes the capture bundle, the plan, the figures, the hand-offs, a Perfetto trace, and a page that shows all of
    it (tfwave report). Exits with code 1 if the order was not kept.

    [bold]Examples[/bold]

      tfwave demo

      tfwave demo --model VGG16 --image 64 --servers 2 --json
    """
    find_policy(policy)  # wrong names are said at once
    check_model(model)
    check_device(device)
    job = DemoJob(servers, workers, rate * 1e6, Replicas(model, image, batch, device=device))
    bar = Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=progress_console
    )
    with bar:
        task = bar.add_task("", total=None)
        result = run_demo(
            job, Blocks(repeats, steps), policy, out, lambda text: bar.update(task, description=text)
        )
    if as_json:
        print_json(result_dict(result))
    else:
        _print(result, job, out)
    if not result.conformance["ordered"].exact:
        raise typer.Exit(1)


def _print(result: DemoResult, job: DemoJob, out: Path) -> None:
    replicas = job.replicas
    console.print(
        f"{replicas.model}, {job.servers} server(s), {job.workers} worker(s) on {replicas.device}, batch "
        f"{replicas.batch} of {replicas.image} px, {job.bits_per_second / 1e6:g} Mbit/s a host by "
        f"{result.network}"
    )
    print_conformance(result.conformance)
    _print_steps(result)
    console.print(
        f"all of it is in '{out}': bundle, plan.json, figures.json, handoffs.json, trace.json", soft_wrap=True
    )
    console.print(
        f"look at '{out / PAGE}' in a browser; report.md beside it has the same facts", soft_wrap=True
    )


def _print_steps(result: DemoResult) -> None:
    """How long they took, and what was predicted of that."""
    print_table(
        "steps; E and straggler: the median and the most of a step",
        ["mode", "steps", "median", "std dev", "E", "most", "straggler", "most"],
        [
            (
                mode,
                f.steps,
                _short(f.median_seconds),
                _short(f.stdev_seconds),
                f"{f.efficiency_median:.3f}",
                f"{f.efficiency:.3f}",
                f"{f.straggler_median:.1%}",
                f"{f.straggler:.1%}",
            )
            for mode, f in result.figures.items()
        ],
    )
    before, after = result.figures["unordered"], result.figures["ordered"]
    traced = before.traced + after.traced
    console.print(f"E tells {result.explained:.0%} of how step times vary (R2, {traced} traced ones)")
    console.print(
        f"ordered runs at {before.median_seconds / after.median_seconds:.2f} x the unordered throughput "
        f"(the plan saw room for {1 + result.plan.predicted.speedup:.2f} x); "
        f"outputs {'bit-equal' if result.outputs_equal else 'DIFFER'}; counters left: {result.live_steps}"
    )
    predicted = result.plan.predicted
    console.print(
        f"predicted before the run: {milliseconds(predicted.makespan_seconds)} ordered, "
        f"never under {milliseconds(predicted.lower_seconds)}"
    )


def _short(seconds: float) -> str:
    """In ms; from a second on without a fraction, so that the table holds at 80 columns."""
    return milliseconds(seconds) if seconds < 1 else f"{seconds * 1e3:.0f} ms"
