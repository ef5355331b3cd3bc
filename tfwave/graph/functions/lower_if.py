"""Functional branches (If, Case) as Switch and Merge nodes around a call per branch.

1. The selector goes through a switch of its own; an Identity per branch, its pivot, runs if the branch is taken.
2. Each input goes through a switch, colocated with its source.
3. The call of a branch waits for the pivot of the branch.
4. A Merge per output; what read the outputs reads these.
5. A Merge of the pivots waits for the calls; what waited for the node waits for it.
6. A node with the name of the replaced one, so that it can still be fetched or run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfwave.errors import GraphError
from tfwave.graph.attrs import CLASS_ATTR, CLASS_PREFIX
from tfwave.graph.functions.expansion import Expansion
from tfwave.graph.functions.nodes import Node, NodeGraph, Tensor, strings_attr, types_attr
from tfwave.proto.tensorflow_pb2 import AttrValue, NameAttrList

IF_OPS = frozenset({"If", "StatelessIf"})
CASE_OPS = frozenset({"Case", "StatelessCase"})


@dataclass(frozen=True)
class _Branch:
    function: NameAttrList
    call: str
    """The name of its call."""
    pivot: str
    """The role of its pivot."""
    port: int
    """Its output of each switch."""


@dataclass(frozen=True)
class _Style:
    """All that tells an If from a Case."""

    switch: str
    selector: str
    """The role of the selector's switch."""
    output: str
    """The role of an output's Merge."""
    colocated_with: str
    """What comes before the source in a switch's colocation attribute: TensorFlow forgets it for Case."""
    switch_attrs: Mapping[str, AttrValue]
    attrs: Mapping[str, AttrValue]
    """Attributes that pivots, merges and the selector's switch take over from the replaced node."""


def lower_if(graph: NodeGraph, node: Node, *, fetchable: bool) -> None:
    """Replace an If; the calls of its branches are left to be inlined.

    Raises:
        GraphError: a branch that the library lacks, or branches that differ in their outputs.
    """
    expansion = Expansion(graph, node)
    then_branch, else_branch = expansion.function("then_branch"), expansion.function("else_branch")
    branches = [
        _Branch(then_branch, expansion.new_name("then"), "pivot_t", 1),
        _Branch(else_branch, expansion.new_name("else"), "pivot_f", 0),
    ]
    kept = {name: value for name, value in node.definition.attr.items() if name == CLASS_ATTR}
    _lower(expansion, branches, _Style("Switch", "switch_pred", "output", CLASS_PREFIX, {}, kept), fetchable)


def lower_case(graph: NodeGraph, node: Node, *, fetchable: bool) -> None:
    """Replace a Case; the calls of its branches are left to be inlined.

    Raises:
        GraphError: no branch, one that the library lacks, or branches that differ in their outputs.
    """
    expansion = Expansion(graph, node)
    attr = node.definition.attr.get("branches")
    if attr is None or not attr.list.func:
        raise GraphError(f"node '{node.name}': {node.op} has no branches")
    functions = [NameAttrList(name=expansion.known(function).name) for function in attr.list.func]
    branches = [
        _Branch(function, expansion.new_name(f"branch{i}"), f"pivot_{i}", i)
        for i, function in enumerate(functions)
    ]
    count = {"num_outs": AttrValue(i=len(branches))}
    _lower(expansion, branches, _Style("_SwitchN", "branch_index", "merge", "", count, {}), fetchable)


def _lower(expansion: Expansion, branches: Sequence[_Branch], style: _Style, fetchable: bool) -> None:
    if not expansion.node.inputs:
        raise GraphError(
            f"node '{expansion.node.name}': {expansion.node.op} has no input that selects a branch"
        )
    pivots = _add_pivots(expansion, branches, style)
    switches = [_add_switch(expansion, tensor, style) for tensor in expansion.node.inputs[1:]]
    calls = [
        expansion.add_call(b.call, b.function, [Tensor(n, b.port) for n in switches], pivots[b.port])
        for b in branches
    ]
    outputs = _add_merges(expansion, calls, style)
    taken = [Tensor(pivots[branch.port], 0) for branch in branches]
    executed = _add_merge(expansion, "branch_executed", taken, style)
    for call in calls:
        expansion.graph.add_control(call, executed)
    _add_substitute(expansion, outputs if fetchable else (), executed)
    expansion.graph.replace(expansion.node, outputs, executed)


def _add_pivots(expansion: Expansion, branches: Sequence[_Branch], style: _Style) -> list[Node]:
    """Case 1: the pivots by port; what the node waited for, the selector's switch waits for."""
    selector = expansion.node.inputs[0]
    name = expansion.new_name(style.selector)
    switch = expansion.add_typed(
        name, style.switch, [selector, selector], attrs={**style.switch_attrs, **style.attrs}
    )
    for control in expansion.node.controls:
        expansion.graph.add_control(control, switch)
    return [
        expansion.add_typed(
            expansion.new_name(branch.pivot), "Identity", [Tensor(switch, branch.port)], attrs=style.attrs
        )
        for branch in sorted(branches, key=lambda branch: branch.port)
    ]


def _add_switch(expansion: Expansion, tensor: Tensor, style: _Style) -> Node:
    """Case 2."""
    source = tensor.node
    attrs = {CLASS_ATTR: strings_attr(style.colocated_with + source.name), **style.switch_attrs}
    inputs = [tensor, expansion.node.inputs[0]]
    name = expansion.new_name(source.name)
    switch = expansion.add_typed(name, style.switch, inputs, attrs)
    switch.definition.device = source.requested_device
    return switch


def _add_merges(expansion: Expansion, calls: Sequence[Node], style: _Style) -> list[Tensor]:
    """Case 4."""
    types = [expansion.graph.output_types(call) for call in calls]
    if types.count(types[0]) < len(types):
        raise GraphError(f"node '{expansion.node.name}': its branches differ in the types of their outputs")
    return [
        Tensor(_add_merge(expansion, style.output, [Tensor(call, i) for call in calls], style), 0)
        for i in range(len(types[0]))
    ]


def _add_merge(expansion: Expansion, role: str, inputs: Sequence[Tensor], style: _Style) -> Node:
    attrs = {"N": AttrValue(i=len(inputs)), **style.attrs}
    return expansion.add_typed(expansion.new_name(role), "Merge", inputs, attrs=attrs)


def _add_substitute(expansion: Expansion, outputs: Sequence[Tensor], executed: Node) -> None:
    """Case 6."""
    name = expansion.node.name
    if not outputs:
        expansion.add(name, "NoOp", (), [executed])
        return
    types = types_attr(expansion.graph.type_of(tensor) for tensor in outputs)
    expansion.add(name, "IdentityN", outputs, [executed], attrs={"T": types})
