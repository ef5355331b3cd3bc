"""`tfwave embeddings`: what staged steps of embedding tables will take, and how to stage them."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tfwave.cli.output import JsonFlag, console, milliseconds, print_json, print_table, say_written
from tfwave.cli.outputs import check_outputs
from tfwave.cli.plan_file import AddTo, PlanFile, PlanOutput
from tfwave.cli.show_plan import print_embeddings
from tfwave.cost.cluster import parse_bandwidth, parse_latency
from tfwave.plan.embeddings import Embeddings
from tfwave.plan.plan import Plan
from tfwave.plan.sections import embeddings_dict
from tfwave.sizes import parse_size
from tfwave.staging.capture import read_capture
from tfwave.staging.choice import Forecaster, plan_embeddings
from tfwave.staging.forecast import Links


def embeddings_command(  # noqa: PLR0913, PLR0917
    capture: Annotated[Path, typer.Argument(help="Written by tfwave.embedding.capture.", metavar="CAPTURE")],
    bandwidth: Annotated[
        str, typer.Option(metavar="1gbit", help="Of a host's link, in each direction.")
    ] = "1gbit",
    latency: Annotated[str, typer.Option(metavar="50us", help="Before each transfer.")] = "50us",
    servers: Annotated[
        int | None, typer.Option(min=1, help="To deal the tables out to, in turn. Without it: as captured.")
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, help="Workers that share the servers; times are of all their steps.")
    ] = 1,
    staleness: Annotated[
        int, typer.Option(min=0, help="By how many updates rows may be old at most. 0: exact.")
    ] = 0,
    room: Annotated[
        str | None,
        typer.Option(metavar="64MiB", help="On a worker for rows that it keeps, at most. Without it: none."),
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option(min=1, help="Of the one machine that all tasks share. Without it: each has its own."),
    ] = None,
    output: PlanOutput = None,
    add_to: AddTo = None,
    as_json: JsonFlag = False,
) -> None:
    """Forecast what staged steps of embedding tables take on a network, and say how to stage them.

    Rows of the next batch travel while a worker computes. That gains where rows take long, and nothing where the
    worker's own part does: the verdict says so before the run.

    [bold]Examples[/bold]

      tfwave embeddings capture.json --bandwidth 1gbit

      tfwave embeddings capture.json --bandwidth 300mbit --room 64MiB --staleness 1 -o plan.json
    """
    check_outputs((capture,), (output,))
    file = PlanFile.of(output, add_to)
    known = read_capture(capture)
    known = known.dealt(servers) if servers else known
    links = Links(parse_bandwidth(bandwidth), parse_latency(latency), workers)
    most = parse_size(room) if room else 0
    found = plan_embeddings(known, links, staleness=staleness, room=most, cores=cores)
    file.write(lambda: Plan(embeddings=found))
    facts = _facts(Forecaster(known, links, cores), found)
    if as_json:
        print_json(facts | {"plan": embeddings_dict(found)})
        return
    _print(facts, found)
    if workers > 1:
        console.print(_of_all(workers), soft_wrap=True)
    say_written(output)


def _facts(forecaster: Forecaster, found: Embeddings) -> dict[str, Any]:
    exact = forecaster.staged(0, 0, found.steps)
    together = forecaster.staged(0, 0, found.steps, apart=False)
    stale = forecaster.staged(1, 0, max(2, found.steps))
    return {
        "compute_seconds": forecaster.compute_seconds,
        "wire_seconds_each_way": forecaster.wire_seconds,
        "repeated_share": forecaster.repeated_share,
        "steps": {
            "stock": found.stock_seconds,
            "unique": found.unique_seconds,
            "together": together.seconds,
            "exact": exact.seconds,
            "stale": stale.seconds,
            "planned": found.seconds,
            "floor": found.bound_seconds,
        },
    }


_SAID = {
    "stock": "stock: each id looked up",
    "unique": "each row once",
    "together": "staged, exact, all gradients together",
    "exact": "staged, exact, those of repeated rows first",
    "stale": "staged, rows one update old",
    "planned": "as planned",
    "floor": "its floor, whatever the order of transfers",
}


def _of_all(workers: int) -> str:
    return (
        f"{workers} workers make steps beside each other: what is predicted is the time from the end of one step "
        f"to that of the next, whoever's; a worker's own take {workers} times as long"
    )


def _print(facts: dict[str, Any], found: Embeddings) -> None:
    console.print(
        f"a step: {milliseconds(facts['compute_seconds'])} on the worker, "
        f"{milliseconds(facts['wire_seconds_each_way'])} on the wire each way, with each row once; "
        f"{facts['repeated_share']:.0%} of a batch's rows are in the next one, too",
        soft_wrap=True,
    )
    print_table(
        "forecast",
        ["a step", "time", "of stock"],
        [
            (_SAID[name], milliseconds(seconds), f"{seconds / found.stock_seconds:.0%}")
            for name, seconds in facts["steps"].items()
        ],
    )
    print_embeddings(found)
