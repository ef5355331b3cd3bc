"""`tfwave diff`: what differs between two graphs."""

from collections.abc import Iterator, Mapping
from typing import Annotated

import typer

from tfwave.cli.inputs import open_graphs
from tfwave.cli.output import JsonFlag, print_json
from tfwave.errors import TfwaveError
from tfwave.graph.diff import Edit, GraphDiff, NodeChanges, Value, diff


def diff_command(
    a: Annotated[str, typer.Argument(help="A graph, SavedModel or capture bundle.", metavar="A")],
    b: Annotated[str, typer.Argument(help="Another of the same kind.", metavar="B")],
    as_json: JsonFlag = False,
) -> None:
    """Compare two graphs by node, whatever order the nodes are in. Exit code 1 if they differ.

    [bold]Examples[/bold]

      tfwave diff train.pb out.pb

      tfwave diff train.pb out.pb --json
    """
    first, second = dict(open_graphs(a).items()), dict(open_graphs(b).items())
    if len(first) == len(second) == 1:  # whatever they are called
        second = dict(zip(first, second.values(), strict=True))
    if first.keys() != second.keys():
        only = min(first.keys() ^ second.keys())
        raise TfwaveError(f"'{a}' and '{b}' hold different graphs: only one of them has '{only}'")
    found = {label: diff(item.graph, second[label].graph) for label, item in first.items()}
    if as_json:
        print_json({label: difference.to_dict() for label, difference in found.items()})
    else:
        for label, difference in found.items():
            for line in _lines(label, difference):
                typer.echo(line)
    raise typer.Exit(any(found.values()))


def _lines(label: str, difference: GraphDiff) -> Iterator[str]:
    if difference.equal:
        yield f"{label}: equal"
        return
    yield from _node_lines("", difference.nodes)
    yield from (f"+ function {name}" for name in difference.functions.added)
    yield from (f"- function {name}" for name in difference.functions.removed)
    for function in difference.functions.changed:
        yield f"~ function {function.name}"
        yield from _edit_lines(function.edits)
        yield from _node_lines("  ", function.nodes)
    yield from _edit_lines(difference.edits)
    counts = difference.nodes
    yield (
        f"{label}: {len(counts.added)} nodes added, {len(counts.removed)} removed, {len(counts.changed)} changed"
    )


def _node_lines(indent: str, nodes: NodeChanges) -> Iterator[str]:
    yield from (f"{indent}+ {name}" for name in nodes.added)
    yield from (f"{indent}- {name}" for name in nodes.removed)
    for node in nodes.changed:
        yield f"{indent}~ {node.name}"
        for line in _edit_lines({**node.edits, **node.attrs}):
            yield indent + line


def _edit_lines(edits: Mapping[str, Edit]) -> Iterator[str]:
    for name, edit in edits.items():
        yield f"    {name}: {_text(edit.before)} -> {_text(edit.after)}"


def _text(value: Value) -> str:
    if value is None:
        return "(none)"
    return value if isinstance(value, str) else f"[{', '.join(value)}]"
