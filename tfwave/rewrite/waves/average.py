"""Averaging gradients across waves: over a call, or with the wave before (Wavelet section 3.2.3)."""

from collections.abc import Iterable

from tfwave.graph.rewriter import GraphRewriter
from tfwave.rewrite.waves.average_nodes import AverageNodes, RowsNodes, going_on
from tfwave.rewrite.waves.names import SCOPE
from tfwave.rewrite.waves.training import Gradient

BEGIN = f"{SCOPE}/begin"
"""The node after which the next wave is the first of a new sequence."""


def average_call(graph: GraphRewriter, gradient: Gradient, waves: int) -> list[str]:
    """Average a gradient over the waves of a call; gives what each wave takes in its place: one tensor for all.

    Rows of all waves come one after another, divided by the number of waves, and so do their numbers, undivided.
    """
    nodes = _nodes(graph, gradient)
    return [nodes.divide("mean", nodes.sum_all("sum", nodes.given(waves)), waves)] * waves


def average_sequence(graph: GraphRewriter, gradient: Gradient, waves: int) -> list[str]:
    """Average a gradient of each wave with that of the wave before (Eq. 1); gives what each wave takes.

    Before the first wave of a call comes the last of the call before, whose gradient is kept in a variable; before
    the very first comes none, and that one takes its own twice, or its own rows once.
    """
    nodes = _nodes(graph, gradient)
    given = nodes.given(waves)
    read = nodes.kept.read()
    before = nodes.before(read, given[0])
    waits = [nodes.kept.write("keep", given[-1], f"^{read}"), f"^{going_on(graph).name}/keep"]
    averages: list[str] = []
    for wave, pair in enumerate(zip(given, [before, *given], strict=False)):
        total = nodes.sum_pair(f"{wave}/sum", [*pair, *(waits if wave == waves - 1 else [])])
        divide = nodes.divide if wave else nodes.divide_first
        averages.append(divide(f"{wave}/mean", total, 2))
    return averages


def add_kept(graph: GraphRewriter, gradients: Iterable[Gradient], *, fed: bool) -> tuple[str, ...]:
    """Add what `average_sequence` keeps from call to call, and the node `BEGIN`; gives the names of the handles.

    With `fed` the handles are to be fed, as those of variables are in the graph of a traced function, and what is
    behind them is to begin as False and 0: there is no `BEGIN` then.
    """
    flag = going_on(graph)
    kept = [flag, *(_nodes(graph, gradient).kept for gradient in gradients)]
    for one in kept:
        one.make(fed=fed)
    flag.write("keep", flag.constant("keep/yes", 1), f"^{flag.read()}")
    if not fed:
        graph.add_node(BEGIN, "NoOp", [one.write("begin", one.constant("begin/nothing", 0)) for one in kept])
    return tuple([one.name for one in kept])


def _nodes(graph: GraphRewriter, gradient: Gradient) -> AverageNodes:
    return RowsNodes(graph, gradient) if gradient.is_rows else AverageNodes(graph, gradient)
