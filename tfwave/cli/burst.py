"""`tfwave burst`: on how many devices each layer of a model should run."""

from pathlib import Path
from typing import Annotated

import typer

from tfwave.burst.network import Network
from tfwave.burst.released import profile_at
from tfwave.burst.section import plan_layers
from tfwave.cli.burst_share import Bandwidth, Latency, ProfileFile, burst_share_command
from tfwave.cli.output import JsonFlag, console, print_json, progress_console, say_written
from tfwave.cli.outputs import check_outputs
from tfwave.cli.plan_file import AddTo, PlanFile, PlanOutput
from tfwave.cli.show_plan import print_layers
from tfwave.cost.cluster import parse_bandwidth, parse_latency
from tfwave.errors import PlanError
from tfwave.keras.bursts.load import load_model
from tfwave.keras.bursts.times import profile_model
from tfwave.plan.layers import LIMITS_OF, OF_LAYER
from tfwave.plan.plan import Plan
from tfwave.plan.sections import layers_dict

burst_app = typer.Typer(
    help="Give each layer of a model its own number of devices (burst parallelism).", no_args_is_help=True
)


@burst_app.callback()
def _burst() -> None:
    """Give each layer of a model its own number of devices (burst parallelism)."""


@burst_app.command("plan")
def burst_plan_command(  # noqa: PLR0913, PLR0917
    profile: ProfileFile,
    devices: Annotated[int, typer.Option(min=1, help="Devices that there are.")],
    batch: Annotated[int, typer.Option(min=1, help="Samples of a step, all devices together.")],
    amplification: Annotated[
        float | None,
        typer.Option(min=1, help="The most device-seconds, over those on one device. Without it: any."),
    ] = None,
    per: Annotated[str, typer.Option(help="Who keeps to it: each layer, or all of the job.")] = OF_LAYER,
    counts: Annotated[
        str,
        typer.Option(
            metavar="N,N,...",
            help="What a layer may have, beside 1. Without it: powers of two, and all.",
        ),
    ] = "",
    bandwidth: Bandwidth = "10gbit",
    latency: Latency = "50us",
    output: PlanOutput = None,
    add_to: AddTo = None,
    as_json: JsonFlag = False,
) -> None:
    """Say on how many devices each layer of a model should run, so that a step is as fast as it can be.

    Layers do not gain alike from more devices: those that gain little may have few, and leave the others to
    other jobs. The plan is the fastest that there is, by a model: layers run one after the other, branches beside
    each other if they have devices of their own.

    [bold]Examples[/bold]

      tfwave burst plan vgg.json --devices 8 --batch 32 --amplification 2

      tfwave burst plan A100_vgg.prof --devices 8 --batch 32 --per job --amplification 1.3
      --bandwidth 2128gbit --latency 40us -o plan.json
    """
    check_outputs((profile,), (output,))
    file = PlanFile.of(output, add_to)
    if per not in LIMITS_OF:
        raise PlanError(f"--per {per} is not one of {', '.join(LIMITS_OF)}")
    layers = plan_layers(
        profile_at(profile),
        devices,
        batch,
        Network(parse_bandwidth(bandwidth), parse_latency(latency)),
        counts=_numbers("--counts", counts),
        limit=amplification,
        limit_of=per,
    )
    file.write(lambda: Plan(layers=layers))
    if as_json:
        print_json(layers_dict(layers))
        return
    print_layers(layers)
    say_written(output)


@burst_app.command("profile")
def burst_profile_command(
    model: Annotated[
        str,
        typer.Argument(
            help="A .keras file, or module:function, which makes a Keras 3 model.", metavar="MODEL"
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the profile, as JSON.")],
    batches: Annotated[
        str, typer.Option(metavar="N,N,...", help="Samples to measure each layer with.")
    ] = "1,2,4,8,16,32",
    repeats: Annotated[int, typer.Option(min=1, help="Of each; the least time counts.")] = 5,
) -> None:
    """Measure how long each layer of a model takes on this machine, by the number of samples.

    Each layer runs forward and backward by itself, on random inputs. Of a batch of 32 on 8 devices burst plan takes
    the times of 4 samples and more.

    [bold]Examples[/bold]

      tfwave burst profile model.keras -o profile.json

      tfwave burst profile my_models:resnet --batches 4,8,16,32 -o profile.json
    """
    check_outputs((model,), (output,))
    found = profile_model(
        load_model(model),
        _numbers("--batches", batches),
        repeats=repeats,
        progress=progress_console.print,
    )
    found.write(output)
    console.print(f"{len(found.layers)} layers of '{found.model}'")
    say_written(output)


burst_app.command("share")(burst_share_command)


def _numbers(option: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError as error:
        raise PlanError(f"{option} {text} is no list of whole numbers, as 2,3,6") from error
