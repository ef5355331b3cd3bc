"""A functional while loop as a frame of Enter, Merge, Switch, Exit and NextIteration nodes.

Each loop variable goes round: Enter, Merge, Switch, body, NextIteration and back to the Merge. LoopCond, fed by
cond from the Merges, steers the Switches; past the last turn the Switch hands the variable to an Exit, which is
what the readers of the loop read. A resource has an Enter only, constant in the loop: what reads it from the
loop reads the loop's input.
"""

from collections.abc import Mapping, Sequence

from tfwave.errors import GraphError
from tfwave.graph.functions.expansion import Expansion
from tfwave.graph.functions.nodes import Node, NodeGraph, Tensor, types_attr
from tfwave.proto.tensorflow_pb2 import DT_BOOL, DT_RESOURCE, AttrValue, NameAttrList

WHILE_OPS = frozenset({"While", "StatelessWhile"})

_DEFAULT_ITERATIONS = 10
_FALSE, _TRUE = 0, 1
"""The outputs of a Switch."""


def lower_while(graph: NodeGraph, loop: Node, *, fetchable: bool) -> None:
    """Replace a loop; the calls of its cond and body are left to be inlined.

    Raises:
        GraphError: a cond or body that the library lacks or that does not fit the loop's variables, a loop over
            resources only, less than one parallel iteration.
    """
    expansion = Expansion(graph, loop)
    cond, body = expansion.function("cond"), expansion.function("body")
    cond_name, body_name = expansion.new_name("cond"), expansion.new_name("body")
    variables = [i for i, kind in enumerate(graph.input_types(loop)) if kind != DT_RESOURCE]
    if not variables:
        raise GraphError(f"node '{loop.name}': the loop has no variable that is not a resource")

    enters = _add_enters(expansion, variables)
    merges = {i: _add_merge(expansion, enters[i]) for i in variables}
    visible = [Tensor(merges.get(i, enter), 0) for i, enter in enumerate(enters)]
    cond_call = expansion.add_call(cond_name, cond, visible, merges[variables[0]])
    _check_outputs(expansion, cond_call, [DT_BOOL])
    steering = expansion.add(expansion.new_name("LoopCond"), "LoopCond", [Tensor(cond_call, 0)])
    switches = {i: _add_switch(expansion, i, merges[i], steering) for i in variables}
    taken = [Tensor(switches[i], _TRUE) if i in switches else Tensor(n, 0) for i, n in enumerate(enters)]
    body_call = _add_body(expansion, body_name, body, taken, switches[variables[0]])
    _check_outputs(expansion, body_call, graph.input_types(loop))
    outputs, executed = _add_exits(expansion, switches, fetchable)
    _add_next_iterations(expansion, merges, body_call)
    graph.replace(loop, outputs, executed)


def _add_enters(expansion: Expansion, variables: Sequence[int]) -> list[Node]:
    loop = expansion.node
    attrs = {
        "frame_name": AttrValue(s=loop.name.encode()),
        "parallel_iterations": AttrValue(i=_parallel_iterations(loop)),
    }
    constant = attrs | {"is_constant": AttrValue(b=True)}
    enters = [
        expansion.add_beside(
            tensor.node,
            expansion.new_name("enter"),
            "Enter",
            [tensor],
            attrs if i in variables else constant,
        )
        for i, tensor in enumerate(loop.inputs)
    ]
    if loop.controls:
        before = expansion.add(expansion.new_name("LoopControlInputs"), "NoOp", (), loop.controls)
        for enter in enters:
            expansion.graph.add_control(before, enter)
    return enters


def _parallel_iterations(loop: Node) -> int:
    value = loop.definition.attr.get("parallel_iterations")
    count = _DEFAULT_ITERATIONS if value is None else value.i
    if count < 1:
        raise GraphError(f"node '{loop.name}': parallel_iterations must be at least 1, not {count}")
    return count


def _add_merge(expansion: Expansion, enter: Node) -> Node:
    """The second input is a place for the NextIteration."""
    inputs = [Tensor(enter, 0), Tensor(enter, 0)]
    name = expansion.new_name("merge")
    return expansion.add_beside(enter, name, "Merge", inputs, {"N": AttrValue(i=2)})


def _add_switch(expansion: Expansion, variable: int, merge: Node, steering: Node) -> Node:
    name = expansion.new_name(f"{expansion.node.inputs[variable].node.name}_switch")
    return expansion.add_beside(merge, name, "Switch", [Tensor(merge, 0), Tensor(steering, 0)])


def _add_body(
    expansion: Expansion, name: str, function: NameAttrList, inputs: Sequence[Tensor], switch: Node
) -> Node:
    """The body runs after an Identity of a loop variable, which is in the frame when nothing else is."""
    pivot_name = expansion.new_name("loop_body_control")
    pivot = expansion.add_typed(pivot_name, "Identity", [Tensor(switch, _TRUE)])
    return expansion.add_call(name, function, inputs, pivot)


def _add_exits(
    expansion: Expansion, switches: Mapping[int, Node], fetchable: bool
) -> tuple[list[Tensor], Node]:
    """The outputs of the loop, and the node that comes after all of them."""
    loop = expansion.node
    exits = {i: _add_exit(expansion, switch) for i, switch in switches.items()}
    outputs = [Tensor(exits[i], 0) if i in exits else tensor for i, tensor in enumerate(loop.inputs)]
    executed = expansion.add(expansion.new_name("LoopExecuted"), "NoOp", (), exits.values())
    if fetchable:
        types = types_attr(expansion.graph.type_of(tensor) for tensor in outputs)
        expansion.add(loop.name, "IdentityN", outputs, attrs={"T": types})
    else:
        expansion.add(loop.name, "NoOp", (), [executed])
    return outputs, executed


def _add_exit(expansion: Expansion, switch: Node) -> Node:
    return expansion.add_beside(switch, expansion.new_name("exit"), "Exit", [Tensor(switch, _FALSE)])


def _check_outputs(expansion: Expansion, call: Node, expected: Sequence[int]) -> None:
    given = expansion.graph.output_types(call)
    if given != expected:
        raise GraphError(
            f"node '{expansion.node.name}': the function '{call.op}' returns types {given} instead of {expected}"
        )


def _add_next_iterations(expansion: Expansion, merges: Mapping[int, Node], body: Node) -> None:
    for i, merge in merges.items():
        name = expansion.new_name("next_iteration")
        following = expansion.add_beside(merge, name, "NextIteration", [Tensor(body, i)])
        expansion.graph.add_control(body, following)
        expansion.graph.set_input(merge, 1, Tensor(following, 0))
