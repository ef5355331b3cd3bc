"""`tfwave stragglers`: what waiting for the slowest worker costs, and what partial reduces would gain."""

from pathlib import Path
from typing import Annotated

import typer

from tfwave.cli.output import JsonFlag, console, milliseconds, print_json, print_table
from tfwave.stragglers.forecast import Forecast, Terms, choose_terms, forecast
from tfwave.stragglers.times import load_times

PROBES = (1, 2, 4)
MOST_WORKERS = 1000
CAUTION = "gradients per second are not loss: those of a partial reduce are older, and each update has fewer"


def stragglers_command(
    times: Annotated[
        Path, typer.Argument(help='JSON, in seconds: {"worker": [step time, ...], ...}.', metavar="TIMES")
    ],
    workers: Annotated[
        list[int] | None,
        typer.Option(
            min=1,
            max=MOST_WORKERS,
            help="How many; again for several. Default: those measured, up to 1000.",
        ),
    ] = None,
    reduce_ms: Annotated[
        float, typer.Option(min=0.0, max=1e6, help="How long one reduce takes, in milliseconds.")
    ] = 0.0,
    as_json: JsonFlag = False,
) -> None:
    """Forecast how long reduces wait for stragglers, who joins them, and how many gradients a second there are.

    A forecast of what tfwave.keras.PartialReduce does.

    [bold]Examples[/bold]

      tfwave stragglers times.json

      tfwave stragglers times.json --workers 8 --workers 100 --reduce-ms 20 --json
    """
    measured = load_times(times)
    terms = choose_terms(measured)
    counts = workers or [min(len(measured), MOST_WORKERS)]
    found = [each for count in counts for each in forecast(measured, count, PROBES, reduce_ms / 1e3)]
    if as_json:
        print_json({"terms": vars(terms), "forecasts": [vars(each) for each in found], "caution": CAUTION})
        return
    _print(terms, found)


def _print(terms: Terms, found: list[Forecast]) -> None:
    print_table(
        "simulated",
        ["reduce", "workers", "waits (median)", "joined", "gradients/s"],
        [
            (
                each.name,
                each.workers,
                milliseconds(each.wait_seconds),
                f"{each.joined:.0%}",
                f"{each.gradients_per_second:.1f}",
            )
            for each in found
        ],
    )
    console.print(
        f"grace {milliseconds(terms.grace)}, up to {terms.ahead} gradients ahead: "
        + (
            "some steps take longer than others by more"
            if terms.stragglers
            else "no stragglers, none is left"
        )
    )
    console.print(CAUTION)
