"""The time oracle: costs from measured runs."""

from collections.abc import Iterable, Mapping, Sequence

from tfwave.cost.model import CostSource, vetted
from tfwave.cost.table import Costs
from tfwave.graph.names import TransferKey
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView


def measured_costs(
    view: GraphView,
    transfers: Iterable[Transfer],
    op_samples: Mapping[tuple[str, str], Sequence[float]],
    transfer_samples: Mapping[TransferKey, Sequence[float]],
) -> Costs:
    """The minimum over the measured runs (TicTac section 5), in seconds.

    Args:
        view: the graph that ran.
        transfers: of it.
        op_samples: by (device, node) the seconds of each run in which the op was seen.
        transfer_samples: by key, those of a transfer.

    Raises:
        CostError: a sample that is negative, infinite or not a number; names the op.
    """
    ops = {op: _minimum(runs, op[1]) for op, runs in op_samples.items() if runs}
    arrived = {key: _minimum(runs, str(key)) for key, runs in transfer_samples.items() if runs}
    places = [(node.device, name) for node, name in zip(view.nodes, view.names, strict=True)]
    samples = [*op_samples.values(), *transfer_samples.values()]
    runs = max(map(len, samples), default=0)
    return Costs.of(
        view,
        {node: ops[place] for node, place in enumerate(places) if place in ops},
        {t.recv: arrived[t.key] for t in transfers if t.key in arrived},
        CostSource("measured", "measured", f"minimum of {runs} runs"),
    )


def _minimum(runs: Sequence[float], name: str) -> float:
    return min(vetted(seconds, name) for seconds in runs)
