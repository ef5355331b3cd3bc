"""A plan that makes a step fit, and the graph that it is to be applied to."""

import re
from collections import Counter
from collections.abc import Iterator

from tfwave.errors import PlanError
from tfwave.graph.access import FED_OPS
from tfwave.graph.names import parse_input
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.view import GraphView
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.memory import Memory
from tfwave.plan.plan import Plan
from tfwave.rewrite.fitted.turns import Turns

_ADDED = re.compile(r"_(arg|retval|send|recv)_.*|.*_RetVal")
"""The nodes that TensorFlow adds where a step is fed, fetched or cut: not in the graph of the program."""
_REWRITTEN = ("_Mkl", "_MklNative")
"""How the names of ops begin that TensorFlow's oneDNN pass puts in the place of others, behind all passes."""


def memory_of(plan: Plan) -> Memory:
    """The section.

    Raises:
        PlanError: the plan has none.
    """
    if plan.memory is None:
        raise PlanError(
            "the plan does not say how a step fits into a memory: make one with "
            "`tfwave fit BUNDLE --memory SIZE -o FILE`"
        )
    return plan.memory


def turns_of(memory: Memory, graph: GraphRewriter) -> Turns:
    """The turns of a graph's nodes, as the plan has them."""
    return Turns(graph, memory.order, memory.chained, memory.beside)


def check_step(memory: Memory, view: GraphView) -> None:
    """Refuse a graph that does not hold the planned step.

    1. It is the graph that ran, as a bundle holds it.
    2. Or TensorFlow made that of it: it added arguments and the like, and left out nothing that the plan needs.

    Raises:
        PlanError: it lacks a node that the plan needs, or has more of an op in the step; names it.
    """
    if graph_print(view).fingerprint == memory.graph.fingerprint:
        return
    there = dict(zip(view.names, view.ops, strict=True))
    needed = (name for name in _needed(memory) if not _ADDED.fullmatch(name))
    missing = next((name for name in needed if name not in there), None)
    if missing is not None:
        raise PlanError(
            f"the plan was made for another graph: this one has no node '{missing}'; make a plan for this one. One "
            "that was captured while TensorFlow's optimizer ran is applied there: tfwave.in_grappler"
        )
    planned = Counter(dict(memory.graph.op_counts))
    given = Counter(there[name] for name in memory.order if name in there)
    for op in sorted(given.keys() - FED_OPS):
        known = planned[op] + sum(planned[f"{prefix}{op}"] for prefix in _REWRITTEN)
        if given[op] > known:
            raise PlanError(
                f"the plan was made for another graph: the planned step has {known} {op} nodes, this one "
                f"{given[op]}; make a plan for this one"
            )


def _needed(memory: Memory) -> Iterator[str]:
    for tensor in memory.tensors:
        yield from (parse_input(name).node for name in tensor.names)
        yield from (tensor.after, tensor.gone, tensor.back, tensor.wanted, *tensor.again)
    yield from memory.chained
