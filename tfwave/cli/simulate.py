"""`tfwave simulate`: what a step would take elsewhere."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from tfwave.cli.inputs import GRAPH_HELP, Fetches, load_source
from tfwave.cli.output import JsonFlag, print_json, progress_console, say_written
from tfwave.cli.outputs import check_outputs
from tfwave.cli.predictions import predictions_dict, print_predictions
from tfwave.cost.file import load_costs
from tfwave.errors import MissingCost, TfwaveError
from tfwave.files import write_whole
from tfwave.order.registry import POLICY_NAMES
from tfwave.plan.io import load_plan
from tfwave.plan.plan import Plan
from tfwave.planner import PlanRequest
from tfwave.sim.chrome import trace_text
from tfwave.whatif.change import Change, parse_changes
from tfwave.whatif.predict import Prediction, predict
from tfwave.whatif.subject import Subject, bundle_subject, graph_subject
from tfwave.whatif.timeline_file import save_timeline

PlanFile = Annotated[Path | None, typer.Option(help="Orders, made for this graph; else --policy's.")]
PolicyName = Annotated[
    str | None,
    typer.Option(help=f"Plans each configuration anew: {', '.join(POLICY_NAMES)}; default: tac."),
]
Bandwidth = Annotated[
    str | None,
    typer.Option(metavar="10gbit", help="Of each network card, in each direction; default: as captured."),
]
Latency = Annotated[
    str | None, typer.Option(metavar="50us", help="Between cards, beside what a transfer took anyway.")
]
Servers = Annotated[
    str | None, typer.Option(metavar="N", help="Deal the variables to N servers in turn, by name.")
]
Balanced = Annotated[bool, typer.Option("--balance", help="Deal them as tfwave balance would, not in turn.")]
Workers = Annotated[
    str | None,
    typer.Option(metavar="N", help="N copies of the first worker, asynchronous, that begin together."),
]
BatchScale = Annotated[
    str | None,
    typer.Option(metavar="X", help="Workers' ops take X times as long; an estimate: fixed costs scale too."),
]
Sweeps = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE,VALUE", help="Any of these five; repeatable: all combinations."),
]
CostsFile = Annotated[
    Path | None,
    typer.Option(help="Costs in seconds for a graph without a capture, as tfwave plan takes."),
]
TraceFile = Annotated[
    Path | None, typer.Option(help="Write the last configuration for Perfetto, ordered and unordered.")
]
TimelineFile = Annotated[
    Path | None, typer.Option(help="Write the last configuration, ordered, for tfwave timeline-diff.")
]


def simulate_command(  # noqa: PLR0913, PLR0917
    graph: Annotated[str, typer.Argument(help=GRAPH_HELP, metavar="GRAPH|BUNDLE")],
    plan: PlanFile = None,
    policy: PolicyName = None,
    bandwidth: Bandwidth = None,
    latency: Latency = None,
    servers: Servers = None,
    balance: Balanced = False,
    workers: Workers = None,
    batch_scale: BatchScale = None,
    sweep: Sweeps = None,
    job: Annotated[str, typer.Option(help="The servers' job.")] = "ps",
    costs: CostsFile = None,
    fetches: Fetches = None,
    trace: TraceFile = None,
    timeline: TimelineFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Simulate a step as captured and with other networks, servers, workers or batches, ordered and unordered.

    The error is that of the step as captured; of other configurations it is only the part that is known.

    [bold]Examples[/bold]

      tfwave simulate demo-run/bundle --bandwidth 10gbit --latency 50us

      tfwave simulate demo-run/bundle --sweep workers=1,2,4,8 --sweep servers=1,2 --json

      tfwave simulate demo-run/bundle --plan plan.json --workers 8 --trace trace.json
    """
    check_outputs((graph, plan, costs), (trace, timeline))
    settings = {
        "bandwidth": bandwidth,
        "latency": latency,
        "servers": servers,
        "workers": workers,
        "batch-scale": batch_scale,
    }
    changes = parse_changes({k: v for k, v in settings.items() if v is not None}, sweep or ())
    if balance:
        changes = [replace(c, balanced=True, label=f"{c.label}, balanced") for c in changes]
    orders = _orders(plan, policy)
    subject = _subject(graph, fetches, costs, job)
    found = _predict_all(subject, _with_captured(changes), orders)
    if trace is not None:
        write_whole(trace, _trace(found[-1]).encode())
    if timeline is not None:
        save_timeline(found[-1].ordered, timeline)
    if as_json:
        print_json(predictions_dict(subject, found))
        return
    print_predictions(subject, found)
    for file in (trace, timeline):
        say_written(file)


def _orders(plan: Path | None, policy: str | None) -> Plan | PlanRequest:
    if plan is None:
        return PlanRequest(policy or "tac")
    if policy is not None:
        raise TfwaveError("--plan and --policy both give an order: leave one out")
    return load_plan(plan)


def _subject(graph: str, fetches: Sequence[str] | None, costs: Path | None, job: str) -> Subject:
    source = load_source(graph, fetches)
    if source.bundle is not None:
        if costs is not None:
            raise TfwaveError("a capture bundle has its own times: leave out --costs")
        return bundle_subject(source.bundle, job)
    if costs is None:
        raise MissingCost(f"'{graph}' has no times: give a capture bundle, or --costs FILE")
    return graph_subject(source.view, source.transfers, load_costs(costs, source.view), job)


def _with_captured(changes: Sequence[Change]) -> list[Change]:
    return [Change(), *(change for change in changes if change != Change())]


def _predict_all(subject: Subject, changes: Sequence[Change], orders: Plan | PlanRequest) -> list[Prediction]:
    found: list[Prediction] = []
    shown = progress_console.is_terminal and len(changes) > 1
    bar = Progress(console=progress_console, transient=True)
    with bar if shown else nullcontext():
        task = bar.add_task("", total=len(changes))
        for change in changes:
            bar.update(task, description=change.label)
            found.append(predict(subject, change, orders))
            bar.advance(task)
    return found


def _trace(found: Prediction) -> str:
    return trace_text(chain(found.ordered.chrome_events("ordered"), found.free.chrome_events("unordered")))
