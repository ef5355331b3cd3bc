"""From a captured training step to how its steps should overlap."""

from collections.abc import Iterable

from tfwave.capture.bundle import Bundle
from tfwave.capture.costs import bundle_costs, channel_links
from tfwave.cost.analytic import LinkModel
from tfwave.cost.model import CostModel
from tfwave.errors import GraphError
from tfwave.graph.transfer import device_ops
from tfwave.order.deps import upstream_transfers
from tfwave.planner.overlap import Overlap, StepFigures, choose_overlap


def advise_overlap(bundle: Bundle) -> Overlap:
    """How many steps a call should make, and in which blocks, for the job that was captured with one step a call.

    What the busiest worker needs decides. A step that pushes nothing, as inference does, has nothing to overlap:
    one step a call.

    Raises:
        MissingCost: a cost is not known; names it.
        GraphError: nothing crosses tasks.
    """
    costs = bundle_costs(bundle)
    pulling = _pulling(bundle)
    if not pulling:
        raise GraphError("nothing crosses tasks in this job: there is nothing to overlap")
    figures = [_figures(bundle, device, costs) for device in pulling]
    busiest = max(figures, key=lambda step: step.seconds(1))
    return choose_overlap(busiest) if busiest.pushes else Overlap(1, 0, busiest.seconds(1))


def _pulling(bundle: Bundle) -> list[str]:
    """The devices that something can reach at the very start of a step: workers, not servers."""
    transfers = bundle.transfers.data
    upstream = upstream_transfers(bundle.view, transfers)
    return sorted({t.channel.destination for i, t in enumerate(transfers) if upstream[t.recv] == 1 << i})


def _figures(bundle: Bundle, device: str, costs: CostModel) -> StepFigures:
    transfers = bundle.transfers.data
    pulls = [t for t in transfers if t.channel.destination == device]
    pushes = [t for t in transfers if t.channel.source == device]
    own = {t.channel for t in (*pulls, *pushes)}
    link = _slowest(model for channel, model in channel_links(bundle.records).items() if channel in own)
    view = bundle.view
    return StepFigures(
        compute_seconds=sum(costs.op_seconds(view, node) for node in device_ops(view, device)),
        pulls=[t.bytes for t in pulls],
        pushes=[t.bytes for t in pushes],
        transfer_seconds=link.latency_seconds,
        bytes_per_second=link.bytes_per_second,
        nodes=len(view),
    )


def _slowest(links: Iterable[LinkModel]) -> LinkModel:
    return min(links, key=lambda link: link.bytes_per_second)
