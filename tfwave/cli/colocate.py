"""`tfwave colocate`: whether captured jobs fit into one memory, and how they would run there."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tfwave.bundle.bundle import load_bundle
from tfwave.cli.inputs import MemoryDevice
from tfwave.cli.job_names import job_names
from tfwave.cli.output import (
    JsonFlag,
    console,
    milliseconds,
    print_json,
    print_table,
    say_written,
    under_way,
)
from tfwave.cli.outputs import check_outputs
from tfwave.cli.plan_file import AddTo, PlanFile, PlanOutput
from tfwave.colocate.advice import Advice, advise
from tfwave.colocate.profile import captured_step
from tfwave.memory.colocation import WORTH, Colocation, JobStep, Policy
from tfwave.plan.plan import Plan
from tfwave.report.drawn.colocation import colocation_figure
from tfwave.report.drawn.figure import save_figure
from tfwave.sizes import in_words, parse_size


def colocate_command(  # noqa: PLR0913, PLR0917
    bundles: Annotated[
        list[Path], typer.Argument(help="Capture bundles, one for each job.", metavar="BUNDLE...")
    ],
    memory: Annotated[
        str, typer.Option(metavar="512MiB", help="What the jobs share; bytes, or with a unit.")
    ],
    device: MemoryDevice = None,
    policy: Annotated[
        Policy, typer.Option(help="What pairs node groups: tfwave's search, or Waterwave's Algorithm 1.")
    ] = Policy.SEARCH,
    split_size: Annotated[
        str | None,
        typer.Option(
            metavar="64MiB", help="End a node group at so many net bytes; default: several are tried."
        ),
    ] = None,
    output: PlanOutput = None,
    add_to: AddTo = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the plan to a file (.png or .svg).")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Tell whether captured jobs fit into one memory together, and how they would run there.

    A bundle that is given twice counts as two jobs. Exits with code 1 if they do not fit.

    [bold]Examples[/bold]

      tfwave colocate resnet bert --memory 512MiB

      tfwave colocate resnet bert --memory 512MiB -o plan.json

      tfwave colocate resnet bert --memory 512MiB --policy algorithm1 --split-size 64MiB

      tfwave colocate small small small small --memory 2GB --plot plan.svg

      tfwave colocate resnet bert --memory 512MiB --json
    """
    check_outputs(bundles, (output,), plot)
    file = PlanFile.of(output, add_to)
    split = None if split_size is None else parse_size(split_size)
    with under_way(f"planning jobs in {memory}"):
        found = advise(_steps(bundles, device), parse_size(memory), policy, split)
        if found.plan is not None:
            file.write(lambda: Plan(groups=found.groups))
    drawn = found.plan
    if plot is not None and drawn is not None:
        save_figure(lambda: colocation_figure(drawn), plot)
    if as_json:
        print_json(_document(found))
    else:
        _print(found)
        if found.plan is not None:
            say_written(plot, "drawn")
        if found.fits:
            say_written(output)
    if not found.fits:
        raise typer.Exit(1)


def _steps(bundles: Sequence[Path], device: str | None) -> list[JobStep]:
    """One of each bundle."""
    loaded = {path: load_bundle(path) for path in dict.fromkeys(bundles)}
    named = zip(job_names(bundles), bundles, strict=True)
    return [captured_step(name, loaded[path], device) for name, path in named]


def _document(found: Advice) -> dict[str, Any]:
    return {
        "fits": found.fits,
        "why": found.why,
        "limit_bytes": found.limit_bytes,
        "kept_bytes": found.kept_bytes,
        "batch_scale": found.batch_scale,
        "jobs": [
            {
                "name": name,
                "resident_bytes": job.resident,
                "peak_bytes": job.peak,
                "seconds": job.seconds,
                "compute_share": job.compute_share,
                "batch_scale_alone": found.alone_scales[name],
            }
            for name, job in sorted(found.whole.items())
        ],
        "plan": None if found.plan is None else _plan_document(found.plan),
    }


def _plan_document(plan: Colocation) -> dict[str, Any]:
    return {
        "peak_bytes": plan.peak_bytes,
        "seconds": plan.seconds,
        "in_turn_seconds": plan.in_turn_seconds,
        "in_turn": plan.is_in_turn,
        "jobs": [
            {
                "name": job.name,
                "slowed": plan.slowed(job),
                "groups": [
                    {"ops": list(g.ops), "net": g.net, "transient": g.transient, "seconds": g.seconds}
                    for g in job.groups
                ],
            }
            for job in plan.jobs
        ],
        "slots": [[{"job": turn.job, "group": turn.group} for turn in slot] for slot in plan.slots],
    }


def _print(found: Advice) -> None:
    groups = {job.name: job for job in found.plan.jobs} if found.plan else {}
    print_table(
        "jobs; batch: the largest that fits alone; slower by: beside the others",
        ["job", "resident", "peak", "time", "batch", "groups", "slower by"],
        [
            (
                name,
                in_words(job.resident),
                in_words(job.peak),
                milliseconds(job.seconds),
                _times(found.alone_scales[name]),
                len(groups[name].groups) if found.plan else "-",
                f"{found.plan.slowed(groups[name]):.0%}" if found.plan else "-",
            )
            for name, job in sorted(found.whole.items())
        ],
    )
    console.print(_verdict(found), soft_wrap=True)
    console.print(
        f"largest batches, all scaled alike: {_times(found.batch_scale)} the captured ones; an estimate: all but "
        "what is resident is taken to grow with the batch",
        soft_wrap=True,
    )


def _verdict(found: Advice) -> str:
    plan = found.plan
    if plan is None:
        return f"does not fit: {found.why}"
    fits = f"fits: predicted peak {in_words(plan.peak_bytes)} of {in_words(plan.limit_bytes)}"
    if found.kept_bytes:
        fits += f" ({in_words(found.kept_bytes)} are kept for new values of variables and for constants)"
    times = f"{milliseconds(plan.seconds)} for a step of each, {milliseconds(plan.in_turn_seconds)} in turn"
    if plan.is_in_turn:
        return f"{fits}; no gain expected, as {_why_in_turn(found)}: {times}"
    return f"{fits}; predicted: {times}"


def _why_in_turn(found: Advice) -> str:
    if found.saves_beside or len(found.whole) == 1:
        return "there is room for one at a time"
    shares = ", ".join(f"{name} {job.compute_share:.0%}" for name, job in sorted(found.whole.items()))
    return f"side by side saves less than {WORTH:.0%} (they keep the cores busy: {shares})"


def _times(scale: float) -> str:
    return "any" if math.isinf(scale) else f"{scale:.2f} x"
