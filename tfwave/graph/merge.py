"""Several jobs' graphs in one, with nothing in common, and each of them back from it.

What a graph finds by name is renamed to ``<job>/<name>``: nodes, functions, and what outlives a step (variables,
tables, queues, iterators: their ``shared_name``), the frames of loops, and the tensors that are sent.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tfwave.errors import GraphError
from tfwave.graph.access import HANDLE_OP, KEYED_OPS, is_anonymous
from tfwave.graph.attrs import rename_groups
from tfwave.graph.item import GraphItem
from tfwave.graph.marks import is_added, is_marked, removed_nodes, restore
from tfwave.proto.tensorflow_pb2 import AttrValue, FunctionDef, GraphDef, NodeDef

_JOB = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\-]*")
_RESOURCES = "shared_name"
_SEVERAL_RESOURCES = "shared_names"
_FOUND_BY = ("frame_name", "tensor_name")


def merge(jobs: Mapping[str, GraphItem]) -> GraphItem:
    """One graph of several, each under the name of its job.

    Feeds, fetches and what must stay are those of all. The result says that the oldest of their TensorFlows made
    it, and asks of a reader what the newest does.

    Raises:
        GraphError: fewer than two jobs, a name that no node can begin with, a graph that was rewritten, or
            collectives in two of them, which meet by number; names the job.
    """
    if len(jobs) < 2:
        raise GraphError("there is one graph: give two or more to merge")
    for job, item in jobs.items():
        _check_job(job, item)
    _check_collectives(jobs)
    graph = GraphDef()
    for job, item in jobs.items():
        functions = {function.signature.name for function in item.graph.library.function}
        graph.MergeFrom(_Renamer(job, functions).renamed(item.graph))
    versions = [item.graph.versions for item in jobs.values()]
    graph.versions.producer = min(version.producer for version in versions)
    graph.versions.min_consumer = max(version.min_consumer for version in versions)
    bad = sorted({consumer for version in versions for consumer in version.bad_consumers})
    graph.versions.bad_consumers[:] = bad
    return GraphItem(
        graph,
        feeds=tuple(f"{job}/{name}" for job, item in jobs.items() for name in item.feeds),
        fetches=tuple(f"{job}/{name}" for job, item in jobs.items() for name in item.fetches),
        preserve=frozenset(f"{job}/{name}" for job, item in jobs.items() for name in item.preserve),
        custom_ops=frozenset(op for item in jobs.values() for op in item.custom_ops),
    )


def job_of(nodes: Iterable[NodeDef], job: str) -> GraphDef:
    """The nodes of one job of a merged graph as they were, rewrites taken back; none where it has no such job."""
    graph = GraphDef(node=nodes)
    own = [node for node in [*graph.node, *removed_nodes(graph)] if _is_of(node, job)]
    for node in own:
        restore(node)
    return _Renamer(job, back=True).renamed(GraphDef(node=own))


def _is_of(node: NodeDef, job: str) -> bool:
    return node.name.startswith(f"{job}/") and not is_added(node)


def _check_job(job: str, item: GraphItem) -> None:
    if not _JOB.fullmatch(job):
        raise GraphError(
            f"no node's name can begin with '{job}/': name the graph's file in letters, digits, '_', '-' and '.'"
        )
    for node in item.graph.node:
        if is_marked(node):
            raise GraphError(
                f"node '{node.name}' of '{job}' was rewritten: undo that, merge, and rewrite what comes out"
            )


def _check_collectives(jobs: Mapping[str, GraphItem]) -> None:
    found = {job: next(_collectives(item.graph), None) for job, item in jobs.items()}
    meeting = [f"'{node}' of '{job}'" for job, node in found.items() if node is not None]
    if len(meeting) > 1:
        raise GraphError(
            f"the collectives {meeting[0]} and {meeting[1]} would meet, as they go by number: run these jobs apart"
        )


def _collectives(graph: GraphDef) -> Iterator[str]:
    for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
        yield from (node.name for node in nodes if node.op.startswith(KEYED_OPS))


@dataclass(frozen=True)
class _Renamer:
    """Puts the job before each name of a graph, or takes it away."""

    job: str
    functions: Collection[str] = ()
    back: bool = False

    def renamed(self, graph: GraphDef) -> GraphDef:
        copy = GraphDef()
        copy.CopyFrom(graph)
        for node in copy.node:
            node.name = self._name(node.name)
            node.input[:] = [self._input(text) for text in node.input]
            self._rename_in(node)
            rename_groups(node, self._name)
        for function in copy.library.function:
            self._rename_function(function)
        for gradient in copy.library.gradient:
            gradient.function_name = self._function(gradient.function_name)
            gradient.gradient_func = self._function(gradient.gradient_func)
        for registered in copy.library.registered_gradients:
            registered.gradient_func = self._function(registered.gradient_func)
        return copy

    def _rename_function(self, function: FunctionDef) -> None:
        """The names in its body are its own."""
        function.signature.name = self._function(function.signature.name)
        for node in function.node_def:
            self._rename_in(node)
        for value in function.attr.values():
            self._rename_calls(value)
            if value.s.decode(errors="replace") in self.functions:
                value.s = self._bytes(value.s)

    def _rename_in(self, node: NodeDef) -> None:
        """What it calls, and what it finds by a name beside nodes."""
        node.op = self._function(node.op)
        for key, value in node.attr.items():
            self._rename_calls(value)
            if key in _FOUND_BY or (key == _RESOURCES and self._has_name(node, value)):
                value.s = self._bytes(value.s)
            elif key == _SEVERAL_RESOURCES:
                value.list.s[:] = [self._bytes(text) for text in value.list.s]

    def _has_name(self, node: NodeDef, value: AttrValue) -> bool:
        """Where it says none, most ops take the node's; a variable takes the empty one."""
        return bool(value.s or node.op == HANDLE_OP) and not is_anonymous(node)

    def _rename_calls(self, value: AttrValue) -> None:
        for called in (*([value.func] if value.HasField("func") else ()), *value.list.func):
            called.name = self._function(called.name)
            for inner in called.attr.values():
                self._rename_calls(inner)

    def _input(self, text: str) -> str:
        return f"^{self._name(text[1:])}" if text.startswith("^") else self._name(text)

    def _bytes(self, name: bytes) -> bytes:
        return self._name(name.decode(errors="surrogateescape")).encode(errors="surrogateescape")

    def _function(self, name: str) -> str:
        return self._name(name) if self.back or name in self.functions else name

    def _name(self, name: str) -> str:
        return name.removeprefix(f"{self.job}/") if self.back else f"{self.job}/{name}"
