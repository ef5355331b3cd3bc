"""What outlives a step, and which nodes touch it: variables, tables, queues, iterators, and the process itself.

A resource is known by its name, not by its handle: two handles of one variable are one resource.

1. A handle that keeps its name from step to step (VarHandleOp, HashTableV2, ...) stands for a resource.
2. A handle that is made anew in each step (TensorArrayV3, StackV2, Anonymous...) stands for nothing that stays.
3. A stateful op without any handle (PyFunc, Print, ...) touches the process, `PROCESS`, all others alike.
4. A call touches what it is given, and what its functions touch by themselves.
5. What takes a variant (a dataset, a lock, a list) touches what that was made with: the functions of a dataset read
   variables when it is run, not when it is made. So does what touches an iterator that was made of a dataset.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tfwave.errors import GraphError
from tfwave.graph.access import (
    FILE_READING_OPS,
    PROCESS,
    READING_OPS,
    STATELESS_OPS,
    Resource,
    gives_handle,
    is_fresh,
    is_random,
    is_source,
    makes_handle,
    resource_of,
    shares_by_name,
    takes_handle,
)
from tfwave.graph.flow_ops import ENTER_OPS, EXIT_OPS, MERGE_OPS, NEXT_OPS, SWITCH_OPS
from tfwave.graph.functions.lower_while import WHILE_OPS
from tfwave.graph.item import GraphItem
from tfwave.graph.marks import TICKET_OPS
from tfwave.graph.names import TensorName, parse_input
from tfwave.graph.ops import OpTable
from tfwave.graph.signatures import is_custom
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import DT_RESOURCE, DT_VARIANT, NodeDef

_ITERATORS: Resource = ("Iterator", "", "")
"""All iterators as one, in a graph that finds some by a string: it could be any."""
_FOUND = "FromStringHandle"
_ONE_PASSING_OPS = frozenset({"Identity", *ENTER_OPS, *EXIT_OPS, *NEXT_OPS, *SWITCH_OPS})
_PASSING_OPS = frozenset({*_ONE_PASSING_OPS, "IdentityN", *MERGE_OPS})
_HANDING_OPS = _PASSING_OPS | WHILE_OPS
"""Ops that give the handles that they take: a loop goes round with the same ones."""

_Accesses = frozenset[tuple[Resource, bool]]
"""Resources, and whether they are changed."""
_NONE: _Accesses = frozenset()


@dataclass(frozen=True)
class Touch:
    """A node that reads a resource or, as far as is known, changes it."""

    resource: Resource
    node: int
    writes: bool


class ResourceSurvey:
    """Finds the resources that the nodes of one graph touch."""

    def __init__(self, item: GraphItem, view: GraphView) -> None:
        """Survey a graph, whose custom ops are taken to change all that they are given, and the process."""
        self._view = view
        self._index = {name: i for i, name in enumerate(view.names)}
        self._table = OpTable.of(item.graph)
        self._functions = {f.signature.name: f for f in item.graph.library.function}
        ops = {*view.ops, *(node.op for f in self._functions.values() for node in f.node_def)}
        self._custom = {op for op in ops if is_custom(op, item)}
        self._joins_iterators = any(_FOUND in op for op in ops)

    def touches(self, nodes: Iterable[int]) -> list[Touch]:
        """What these nodes touch; each node and resource once.

        Raises:
            GraphError: a handle that cannot be traced to what made it; names the node.
        """
        return [touch for node in nodes for touch in self._node_touches(node)]

    def leaves(self, node: NodeDef) -> list[NodeDef]:
        """The nodes of all functions that a node calls, and of those that they call."""
        names = deque(self._called(node))
        found: dict[str, Sequence[NodeDef]] = {}
        while names:
            name = names.popleft()
            if name not in found:
                found[name] = self._functions[name].node_def
                names += [called for leaf in found[name] for called in self._called(leaf)]
        return [leaf for leaves in found.values() for leaf in leaves]

    def _called(self, node: NodeDef) -> list[str]:
        if not self._functions:
            return []
        values = [node.attr[name] for name in sorted(node.attr)]
        called = [func.name for value in values for func in (value.func, *value.list.func)]
        return list(dict.fromkeys(name for name in (node.op, *called) if name in self._functions))

    def _node_touches(self, node: int) -> Iterator[Touch]:
        if self._view.ops[node] in _PASSING_OPS or self._is_handle(self._view.nodes[node]):
            return
        found = self._with_contents(self._own(node) | self._behind.get(node, _NONE))
        changed = {resource for resource, writes in found if writes or self._view.ops[node] in self._custom}
        for resource in sorted({resource for resource, _ in found}):
            yield Touch(resource, node, resource in changed)

    def _own(self, node: int) -> _Accesses:
        """What a node touches by the handles that it takes, and by itself. Cases 1 to 4 of the module."""
        definition = self._view.nodes[node]
        called = self.leaves(definition)
        writes = not all(map(self._leaves_as_it_is, (definition, *called)))
        inside = [self._name(leaf) for leaf in called if self._is_handle(leaf) or _FOUND in leaf.op]
        outside = [access for one in (definition, *called) for access in self._outside(one)]
        return frozenset([*((resource, writes) for resource in (*self._given(node), *inside)), *outside])

    def _leaves_as_it_is(self, node: NodeDef) -> bool:
        """Does it, calls aside, change none of the resources that it takes?"""
        if node.op in self._custom:
            return False
        signature = self._table.signature(node)
        if not signature.is_stateful or node.op in READING_OPS:
            return True
        if takes_handle(signature):
            return False
        return self._table.calls_functions(node) or DT_RESOURCE not in self._table.input_types(node)

    def _outside(self, node: NodeDef) -> _Accesses:
        """What it touches of the process, calls aside. Case 3 of the module."""
        changes, reads = frozenset({(PROCESS, True)}), frozenset({(PROCESS, False)})
        if node.op in self._custom:
            return changes
        signature = self._table.signature(node)
        if shares_by_name(signature):
            return _NONE if gives_handle(signature) else changes
        if node.op in FILE_READING_OPS:
            return reads
        leaves_nothing = not signature.is_stateful or node.op in STATELESS_OPS | TICKET_OPS
        if leaves_nothing or self._table.calls_functions(node):
            return _NONE
        if takes_handle(signature) or is_fresh(node) or _FOUND in node.op or is_random(signature):
            return _NONE
        return reads if is_source(signature) else changes

    @cached_property
    def _behind(self) -> Mapping[int, _Accesses]:
        """By node: what is touched by those that a variant which it takes comes from. Case 5 of the module."""
        sources = {node: found for node in range(len(self._view)) if (found := self._variants(node))}
        given = {source: self._made_with(source) for found in sources.values() for source in found}
        behind = dict.fromkeys((n for n in self._view.topological_order if n in sources), _NONE)
        changed = True
        while changed:
            changed = False
            for node, before in behind.items():
                behind[node] = before.union(*(given[s] | behind.get(s, _NONE) for s in sources[node]))
                changed |= behind[node] != before
        return behind

    def _made_with(self, node: int) -> _Accesses:
        """What a variant can touch that a node gives; of a call all that it touches, if a dataset is made there."""
        definition = self._view.nodes[node]
        called = self.leaves(definition)
        is_eager = called and not any("Dataset" in one.op for one in (definition, *called))
        return _NONE if is_eager or definition.op in _PASSING_OPS else self._own(node)

    def _variants(self, node: int) -> list[int]:
        """The nodes whose variants a node takes."""
        return [self._index[tensor.node] for tensor, kind in self._inputs(node) if kind == DT_VARIANT]

    @cached_property
    def _contents(self) -> Mapping[Resource, _Accesses]:
        """By resource: what its use touches beside it, as it was made of a dataset."""
        found: dict[Resource, _Accesses] = defaultdict(frozenset)
        for node, behind in self._behind.items():
            for resource in self._given(node) if behind else ():
                found[resource] |= behind
        for node, definition in enumerate(self._view.nodes):
            if self._called(definition) and self._is_handle(definition):
                found[self._name(definition)] |= self._own(node)
        return found

    def _with_contents(self, accesses: _Accesses) -> _Accesses:
        resources = [resource for resource, _ in accesses]
        for resource in resources:
            more = self._contents.get(resource, _NONE)
            resources += [other for other, _ in more if other not in resources]
            accesses |= more
        return accesses

    def _is_handle(self, node: NodeDef) -> bool:
        return node.op not in self._custom and makes_handle(node, self._table)

    def _name(self, node: NodeDef) -> Resource:
        return _ITERATORS if self._joins_iterators and "Iterator" in node.op else resource_of(node)

    def _inputs(self, node: int) -> list[tuple[TensorName, int]]:
        """The tensors that a node takes, and their types (`DataType`); 0 for what a custom op gives."""
        definition = self._view.nodes[node]
        inputs = [parse_input(text) for text in definition.input[: self._view.data_fanins[node]]]
        known = definition.op not in self._custom
        kinds = self._table.input_types(definition) if known else [self._kind(i) for i in inputs]
        return list(zip(inputs, kinds, strict=True))

    def _given(self, node: int) -> Iterator[Resource]:
        """The resources whose handles a node takes."""
        for tensor, kind in self._inputs(node):
            if kind == DT_RESOURCE:
                yield from self._origins(tensor, self._view.nodes[node])

    def _kind(self, tensor: TensorName) -> int:
        source = self._view.nodes[self._index[tensor.node]]
        return 0 if source.op in self._custom else self._table.output_types(source)[tensor.port]

    def _origins(self, tensor: TensorName, reader: NodeDef) -> Iterator[Resource]:
        """Follow a handle back through the nodes that pass it on."""
        tensors, seen = deque([tensor]), {tensor}
        while tensors:
            found = tensors.popleft()
            source = self._view.nodes[self._index[found.node]]
            if source.op in _HANDING_OPS:
                passed = dict.fromkeys(t for t in self._passed(source, found.port) if t not in seen)
                tensors += passed
                seen |= passed.keys()
            elif self._is_handle(source) or _FOUND in source.op:
                yield self._name(source)
            elif not is_fresh(source):
                raise GraphError(
                    f"node '{reader.name}' takes a handle from '{source.name}' ({source.op}), which does not say "
                    "whose it is: pass the handle itself"
                )

    def _passed(self, node: NodeDef, port: int) -> Sequence[TensorName]:
        inputs = [parse_input(text) for text in node.input if not text.startswith("^")]
        if node.op in MERGE_OPS:
            return inputs
        return [inputs[0 if node.op in _ONE_PASSING_OPS else port]]
