"""Policies of the user's own, named as ``module:function``."""

import importlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tfwave.cost.table import Costs
from tfwave.errors import TfwaveError
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView
from tfwave.order.deps import upstream_transfers
from tfwave.order.order import Order, Policy, Ranked


def own_policy(name: str) -> Policy:
    """The function of that name, whose orders are checked.

    Raises:
        TfwaveError: there is none. When it is called: it did not order each transfer once, or put one before
            another that it waits for.
    """
    module, _, function = name.partition(":")
    try:
        own: Callable[..., Iterable[Ranked]] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise TfwaveError(f"there is no policy '{name}': {error}") from error

    def policy(view: GraphView, transfers: Sequence[Transfer], costs: Costs) -> Order:
        order = tuple(own(view, transfers, costs))
        fault = _fault(view, transfers, [ranked.transfer for ranked in order])
        if fault:
            raise TfwaveError(f"the policy '{name}' {fault}")
        return order

    return policy


def _fault(view: GraphView, transfers: Sequence[Transfer], ordered: Sequence[Transfer]) -> str:
    """What is wrong with an order; empty if nothing is."""
    given: Counter[Any] = Counter(t.key for t in transfers)
    found: Counter[Any] = Counter(t.key for t in ordered)
    if given != found:
        key = min(key for key in given | found if given[key] != found[key])
        return f"orders {key} {found[key]} times: order each transfer that it is given once"
    upstream = upstream_transfers(view, ordered)
    for rank, transfer in enumerate(ordered):
        later = (upstream[transfer.recv] >> rank + 1).bit_length()
        if later:
            return f"orders {transfer.key} before {ordered[rank + later].key}, which it waits for"
    return ""
