"""`tfwave rewrite` and `tfwave undo`: run passes over graphs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tfwave.bundle.bundle import Bundle
from tfwave.bundle.graphs import BundleGraphs
from tfwave.cli.inputs import GRAPH_HELP, Fetches, open_graphs, with_fetches
from tfwave.cli.output import JsonFlag, print_json, print_table, progress_console, say_written, under_way
from tfwave.cli.outputs import check_apart, check_standard_output
from tfwave.errors import TfwaveError, excerpt
from tfwave.files import read_file
from tfwave.graph.container import STANDARD_OUTPUT, Container
from tfwave.graph.item import GraphItem
from tfwave.passes.instruments import Dumper, Recorder, StageSummary
from tfwave.passes.pipeline import Instrument, Pipeline
from tfwave.passes.planned import Planned, Planner
from tfwave.passes.text import parse_pipeline
from tfwave.plan.io import load_plan
from tfwave.plan.plan import Plan
from tfwave.planner import PlanRequest, make_plan
from tfwave.planner.captured import plan_bundle
from tfwave.planner.uncaptured import plan_graph, untraced_network

_COLUMNS = ["pass", "time", "edits", "nodes", "removed", "control edges", "redirected"]

Input = Annotated[str, typer.Argument(help=GRAPH_HELP, metavar="IN")]
Output = Annotated[
    str,
    typer.Option(
        "-o",
        "--output",
        help="Where to write: of IN's kind; text if it ends in .pbtxt; '-': standard output.",
    ),
]
CustomOps = Annotated[
    list[str] | None,
    typer.Option(
        "--custom-op", help="An op of your own library that the graph uses; repeatable.", metavar="OP"
    ),
]


@dataclass(frozen=True)
class _Request:
    """What to run on what, and where to."""

    source: str
    passes: str
    output: str
    plan: Plan | None = None
    costs: Path | None = None
    dump: Path | None = None
    fetches: tuple[str, ...] = ()
    custom_ops: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rewritten:
    """What became of one graph."""

    label: str
    item: GraphItem
    stages: tuple[StageSummary, ...]

    @property
    def changed(self) -> bool:
        """Whether any pass did anything."""
        return any(stage.edits for stage in self.stages)


def rewrite_command(  # noqa: PLR0913
    source: Input,
    *,
    output: Output,
    passes: Annotated[
        str | None,
        typer.Option(help="What to run, in order: 'cut,recv_priority'; options: 'ack_window{window=2}'."),
    ] = None,
    passes_file: Annotated[
        Path | None, typer.Option(help="The same from a file, lines and spaces as you like.", metavar="FILE")
    ] = None,
    plan: Annotated[Path | None, typer.Option(help="The plan for the passes that need one.")] = None,
    costs: Annotated[
        Path | None,
        typer.Option(
            help="Costs for 'recv_priority{policy=tac}', as `tfwave plan` takes them.", metavar="FILE"
        ),
    ] = None,
    dump: Annotated[
        Path | None, typer.Option(help="Write the graph after each pass here, numbered.", metavar="DIR")
    ] = None,
    fetches: Fetches = None,
    custom_ops: CustomOps = None,
    as_json: JsonFlag = False,
) -> None:
    """Run graph passes and write what comes out; the input is left as it is.

    [bold]Examples[/bold]

      tfwave rewrite train.pb --passes 'recv_priority{policy=tic},ack_window' --fetch train_op -o out.pb

      tfwave rewrite train.pb --plan plan.json --passes 'recv_priority,ack_window{window=2}' -o out.pb

      tfwave rewrite train.pb --plan plan.json --passes-file passes.txt -o out.pb

      tfwave rewrite model/ --passes strip -o plain/

      tfwave rewrite - --passes cut -o - < train.pb > parts.pb
    """
    check_apart((plan, costs, passes_file), () if output == STANDARD_OUTPUT else (Path(output),))
    text = _text_of(passes, passes_file)
    given = None if plan is None else load_plan(plan)
    request = _Request(
        source, text, output, given, costs, dump, tuple(fetches or ()), tuple(custom_ops or ())
    )
    _run(request, as_json=as_json)


def _text_of(passes: str | None, file: Path | None) -> str:
    if (passes is None) == (file is None):
        raise TfwaveError("what to run is given by --passes TEXT or by --passes-file FILE: give one of them")
    if file is None:
        return passes or ""
    try:
        return read_file(file).decode()
    except OSError as error:
        raise TfwaveError(f"cannot read the passes file '{file}': {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TfwaveError(f"the passes file '{file}' is no text in UTF-8") from error


def undo_command(
    source: Input, *, output: Output, custom_ops: CustomOps = None, as_json: JsonFlag = False
) -> None:
    """Take back all that tfwave did to a graph: the pass 'strip'.

    [bold]Examples[/bold]

      tfwave undo out.pb -o train.pb
    """
    _run(_Request(source, "strip", output, custom_ops=tuple(custom_ops or ())), as_json=as_json)


def _run(request: _Request, *, as_json: bool) -> None:
    output = request.output
    check_standard_output(output, as_json=as_json)
    container = open_graphs(request.source)
    pipeline = _pipeline(request, container)
    items = [(label, _prepared(item, request)) for label, item in container.items()]
    dumps = _dump_places(request.dump, len(items))
    done = [_rewrite(i, pipeline, place) for i, place in zip(items, dumps, strict=True)]
    container.write([one.item for one in done], output)
    if as_json:
        print_json({"output": output, "graphs": [_summary(one) for one in done]})
    else:
        _report(done, output)


def _prepared(item: GraphItem, request: _Request) -> GraphItem:
    return with_fetches(replace(item, custom_ops=frozenset(request.custom_ops)), request.fetches)


def _pipeline(request: _Request, container: Container) -> Pipeline:
    pipeline = parse_pipeline(request.passes, request.plan, planner=_planner(container, request.costs))
    if request.costs and not any(isinstance(one, Planned) for one in pipeline.passes):
        raise TfwaveError("--costs is for a pass that plans by itself: 'recv_priority{policy=tac}'")
    return pipeline


def _planner(container: Container, costs: Path | None) -> Planner:
    """Of a bundle all partitions take one plan, that of the whole job."""
    if not isinstance(container, BundleGraphs):
        return partial(plan_graph, costs=costs)
    whole = cache(partial(_whole_plan, container.bundle, costs))
    return lambda _item, _view, policy: whole(policy)


def _whole_plan(bundle: Bundle, costs: Path | None, policy: str) -> Plan:
    if costs is None:
        return plan_bundle(bundle, policy)
    network = untraced_network(bundle.view, policy, costs)
    return make_plan(bundle.view, bundle.transfers.data, network, PlanRequest(policy))


def _rewrite(labelled: tuple[str, GraphItem], pipeline: Pipeline, dump: Path | None) -> Rewritten:
    label, item = labelled
    recorder = Recorder()
    instruments: list[Instrument] = [recorder]
    if dump is not None:
        instruments.append(Dumper(dump))
    with under_way(f"{label}: {excerpt(str(pipeline))}"):
        result = replace(pipeline, instruments=tuple(instruments))(item)
    return Rewritten(label, result.item, tuple(recorder.stages))


def _dump_places(dump: Path | None, count: int) -> list[Path | None]:
    """One directory for each graph; the given one where there is just one graph."""
    if dump is None:
        return [None] * count
    places = [dump] if count == 1 else [dump / f"{i:03}" for i in range(count)]
    for place in places:
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TfwaveError(f"cannot write '{place}': {error.strerror}") from error
    return list(places)


def _summary(one: Rewritten) -> dict[str, Any]:
    stages = [asdict(stage) for stage in one.stages]
    return {"graph": one.label, "nodes": len(one.item.graph.node), "changed": one.changed, "passes": stages}


def _report(done: Sequence[Rewritten], output: str) -> None:
    """To standard error: standard output may be the graph's."""
    for one in done:
        rows = [_row(stage) for stage in one.stages]
        print_table(one.label, _COLUMNS, rows, to=progress_console)
        for stage in one.stages:
            for remark in stage.remarks:
                progress_console.print(f"{excerpt(stage.graph_pass)}: {remark}", style="yellow")
    if not any(one.changed for one in done):
        progress_console.print("nothing was to be done: the output equals the input", style="yellow")
    say_written(output, to=progress_console)


def _row(stage: StageSummary) -> list[object]:
    counts = (stage.nodes_added, -stage.nodes_removed, stage.control_edges_added, stage.inputs_redirected)
    return [
        excerpt(stage.graph_pass),
        f"{stage.seconds:.2f} s",
        stage.edits,
        *(f"{count:+}" if count else "" for count in counts),
    ]
