"""Several steps in one traced function."""

import inspect
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any

from tfwave.errors import GraphError
from tfwave.graph.item import GraphItem
from tfwave.graph.load import parse_graph
from tfwave.graph.ops import OpTable
from tfwave.graph.view import GraphView
from tfwave.rewrite.resources import ResourceSurvey
from tfwave.rewrite.steps.draws import has_fixed_seeds
from tfwave.runtime.live.untied import untie_when_traced
from tfwave.runtime.remade import python_function, remade


def unrolled(step: Callable[..., Any], count: int, on_trace: Callable[[Any], None]) -> Any:
    """A `tf.function` that calls a step so often, each time with its own arguments.

    It returns what the step returns, each leaf as a tensor of its time, stacked along a new first axis of length
    `count`; None stays None. Ragged and sparse tensors are stacked as such, and only they may differ in shape.
    The calls are unrolled, not looped, and a step that is a `tf.function` itself is called as the Python function
    that it is made of: the end of a loop's iteration, or of a nested function's call, waits for everything in it,
    while TensorFlow's automatic control dependencies let unrolled steps wait for each other variable by variable.
    Gradients that a strategy ties together are untied (`untie`).

    A random op that is given a seed would draw the same numbers in all steps of a call, and is refused. One that
    gets its seed from `tf.random.set_seed` draws other numbers in each of them, and others than in single steps.

    `on_trace` gets each `tf.Graph` that it is traced into.

    Raises:
        GraphError: when it is traced: random ops that draw the same numbers; names one.
    """
    tensorflow: Any = import_module("tensorflow")
    python = python_function(step)

    told, untied = map(tensorflow.autograph.experimental.do_not_convert, (on_trace, untie_when_traced))
    checked = tensorflow.autograph.experimental.do_not_convert(check_draws)

    def valued(leaf: Any) -> Any:
        is_kept = leaf is None or isinstance(leaf, (tensorflow.RaggedTensor, tensorflow.SparseTensor))
        return leaf if is_kept else tensorflow.convert_to_tensor(leaf)

    def stacked(*leaves: Any) -> Any:
        if isinstance(leaves[0], tensorflow.SparseTensor):
            rows = [tensorflow.sparse.expand_dims(leaf, 0) for leaf in leaves]
            return tensorflow.sparse.concat(0, rows, expand_nonconcat_dims=True)
        return None if leaves[0] is None else tensorflow.stack(leaves)

    def steps(*args: Any, **kwargs: Any) -> Any:
        told(tensorflow.compat.v1.get_default_graph())
        untied(tensorflow.compat.v1.get_default_graph())
        results: list[Any] = []
        for number in range(count):
            with names_of(number):
                results.append(tensorflow.nest.map_structure(valued, python(*args, **kwargs)))
        if count > 1:
            checked(tensorflow.compat.v1.get_default_graph())
        return tensorflow.nest.map_structure(stacked, *results)

    steps.__name__ = f"{getattr(python, '__name__', 'step')}_{count}"
    if python is not step:
        # An input signature goes by the names of the parameters.
        steps.__signature__ = inspect.signature(python)
    return remade(step, steps)


def names_of(step: int) -> AbstractContextManager[Any]:
    """Inside the block ops have the names that the same ops of the first step have, behind the step's number.

    TensorFlow's optimizer sorts the terms of a sum by their names. If these were numbered through all steps, the
    ``MatMul_1`` and ``MatMul_2`` of the first would be ``MatMul_9`` and ``MatMul_10`` in a later one: another
    order, and another rounding.
    """
    return import_module("tensorflow").name_scope(f"step_{step}") if step else nullcontext()


def check_draws(graph: Any) -> None:
    """Refuse several steps in a `tf.Graph` that would draw the same random numbers.

    Steps that run eagerly (`tf.config.run_functions_eagerly`) are in no graph, and each of them draws anew.

    Raises:
        GraphError: names an op that is given a seed.
    """
    if not graph.building_function:
        return
    item = GraphItem(parse_graph(graph.as_graph_def().SerializeToString(), graph.name))
    table, view = OpTable.of(item.graph), GraphView.of(item.graph)
    survey = ResourceSurvey(item, view)
    ran = [node for caller in view.nodes for node in (caller, *survey.leaves(caller))]
    drawing = [node for node in ran if table.known(node.op) and has_fixed_seeds(node, table)]
    seeds = [(node.op, node.attr["seed"].i, node.attr["seed2"].i) for node in drawing]
    often = Counter(seeds)
    for node, key in zip(drawing, seeds, strict=True):
        if often[key] > 1:
            raise GraphError(
                f"node '{node.name}' ({node.op}) is given a seed, and would draw the same numbers in all steps "
                "of a call: use tf.random.Generator or tf.random.stateless_*, or give it no seed"
            )
