"""What commands take in: a graph file, standard input or a capture bundle."""

from dataclasses import dataclass
from pathlib import Path

from tfwave.capture.bundle import Bundle, is_bundle, load_bundle
from tfwave.capture.bundle_graphs import BundleGraphs
from tfwave.errors import BundleError
from tfwave.graph.container import Container, open_container
from tfwave.graph.load import STANDARD_INPUT, load_graph
from tfwave.graph.transfer import Transfers, find_transfers
from tfwave.graph.verify import verify
from tfwave.graph.view import GraphView

GRAPH_HELP = "A GraphDef (binary or text), '-' for standard input, or a capture bundle."


def open_graphs(name: str) -> Container:
    """The graphs in a file, on standard input, in a SavedModel or in a capture bundle.

    Raises:
        GraphError, BundleError: it cannot be read or is malformed; names what and where.
    """
    path = Path(name)
    return BundleGraphs.read(path) if is_bundle(path) else open_container(name)


@dataclass(frozen=True)
class Source:
    """A graph ready for analysis; `bundle` is set where it came from one."""

    view: GraphView
    transfers: Transfers
    bundle: Bundle | None = None


def load_source(name: str) -> Source:
    """Load a graph or a bundle, told apart by what is there, and check it.

    Raises:
        GraphError, BundleError: it cannot be read or is malformed; names what and where.
    """
    if name != STANDARD_INPUT and Path(name).is_dir():
        if not is_bundle(Path(name)):
            raise BundleError(f"'{name}' is a directory, but not a capture bundle: it has no bundle.json")
        bundle = load_bundle(Path(name))
        return Source(bundle.view, bundle.transfers, bundle)
    view = verify(load_graph(name))
    return Source(view, find_transfers(view))
