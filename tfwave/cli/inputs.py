"""What commands take in: a graph file, standard input, a SavedModel or a capture bundle."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from tfwave.bundle.bundle import Bundle, is_bundle
from tfwave.bundle.graphs import BundleGraphs
from tfwave.errors import GraphError
from tfwave.graph.container import Container, open_container
from tfwave.graph.item import GraphItem
from tfwave.graph.ops import unknown_ops
from tfwave.graph.transfer import Transfers, find_transfers
from tfwave.graph.verify import verify
from tfwave.graph.view import GraphView
from tfwave.planner.uncaptured import as_it_runs

GRAPH_HELP = "GraphDef (binary or text), '-' for standard input, SavedModel or capture bundle."

Fetches = Annotated[
    list[str] | None,
    typer.Option(
        "--fetch",
        metavar="NAME",
        help="A tensor or node that a step runs; repeatable. What none of them needs is left out of the order.",
    ),
]
MemoryDevice = Annotated[str | None, typer.Option(help="Whose memory, where several were traced.")]


def with_fetches(item: GraphItem, fetches: Sequence[str] | None) -> GraphItem:
    """The graph as a step that runs these runs it; unchanged if none is given."""
    return replace(item, fetches=tuple(fetches)) if fetches else item


def open_graphs(name: str) -> Container:
    """The graphs in a file, on standard input, in a SavedModel or in a capture bundle.

    Raises:
        GraphError, BundleError: it cannot be read or is malformed; names what and where.
    """
    path = Path(name)
    if os.path.isdir(path) and not is_bundle(path) and not any(path.glob("saved_model.*")):
        raise GraphError(f"'{name}' is a directory, but neither a capture bundle nor a SavedModel")
    return BundleGraphs.read(path) if is_bundle(path) else open_container(name)


def only_graph(container: Container, name: str) -> GraphItem:
    """The graph of a container that has one.

    Raises:
        GraphError: it has several.
    """
    (_, item), *more = container.items()
    if more:
        raise GraphError(f"'{name}' holds {len(more) + 1} graphs: save one of its meta graphs by itself")
    return item


@dataclass(frozen=True)
class Source:
    """A graph ready for analysis; `bundle` is set where it came from one.

    `whole` is the graph as it was given, before it was cut.
    """

    view: GraphView
    transfers: Transfers
    whole: GraphView
    bundle: Bundle | None = None


def load_source(name: str, fetches: Sequence[str] | None = None) -> Source:
    """Load one graph or a bundle, told apart by what is there, and check it.

    A graph that names devices of several tasks or jobs and is not cut yet is cut as TensorFlow would. Ops that
    nobody knows are taken for the user's own.

    Raises:
        GraphError, BundleError: it cannot be read or is malformed, or there are several graphs; names what and
            where. Or it is a bundle, and fetches are given.
    """
    container = open_graphs(name)
    if isinstance(container, BundleGraphs):
        if fetches:
            raise GraphError("a capture bundle has its own fetches: leave out --fetch")
        bundle = container.bundle
        return Source(bundle.view, bundle.transfers, bundle.view, bundle)
    item = with_fetches(only_graph(container, name), fetches)
    item = replace(item, custom_ops=unknown_ops(item.graph))
    whole = verify(item)
    view = as_it_runs(item, whole)
    return Source(view, find_transfers(view), whole)
