"""Which devices pull: where a step's transfers go at first."""

from collections.abc import Sequence

from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView
from tfwave.order.deps import upstream_transfers

_VARIABLE_OPS = frozenset({"VarHandleOp", "VariableV2", "Variable"})


def pulling_devices(
    view: GraphView, transfers: Sequence[Transfer], upstream: Sequence[int] | None = None
) -> frozenset[str]:
    """The devices that something can reach at the very start of a step: workers.

    Where all that arrives has waited for other transfers, such as gradients at a server, a counter would only idle
    the link. Servers get small things from each other at once, such as a learning rate: devices that hold variables
    count only where all do.

    Args:
        view: the graph, all partitions joined.
        transfers: of its data.
        upstream: what `upstream_transfers` says of them, if it is known.
    """
    waits = upstream_transfers(view, transfers) if upstream is None else upstream
    early = frozenset(t.channel.destination for i, t in enumerate(transfers) if waits[t.recv] == 1 << i)
    holding = {node.device for node in view.nodes if node.op in _VARIABLE_OPS}
    return early - holding or early
