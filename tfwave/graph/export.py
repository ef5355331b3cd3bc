"""A graph in the formats of other tools: GraphML, and DOT for Graphviz."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from tfwave.graph.view import GraphView

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def graphml(view: GraphView, sizes: Mapping[int, int] | None = None) -> str:
    """GraphML, as networkx, Gephi and yEd read it, with all that `GraphView.to_networkx` tells.

    What XML cannot hold in a name stands there as U+FFFD.
    """
    networkx: Any = import_module("networkx")
    graph = view.to_networkx(sizes)
    for _, attributes in graph.nodes(data=True):
        for key in ("name", "op", "device"):
            attributes[key] = _NOT_IN_XML.sub("\ufffd", attributes[key])
    return "\n".join([*networkx.generate_graphml(graph), ""])


def dot(view: GraphView, sizes: Mapping[int, int] | None = None) -> str:
    """DOT: a box for each device, the bytes of what is sent where `sizes` has them, control edges dashed."""
    return "\n".join([*_dot_lines(view, sizes or {}), ""])


def _dot_lines(view: GraphView, sizes: Mapping[int, int]) -> Iterator[str]:
    devices: dict[str, list[int]] = defaultdict(list)
    for i, node in enumerate(view.nodes):
        devices[node.device].append(i)
    yield "digraph {\n  node [shape=box]"
    for number, device in enumerate(sorted(devices)):
        yield f"  subgraph cluster_{number} {{\n    label={_quoted(device)}"
        for i in devices[device]:
            said = [view.names[i], view.ops[i], *([f"{sizes[i]} bytes"] if i in sizes else [])]
            yield f"    {i} [label={_quoted(*said)}]"
        yield "  }"
    for source, target, attributes in view.to_networkx().edges(data=True):
        yield f"  {source} -> {target}" + " [style=dashed]" * attributes["control"]
    yield "}"


def _quoted(*lines: str) -> str:
    """Graphviz ends at a zero byte."""
    escaped = [line.replace("\\", "\\\\").replace('"', '\\"').replace("\0", "\ufffd") for line in lines]
    return '"' + "\\n".join(escaped) + '"'
