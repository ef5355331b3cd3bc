"""From a captured training step to how its steps should overlap."""

from tfwave.capture.bundle import Bundle
from tfwave.capture.costs import bundle_costs
from tfwave.cost.estimate import EstimateMissing
from tfwave.cost.model import CostModel
from tfwave.errors import GraphError
from tfwave.planner.overlap import Overlap, StepLoad, choose_overlap, step_load
from tfwave.planner.workers import pulling_devices


def advise_overlap(bundle: Bundle) -> Overlap:
    """How many steps a call should make, and in which blocks, for the job that was captured with one step a call.

    What the busiest worker needs decides. A step that pushes nothing, as inference does, has nothing to overlap:
    one step a call. What the traces lost is estimated.

    Raises:
        MissingCost: no transfer is known.
        GraphError: nothing crosses tasks.
    """
    costs = EstimateMissing(bundle_costs(bundle), bundle.view, bundle.transfers.data)
    pulling = sorted(pulling_devices(bundle.view, bundle.transfers.data))
    if not pulling:
        raise GraphError("nothing crosses tasks in this job: there is nothing to overlap")
    busiest = max((_load(bundle, device, costs) for device in pulling), key=lambda step: step.seconds(1))
    return choose_overlap(busiest) if busiest.pushes else Overlap(1, 0, busiest.seconds(1))


def _load(bundle: Bundle, device: str, costs: CostModel) -> StepLoad:
    transfers = bundle.transfers.data
    pulls = [t for t in transfers if t.channel.destination == device]
    pushes = [t for t in transfers if t.channel.source == device]
    return step_load(bundle.view, device, pulls, pushes, costs)
