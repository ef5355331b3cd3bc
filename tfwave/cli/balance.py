"""`tfwave balance`: what each server has to do, and where the variables should be."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from tfwave.balance.holdings import Holdings
from tfwave.balance.load import ServerLoad, loads_of
from tfwave.balance.result import Balance
from tfwave.balance.solve import MOST_SERVERS, balance
from tfwave.balance.variables import placeable
from tfwave.bundle.costs import bundle_costs
from tfwave.cli.inputs import GRAPH_HELP, Fetches, Source, load_source
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
from tfwave.cli.plan_file import AddTo, PlanFile, PlanOutput
from tfwave.cost.estimate import estimated
from tfwave.cost.table import Costs
from tfwave.graph.transfer import Transfer
from tfwave.plan.plan import Plan
from tfwave.sizes import in_words


def balance_command(  # noqa: PLR0913, PLR0917
    graph: Annotated[str, typer.Argument(help=GRAPH_HELP, metavar="GRAPH|BUNDLE")],
    servers: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST_SERVERS, help="How many to place on; default: those that the graph names."
        ),
    ] = None,
    job: Annotated[str, typer.Option(help="The servers' job.")] = "ps",
    output: PlanOutput = None,
    add_to: AddTo = None,
    fetches: Fetches = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what each parameter server has to do, and place the variables so that none has more than the others.

    [bold]Examples[/bold]

      tfwave balance demo-run/bundle

      tfwave balance demo-run/bundle --servers 4 -o plan.json

      tfwave balance train.pb --fetch train_op --json
    """
    check_outputs((graph,), (output,))
    file = PlanFile.of(output, add_to)
    source = load_source(graph, fetches)
    holdings = Holdings(source.view, job)
    transfers = holdings.sized(source.transfers.data)
    costs = _costs(source, transfers)
    variables = placeable(holdings, transfers, costs)
    loads = loads_of(holdings, transfers, costs)
    there = 1 + max((v.server for v in variables if v.server is not None), default=0)
    found = balance(variables, servers or max(there, len(loads)))
    file.write(lambda: Plan(placement=found.placement))
    unknown = sum(not t.bytes for t in transfers)
    if as_json:
        print_json(_document(loads, found, unknown))
        return
    _print(loads, found, unknown)
    say_written(output)


def _costs(source: Source, transfers: Sequence[Transfer]) -> Costs | None:
    if source.bundle is None:
        return None
    return estimated(bundle_costs(source.bundle, transfers), transfers)


def _document(loads: tuple[ServerLoad, ...], found: Balance, unknown: int) -> dict[str, Any]:
    return {
        "now": [vars(load) for load in loads],
        "placement": {"servers": found.servers, "variables": dict(sorted(found.placement.variables.items()))},
        "predicted": {
            "bytes_now": found.bytes_now,
            "bytes": found.bytes_after,
            "wire_seconds_now": found.wire_seconds_now,
            "wire_seconds": found.wire_seconds_after,
            "waited_bytes_now": found.waited_bytes_now,
            "waited_bytes": found.waited_bytes,
            "bound_bytes": found.bound_bytes,
            "ratio": found.ratio,
            "too_large": found.too_large and found.too_large.name,
            "gain": found.gain,
            "waited_gain": found.waited_gain,
            "gains": found.gains,
        },
        "transfers_of_unknown_size": unknown,
    }


def print_loads(loads: Sequence[ServerLoad]) -> None:
    """A row for each server."""
    timed = any(load.wire_seconds for load in loads)
    print_table(
        "servers now, in one step",
        ["server", "variables", "pulled", "pushed", "wire time", "op time", "of busiest"],
        [
            (
                _short(load.server),
                load.variables,
                in_words(load.pulled_bytes),
                in_words(load.pushed_bytes),
                milliseconds(load.wire_seconds) if timed else "-",
                milliseconds(load.op_seconds) if timed else "-",
                f"{load.share:.0%}",
            )
            for load in loads
        ],
    )


def _print(loads: Sequence[ServerLoad], found: Balance, unknown: int) -> None:
    print_loads(loads)
    if unknown:
        console.print(
            f"{unknown} transfers are of unknown size and count nothing: capture a run to know them"
        )
    _print_proposal(found)
    console.print(_verdict(found))
    if found.too_large is not None:
        console.print(
            f"'{found.too_large.name}' alone is more than an equal part: split it "
            "(variable_partitioner of a strategy, partitioner of tf.compat.v1.get_variable)"
        )


def _short(task: str) -> str:
    return short_device(f"{task}/device:CPU:0").partition("/")[0]


def _print_proposal(found: Balance) -> None:
    seconds = found.wire_seconds_after
    totals = found.bytes_after
    most = max(totals)
    counts = [list(found.placement.variables.values()).count(server) for server in range(found.servers)]
    print_table(
        "proposed",
        ["task", "variables", "pulled and pushed", "wire time", "of busiest"],
        [
            (
                server,
                counts[server],
                in_words(total),
                milliseconds(seconds[server]) if seconds else "-",
                f"{total / most:.0%}" if most else "100%",
            )
            for server, total in enumerate(totals)
        ],
    )


def _verdict(found: Balance) -> str:
    near = f"busiest server at {found.ratio:.2f} x the least possible ({in_words(found.bound_bytes)})"
    if found.gain is None or found.waited_gain is None:
        return f"predicted: {near}"
    if not found.gains:
        return f"no gain expected: {near}"
    now, after = found.wire_seconds_now, found.wire_seconds_after
    if now is not None and after is not None:
        change = f"wire time {milliseconds(max(now))} -> {milliseconds(max(after))}"
    else:
        change = f"{in_words(max(found.bytes_now or (0,)))} -> {in_words(max(found.bytes_after))}"
    return (
        f"predicted: {change} of the busiest server, {found.gain:.0%} less; {found.waited_gain:.0%} fewer bytes "
        f"waited for over the step; {near}"
    )
