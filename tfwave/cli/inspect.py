"""`tfwave inspect`: what is in a graph or a bundle."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tfwave.bundle.bundle import Bundle
from tfwave.bundle.links import channel_links
from tfwave.cli.inputs import GRAPH_HELP, Fetches, Source, load_source
from tfwave.cli.output import (
    JsonFlag,
    bandwidth,
    console,
    milliseconds,
    print_json,
    print_table,
    say_written,
    short_device,
)
from tfwave.cli.outputs import check_outputs
from tfwave.cli.show_plan import print_plan
from tfwave.errors import TfwaveError
from tfwave.files import write_whole
from tfwave.graph.export import dot, graphml
from tfwave.graph.names import Channel
from tfwave.plan.io import load_plan
from tfwave.plan.match import parts_of_graph
from tfwave.plan.message import to_dict
from tfwave.plan.plan import Plan
from tfwave.report.iterations import traced_iterations
from tfwave.sizes import in_words


def inspect_command(  # noqa: PLR0913, PLR0917
    graph: Annotated[str | None, typer.Argument(help=GRAPH_HELP, metavar="GRAPH|BUNDLE")] = None,
    plan: Annotated[
        Path | None, typer.Option(help="Show this plan; with a graph, check that it belongs to it.")
    ] = None,
    graphml_file: Annotated[
        Path | None, typer.Option("--graphml", help="Write the graph as it runs for networkx, Gephi, yEd.")
    ] = None,
    dot_file: Annotated[
        Path | None, typer.Option("--dot", help="Write the graph as it runs for Graphviz.")
    ] = None,
    fetches: Fetches = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the nodes, devices and transfers of a graph or a capture bundle; or what a plan says.

    [bold]Examples[/bold]

      tfwave inspect demo-run/bundle

      tfwave inspect --plan plan.json

      tfwave inspect train.pb --fetch train_op --plan plan.json --json

      tfwave inspect train.pb --graphml train.graphml
    """
    check_outputs((graph, plan), (graphml_file, dot_file))
    known = None if plan is None else load_plan(plan)
    if graph is not None:
        source = load_source(graph, fetches)
        _inspect_graph(source, known, as_json=as_json)
        _export(source, graphml_file, dot_file, as_json=as_json)
    elif graphml_file or dot_file or fetches:
        raise TfwaveError("--graphml, --dot and --fetch are for a graph: give a graph or a bundle")
    elif known is None:
        raise TfwaveError("there is nothing to inspect: give a graph, a bundle or --plan FILE")
    elif as_json:
        print_json(to_dict(known))
    else:
        print_plan(known)


def _inspect_graph(source: Source, plan: Plan | None, *, as_json: bool) -> None:
    fitting = None if plan is None else parts_of_graph(plan, source.view, source.transfers, source.whole)
    found = _describe(source)
    if as_json:
        print_json(found if fitting is None else found | {"plan": list(fitting)})
        return
    _print(found)
    if fitting:
        console.print(f"The plan belongs to this graph: {', '.join(fitting)}.")
    elif fitting is not None:
        console.print("The plan says where variables, layers or rows lie, and nothing of any graph.")


def _export(source: Source, graphml_file: Path | None, dot_file: Path | None, *, as_json: bool) -> None:
    sizes = {t.recv: t.bytes for t in source.transfers.data if t.bytes}
    for file, export in ((graphml_file, graphml), (dot_file, dot)):
        if file is not None:
            write_whole(file, export(source.view, sizes).encode(errors="replace"))
            say_written(None if as_json else file)


def _describe(source: Source) -> dict[str, Any]:
    view = source.view
    found: dict[str, Any] = {
        "nodes": len(view),
        "devices": dict(sorted(Counter(n.device or "(none)" for n in view.nodes).items())),
        "channels": _channels(source),
    }
    if source.bundle is not None:
        found["capture"] = _capture(source.bundle)
    return found


def _channels(source: Source) -> list[dict[str, Any]]:
    data: dict[Channel, list[int]] = defaultdict(list)
    control = Counter(t.channel for t in source.transfers.control)
    for transfer in source.transfers.data:
        data[transfer.channel].append(transfer.bytes)
    return [
        {
            "source_device": channel.source,
            "destination_device": channel.destination,
            "transfers": len(data[channel]),
            "bytes": sum(data[channel]),
            "control_only": control[channel],
        }
        for channel in sorted(data.keys() | control.keys())
    ]


def _capture(bundle: Bundle) -> dict[str, Any]:
    manifest = bundle.manifest
    return {
        "tensorflow": manifest.tensorflow,
        "steps": len(manifest.steps),
        "median_step_seconds": manifest.median_seconds,
        "missing_transfer_events": sum(s.missing_transfers for s in manifest.steps),
        "links": [
            {
                "source_device": channel.source,
                "destination_device": channel.destination,
                "bytes_per_second": link.bytes_per_second,
                "latency_seconds": link.latency_seconds,
                "relative_error": link.relative_error,
            }
            for channel, link in sorted(channel_links(bundle.records).items())
        ],
        "iterations": [
            {
                "step": iteration.step,
                "device": iteration.device,
                "seconds": iteration.seconds,
                "upper_seconds": iteration.bounds.upper_seconds,
                "lower_seconds": iteration.bounds.lower_seconds,
                "efficiency": iteration.efficiency,
            }
            for iteration in traced_iterations(bundle)
        ],
    }


def _print(found: dict[str, Any]) -> None:
    print_table(
        f"{found['nodes']} nodes",
        ["device", "nodes"],
        [(short_device(d), n) for d, n in found["devices"].items()],
    )
    if found["channels"]:
        _print_channels(found["channels"])
    else:
        console.print("no transfers between tasks: there is no order to plan")
    if "capture" in found:
        _print_capture(found["capture"])


def _print_channels(channels: Sequence[dict[str, Any]]) -> None:
    print_table(
        "transfers between tasks",
        ["from", "to", "data", "size", "control only"],
        [
            (
                short_device(c["source_device"]),
                short_device(c["destination_device"]),
                c["transfers"],
                "unknown" if c["transfers"] and not c["bytes"] else in_words(c["bytes"]),
                c["control_only"],
            )
            for c in channels
        ],
        words=["to"],
    )


def _print_capture(capture: dict[str, Any]) -> None:
    console.print(
        f"captured with TensorFlow {capture['tensorflow']}: {capture['steps']} steps, median "
        f"{milliseconds(capture['median_step_seconds'])}, "
        f"{capture['missing_transfer_events']} transfer events lost"
    )
    if capture["links"]:
        _print_links(capture["links"])
    if capture["iterations"]:
        _print_iterations(capture["iterations"])


def _print_links(links: Sequence[dict[str, Any]]) -> None:
    print_table(
        "links, fitted (shared with all that ran beside)",
        ["from", "to", "bandwidth", "latency", "error"],
        [
            (
                short_device(link["source_device"]),
                short_device(link["destination_device"]),
                bandwidth(link["bytes_per_second"]),
                milliseconds(link["latency_seconds"]),
                f"{link['relative_error']:.0%}",
            )
            for link in links
        ],
        words=["to"],
    )


def _print_iterations(iterations: Sequence[dict[str, Any]]) -> None:
    print_table(
        "traced steps by their own times: E is 1 where the busiest resource never waited, 0 at the worst order",
        ["worker", "step", "time", "U", "L", "E"],
        [
            (
                short_device(i["device"]),
                i["step"] + 1,
                *(milliseconds(i[key]) for key in ("seconds", "upper_seconds", "lower_seconds")),
                f"{i['efficiency']:.3f}",
            )
            for i in iterations
        ],
    )
