"""`tfwave stragglers`: what waiting for the slowest worker costs, and what partial reduces would gain."""

from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from tfwave.cli.output import JsonFlag, console, milliseconds, print_json, print_table
from tfwave.cost.analytic import LinkModel
from tfwave.cost.cluster import UNLIMITED, parse_bandwidth, parse_latency
from tfwave.sizes import parse_size
from tfwave.stragglers.forecast import (
    Forecast,
    Terms,
    Verdict,
    choose_terms,
    exchange_seconds,
    forecast,
    judge,
    ring_seconds,
)
from tfwave.stragglers.times import load_times, those_of

PROBES = (1, 2, 4)
MOST_WORKERS = 1000
CAUTION = "gradients per second are not loss: those of a partial reduce are older, and each update has fewer"


def stragglers_command(  # noqa: PLR0913, PLR0917
    times: Annotated[
        Path, typer.Argument(help='JSON, in seconds: {"worker": [step time, ...], ...}.', metavar="TIMES")
    ],
    workers: Annotated[
        list[int] | None,
        typer.Option(
            min=1,
            max=MOST_WORKERS,
            help="How many; repeatable. Default: those measured, up to 1000.",
        ),
    ] = None,
    gradients: Annotated[
        str, typer.Option(metavar="64MB", help="Of a worker and step; without it reduces take no time.")
    ] = "",
    bandwidth: Annotated[
        str, typer.Option(metavar="10gbit", help="Of a worker's link, in each direction.")
    ] = "10gbit",
    latency: Annotated[str, typer.Option(metavar="50us", help="Before each transfer.")] = "50us",
    as_json: JsonFlag = False,
) -> None:
    """Forecast how long reduces wait for stragglers, who joins them, and how many gradients a second there are.

    A forecast of what tfwave.keras.PartialReduce does, and of what its groups= would gain beyond that. A reduce is
    a ring's, among all workers or those of a group.

    [bold]Examples[/bold]

      tfwave stragglers times.json

      tfwave stragglers times.json --workers 8 --workers 100 --gradients 64MB --bandwidth 1gbit --json
    """
    measured = load_times(times)
    counts = workers or [min(len(measured), MOST_WORKERS)]
    terms = choose_terms(those_of(measured, max(counts)))
    link = LinkModel(parse_latency(latency), parse_bandwidth(bandwidth))
    carried, over = (parse_size(gradients), link) if gradients else (0, UNLIMITED)
    reduce_seconds = partial(ring_seconds, gradients=carried, link=over)
    meeting_seconds = exchange_seconds(carried, over)
    found = [forecast(measured, count, PROBES, reduce_seconds, meeting_seconds) for count in counts]
    verdicts = [judge(each) for each in found]
    rows = list(chain.from_iterable(found))
    if as_json:
        print_json(
            {
                "terms": vars(terms),
                "forecasts": [vars(each) for each in rows],
                "verdicts": [vars(each) for each in verdicts],
                "caution": CAUTION,
            }
        )
        return
    _print(terms, rows)
    for verdict, each in zip(verdicts, found, strict=True):
        console.print(_in_words(verdict))
        console.print(_of_groups(verdict, each[-1]), soft_wrap=True)
    console.print(CAUTION)


def _in_words(verdict: Verdict) -> str:
    what = (
        f"{verdict.workers} workers: '{verdict.best}' makes {verdict.gain:.2f} x the gradients/s of a barrier"
    )
    return what if verdict.pays else f"{what}: no gain"


def _of_groups(verdict: Verdict, last: Forecast) -> str:
    if not verdict.groups_pay:
        return f"{verdict.workers} workers: no gain from groups"
    behind = milliseconds(last.apart_seconds or 0.0)
    who = " | ".join(" ".join(group) for group in last.groups)
    return (
        f"{verdict.workers} workers: {last.name} would make {verdict.groups_gain:.2f} x the gradients/s of "
        f"'{verdict.best}', each up to {behind} behind the others; fastest first: {who}"
    )


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
