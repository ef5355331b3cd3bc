"""`tfwave merge`: several jobs' graphs in one."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from tfwave.bundle.bundle import is_bundle
from tfwave.cli.inputs import only_graph, open_graphs
from tfwave.cli.job_names import job_names
from tfwave.cli.output import JsonFlag, print_json, print_table, progress_console, say_written
from tfwave.cli.outputs import check_standard_output
from tfwave.cli.rewrite import CustomOps, Output
from tfwave.errors import GraphError
from tfwave.graph.container import GraphFile, check_target
from tfwave.graph.item import GraphItem
from tfwave.graph.load import STANDARD_INPUT
from tfwave.graph.merge import merge
from tfwave.graph.names import parse_input
from tfwave.graph.verify import verify


def merge_command(
    sources: Annotated[
        list[str], typer.Argument(help="GraphDefs or SavedModels, one for each job.", metavar="IN...")
    ],
    *,
    output: Output,
    fetches: Annotated[
        list[str] | None,
        typer.Option("--fetch", metavar="NAME", help="A tensor or node to say the new names of; repeatable."),
    ] = None,
    custom_ops: CustomOps = None,
    as_json: JsonFlag = False,
) -> None:
    """Put the graphs of several jobs into one, with nothing in common.

    Each node NAME of A.pb becomes A/NAME, and so do variables, tables and functions. One GraphDef comes out, of
    SavedModels, too: each job's own restore op reads its variables.

    [bold]Examples[/bold]

      tfwave merge resnet.pb bert.pb --fetch loss:0 --fetch train -o both.pb

      tfwave merge small.pb small.pb small.pb -o three.pb
    """
    check_standard_output(output, as_json=as_json)
    if sources.count(STANDARD_INPUT) > 1:
        raise GraphError("standard input can be read once: give one '-', and files for the others")
    for source in sources:
        check_target(source, output)
    jobs = {
        name: _job(source, frozenset(custom_ops or ()))
        for name, source in zip(job_names(sources), sources, strict=True)
    }
    jobs = _with_fetches(jobs, fetches or ())
    merged = merge(jobs)
    verify(merged)
    GraphFile(sources[0], merged.graph, text=False).write([merged], output)
    document = {"output": output, "nodes": len(merged.graph.node), "jobs": _jobs(jobs, sources)}
    if as_json:
        print_json(document)
    else:
        _report(document)


def _job(source: str, custom_ops: frozenset[str]) -> GraphItem:
    if is_bundle(Path(source)):
        raise GraphError(
            f"'{source}' is a capture bundle, whose graphs are optimized: give the graph before that"
        )
    item = replace(only_graph(open_graphs(source), source), custom_ops=custom_ops)
    try:
        verify(item)
    except GraphError as error:
        raise GraphError(f"'{source}': {error}") from error
    return item


def _with_fetches(jobs: dict[str, GraphItem], fetches: Sequence[str]) -> dict[str, GraphItem]:
    """Each job with those of its fetches that are asked for, beside those of its signatures."""
    there = {job: {node.name for node in item.graph.node} for job, item in jobs.items()}
    for fetch in fetches:
        if not any(parse_input(fetch).node in names for names in there.values()):
            raise GraphError(f"the fetch '{fetch}' names a node that none of the graphs has")
    return {
        job: replace(
            item,
            fetches=tuple(
                dict.fromkeys((*item.fetches, *(f for f in fetches if parse_input(f).node in there[job])))
            ),
        )
        for job, item in jobs.items()
    }


def _jobs(jobs: dict[str, GraphItem], sources: Sequence[str]) -> list[dict[str, Any]]:
    """What became of each, in the order in which they were given."""
    return [
        {
            "name": job,
            "source": source,
            "nodes": len(item.graph.node),
            "feeds": [f"{job}/{name}" for name in _feeds(item)],
            "fetches": [f"{job}/{name}" for name in item.fetches],
        }
        for (job, item), source in zip(jobs.items(), sources, strict=True)
    ]


def _feeds(item: GraphItem) -> list[str]:
    """Those of its signatures, else all placeholders."""
    placeholders = (f"{node.name}:0" for node in item.graph.node if node.op == "Placeholder")
    return list(item.feeds or placeholders)


def _report(document: dict[str, Any]) -> None:
    """To standard error: standard output may be the graph's."""
    rows = [
        (job["name"], job["source"], job["nodes"], "\n".join(job["feeds"]), "\n".join(job["fetches"]))
        for job in document["jobs"]
    ]
    print_table(
        f"{document['nodes']} nodes",
        ["job", "from", "nodes", "feeds", "fetches"],
        rows,
        words=["from", "feeds", "fetches"],
        to=progress_console,
    )
    say_written(document["output"], to=progress_console)
