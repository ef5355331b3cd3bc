"""From a bundle straight to a plan."""

from tfwave.capture.bundle import Bundle
from tfwave.capture.costs import bundle_costs
from tfwave.plan.plan import Plan
from tfwave.planner import PlanRequest, make_plan


def plan_bundle(bundle: Bundle, policy: str = "tac", *, device: str | None = None, seed: int = 0) -> Plan:
    """Order the transfers of a captured job, with the costs that its traces tell.

    Args:
        bundle: what was captured.
        policy: "tic", "tac", "fifo", "random" or "reverse".
        device: plan only what arrives there; default: every device that pulls.
        seed: of "random".

    Raises:
        MissingCost: TensorFlow lost all events of a transfer; names it. Capture more steps.
        GraphError: nothing to order, or an unknown device.
    """
    request = PlanRequest(policy, seed, device)
    return make_plan(bundle.view, bundle.transfers.data, bundle_costs(bundle), request)
