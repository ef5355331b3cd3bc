"""`tfwave plan`: decide an order."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tfwave.balance.holdings import Holdings
from tfwave.balance.load import ServerLoad, loads_of
from tfwave.bundle.bundle import Bundle
from tfwave.bundle.costs import bundle_costs, bundle_network
from tfwave.cli.balance import print_loads
from tfwave.cli.inputs import GRAPH_HELP, Fetches, Source, load_source
from tfwave.cli.output import (
    JsonFlag,
    against_captured,
    console,
    milliseconds,
    print_json,
    progress_console,
    say_written,
    under_way,
)
from tfwave.cli.outputs import check_outputs
from tfwave.cli.plan_file import AddTo, PlanFile, PlanOutput
from tfwave.cli.show_plan import print_order
from tfwave.cost.network import Network
from tfwave.errors import MissingCost
from tfwave.graph.transfer import Transfer
from tfwave.order.registry import POLICY_NAMES
from tfwave.plan.message import to_dict
from tfwave.plan.plan import Plan
from tfwave.planner import PlanRequest, make_plan
from tfwave.planner.captured import overlap_on
from tfwave.planner.plan import URGENCY
from tfwave.planner.uncaptured import untraced_network


class Missing(StrEnum):
    """What to do about an op or transfer without a cost."""

    error = "error"
    estimate = "estimate"


def plan_command(  # noqa: PLR0913, PLR0917
    graph: Annotated[str, typer.Argument(help=GRAPH_HELP, metavar="GRAPH|BUNDLE")],
    policy: Annotated[
        str, typer.Option(help=f"{', '.join(POLICY_NAMES)}, or your own: module:function.")
    ] = "tac",
    costs: Annotated[
        Path | None,
        typer.Option(help='Costs in seconds: {"ops": {node: s}, "transfers": {recv node: s}}.'),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Plan only what arrives at this device, or task.")
    ] = None,
    output: PlanOutput = None,
    add_to: AddTo = None,
    fetches: Fetches = None,
    seed: Annotated[int, typer.Option(help="Seed of the policies 'random' and 'search'.")] = 0,
    missing: Annotated[Missing, typer.Option(help="Refuse missing costs, or estimate them.")] = Missing.error,
    workers: Annotated[
        int, typer.Option(min=1, help="How many run the captured job at once, each by itself.")
    ] = 1,
    as_json: JsonFlag = False,
) -> None:
    """Order the transfers of a graph, and say what that should give.

    [bold]Examples[/bold]

      tfwave plan demo-run/bundle -o plan.json

      tfwave plan worker.pb --policy tac --costs costs.json --json

      tfwave plan train.pb --policy tic --fetch loss:0 --fetch train_op -o plan.json

      tfwave plan - --policy tic < worker.pb
    """
    check_outputs((graph, costs), (output,))
    file = PlanFile.of(output, add_to)
    with under_way(f"planning '{graph}'"):
        source = load_source(graph, fetches)
        transfers = source.transfers.data
        known = _network(source, policy, costs)
        network = _estimated(known, transfers) if missing is Missing.estimate else known
        plan = make_plan(source.view, transfers, network, PlanRequest(policy, seed, device, workers))
        file.write(lambda: plan)
    if plan.policy == URGENCY:
        told = f"steps overlap: ordered by urgency, not by --policy {policy}"
        progress_console.print(told, style="yellow", soft_wrap=True)
    if as_json:
        print_json(to_dict(plan))
        return
    print_order(plan)
    if source.bundle is not None:
        captured = known if costs is None else bundle_network(source.bundle)
        _print_beside(source.bundle, captured, plan, workers)
    say_written(output)


def _estimated(known: Network, transfers: Sequence[Transfer]) -> Network:
    """With estimates for what is not known.

    Raises:
        MissingCost: no transfer is known that those of the others could be made from.
    """
    if transfers and not any(transfer.recv in known.given.transfers for transfer in transfers):
        raise MissingCost("estimates need the time of at least one transfer: give one, or trace more runs")
    return known.estimated(transfers)


def _print_beside(bundle: Bundle, captured: Network, plan: Plan, workers: int) -> None:
    """How far forecasts are off here; what may help besides: an even load of the servers, steps that overlap."""
    seconds = bundle.manifest.median_seconds
    console.print(against_captured(seconds, plan.predicted.unordered_seconds))
    if machine := bundle.manifest.machine_seconds:
        console.print(f"cores of the capturing machine: {machine / seconds:.0%} busy")
    loads = _loads(bundle, captured)
    if len(loads) > 1:
        print_loads(loads)
    network = captured.estimated(bundle.transfers.data)
    advised = overlap_on(network, bundle, workers) if plan.policy != URGENCY else None
    if advised is not None and advised.passes:
        share = 1 - advised.seconds / advised.single_seconds
        console.print(
            f"steps that overlap: {advised.steps} a call could take {milliseconds(advised.seconds)} each, "
            f"{share:.0%} less:\n  tfwave rewrite TRAIN.pb --passes '{advised.passes}' -o OVERLAPPED.pb",
            soft_wrap=True,
        )


def _loads(bundle: Bundle, captured: Network) -> tuple[ServerLoad, ...]:
    """A lost read of a whole variable takes what its bytes take on its channel, if any were seen there."""
    holdings = Holdings(bundle.view)
    sized = holdings.sized(bundle.transfers.data)
    known, rough = bundle_costs(bundle, sized), captured.estimated(sized).given
    return loads_of(holdings, sized, known.fill(rough.ops, rough.transfers))


def _network(source: Source, policy: str, costs: Path | None) -> Network:
    if source.bundle is not None and costs is None:
        return bundle_network(source.bundle)
    return untraced_network(source.view, policy, costs)
