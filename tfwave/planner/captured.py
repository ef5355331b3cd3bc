"""From what was captured straight to a plan, and to how steps should overlap."""

from dataclasses import replace

from tfwave.bundle.bundle import Bundle
from tfwave.bundle.costs import bundle_network
from tfwave.cost.network import Network
from tfwave.errors import GraphError
from tfwave.graph.names import home_of
from tfwave.plan.plan import Plan
from tfwave.planner.overlap import Overlap, StepLoad, choose_overlap, step_load
from tfwave.planner.plan import PlanRequest, make_plan
from tfwave.planner.workers import check_workers, pulling_devices


def plan_bundle(
    bundle: Bundle, policy: str = "tac", *, device: str | None = None, seed: int = 0, workers: int = 1
) -> Plan:
    """Order the transfers of a captured job, with the costs that its traces tell.

    Args:
        bundle: what was captured.
        policy: "tic", "tac", "fifo", "random" or "reverse".
        device: plan only what arrives there, or at any device of that task; default: every device that pulls.
        seed: of "random".
        workers: how many run what was captured, each by itself, as in asynchronous training: a bundle knows of one.

    Raises:
        MissingCost: TensorFlow lost all events of a transfer; names it. Capture more steps.
        GraphError: nothing to order, or an unknown device.
        PlanError: workers that are no whole number of at least 1.
    """
    request = PlanRequest(policy, seed, device, workers)
    return make_plan(bundle.view, bundle.transfers.data, bundle_network(bundle), request)


def advise_overlap(bundle: Bundle, workers: int = 1) -> Overlap:
    """How many steps a call should make, and in which blocks, for the job that was captured with one step a call.

    What the busiest worker needs decides, what the servers can serve, and what the cores of the capturing machine
    have to do. One step a call is what it says where steps that overlap would not be faster than the median one
    captured, or where nothing is pushed, as in inference. What the traces lost is estimated.

    Args:
        bundle: what was captured.
        workers: how many run what was captured, each by itself, as in asynchronous training: a bundle knows of one.

    Raises:
        MissingCost: no transfer is known.
        GraphError: nothing crosses tasks.
        PlanError: workers that are no whole number of at least 1.
    """
    check_workers(workers)
    network = bundle_network(bundle).estimated(bundle.transfers.data)
    return overlap_on(network, bundle, workers)


def overlap_on(network: Network, bundle: Bundle, workers: int) -> Overlap:
    """As `advise_overlap`, where the bundle's network is known, with estimates for what the traces lost."""
    busiest = busiest_load(network, bundle, workers)
    single = bundle.manifest.median_seconds
    if workers > 1:  # of whom the capture may have seen one
        single = max(single, busiest.seconds(1))
    found = choose_overlap(busiest)
    if not busiest.pushes or found.seconds >= single:
        return Overlap(1, 0, single, single)
    return replace(found, single_seconds=single)


def busiest_load(network: Network, bundle: Bundle, workers: int = 1) -> StepLoad:
    """Of the worker that needs longest for a step; arguments and errors as of `advise_overlap`."""
    view, transfers = bundle.view, bundle.transfers.data
    pulling = sorted({home_of(device) for device in pulling_devices(view, transfers)})
    if not pulling:
        raise GraphError("nothing crosses tasks in this job: there is nothing to overlap")
    loads = [step_load(view, home, transfers, network, workers) for home in pulling]
    return max(loads, key=lambda step: step.seconds(1))
