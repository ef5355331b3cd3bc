"""Policies by name."""

from tfwave.errors import TfwaveError
from tfwave.order.baselines import fifo, random_order, reverse
from tfwave.order.order import Policy
from tfwave.order.tac import tac
from tfwave.order.tic import tic

_POLICIES: dict[str, Policy] = {"tic": tic, "tac": tac, "fifo": fifo, "reverse": reverse}

POLICY_NAMES = ("tic", "tac", "fifo", "random", "reverse")


def find_policy(name: str, *, seed: int = 0) -> Policy:
    """The policy of that name; `seed` is for "random" alone.

    Raises:
        TfwaveError: no such policy; names those that exist.
    """
    if name == "random":
        return random_order(seed)
    policy = _POLICIES.get(name)
    if policy is None:
        raise TfwaveError(f"there is no policy '{name}': choose one of {', '.join(POLICY_NAMES)}")
    return policy
