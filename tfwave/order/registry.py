"""Policies by name."""

from tfwave.errors import TfwaveError
from tfwave.order.baselines import fifo, random_order, reverse
from tfwave.order.exact import exact
from tfwave.order.order import Policy
from tfwave.order.own import own_policy
from tfwave.order.search import search
from tfwave.order.tac import tac
from tfwave.order.tic import tic

_POLICIES: dict[str, Policy] = {"tic": tic, "tac": tac, "fifo": fifo, "reverse": reverse, "exact": exact}

POLICY_NAMES = ("tic", "tac", "fifo", "random", "reverse", "exact", "search")


def find_policy(name: str, *, seed: int = 0) -> Policy:
    """The policy of that name, or ``module:function`` for one of your own; `seed` is for "random" and "search".

    Raises:
        TfwaveError: no such policy; names those that exist. One of your own that does not order what it is given
            raises it when it is called.
    """
    if ":" in name:
        return own_policy(name)
    if name == "random":
        return random_order(seed)
    if name == "search":
        return search(seed)
    policy = _POLICIES.get(name)
    if policy is None:
        raise TfwaveError(
            f"there is no policy '{name}': choose one of {', '.join(POLICY_NAMES)}, or name your own as "
            "module:function"
        )
    return policy
