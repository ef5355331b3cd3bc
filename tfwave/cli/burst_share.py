"""`tfwave burst share`: what a cluster gains whose idle devices train other jobs."""

from pathlib import Path
from typing import Annotated

import typer

from tfwave.burst.network import Network
from tfwave.burst.released import profile_at
from tfwave.burst.share import Background, Operation, operations
from tfwave.cli.output import JsonFlag, console, milliseconds, print_json, print_table
from tfwave.cost.cluster import parse_bandwidth, parse_latency
from tfwave.plan.given import section_of
from tfwave.plan.layers import Layers

ProfileFile = Annotated[
    Path, typer.Argument(help="Times of layers: JSON, or a table of DeepPool's (.prof).", metavar="PROFILE")
]
Bandwidth = Annotated[str, typer.Option(metavar="10gbit", help="Of a device's link, in each direction.")]
Latency = Annotated[str, typer.Option(metavar="50us", help="Before each transfer.")]


def burst_share_command(  # noqa: PLR0913, PLR0917
    plan: Annotated[Path, typer.Argument(help="Made by burst plan.", metavar="PLAN")],
    profile: ProfileFile,
    background: Annotated[
        Path | None,
        typer.Option(metavar="PROFILE", help="Times of the background's model. Without it: the same model."),
    ] = None,
    background_batch: Annotated[
        int | None,
        typer.Option(min=1, help="Samples of its steps. Without it: a device's share of the plan's batch."),
    ] = None,
    slice_: Annotated[
        str,
        typer.Option(
            "--slice",
            metavar="200us",
            help="For how long it keeps a device that the foreground wants back. 0: it gives way at once.",
        ),
    ] = "0",
    bandwidth: Bandwidth = "10gbit",
    latency: Latency = "50us",
    as_json: JsonFlag = False,
) -> None:
    """Simulate a cluster whose devices train other jobs, one on each, while a burst plan leaves them idle.

    Beside it: each layer on all devices, and clusters parted in two, some devices for the foreground and a
    background on each of the others. Nothing runs: times are those of the profile, and jobs on a device slow each
    other by slices only.

    [bold]Examples[/bold]

      tfwave burst share plan.json profile.json

      tfwave burst share plan.json A100_vgg.prof --slice 200us --bandwidth 2128gbit --latency 40us
    """
    layers = section_of(plan, Layers)
    own = profile_at(profile)
    batch = background_batch or -(-layers.batch // layers.devices)
    others = Background(profile_at(background) if background else own, batch, parse_latency(slice_))
    network = Network(parse_bandwidth(bandwidth), parse_latency(latency))
    found = operations(layers, own, network, others)
    if as_json:
        print_json(_as_dict(found))
    else:
        _print(found)


def _over_parted(found: tuple[Operation, ...]) -> tuple[float, str] | None:
    """How much faster the foreground is than in a parted cluster that trains as much; None: there is none."""
    _, _, shared, *parted = found
    as_much = [one for one in parted if one.samples >= shared.samples]
    if not as_much:
        return None
    best = max(as_much, key=lambda one: one.speedup)
    return shared.speedup / best.speedup, best.name


def _as_dict(found: tuple[Operation, ...]) -> dict[str, object]:
    over = _over_parted(found)
    return {
        "simulated": True,
        "samples_over_data_parallel": found[2].samples / found[0].samples,
        "speedup_over_parted": over[0] if over else None,
        "operations": [vars(one) | {"samples": one.samples} for one in found],
    }


def _print(found: tuple[Operation, ...]) -> None:
    rows = [
        (
            one.name,
            milliseconds(one.seconds),
            f"{one.speedup:.2f}",
            *(f"{rate:.1f}" for rate in (one.foreground, one.background, one.samples)),
        )
        for one in found
    ]
    columns = ["foreground", "step", "speed-up", "its samples/s", "background's", "all"]
    print_table("simulated", columns, rows)
    gain = found[2].samples / found[0].samples
    over = _over_parted(found)
    beside = (
        f"the foreground is {over[0]:.2f} x as fast as on {over[1]} of a parted cluster that trains as much"
        if over
        else "no parted cluster trains as much"
    )
    console.print(
        f"simulated: shared, all train {gain:.2f} x the samples of data parallel; {beside}", soft_wrap=True
    )
