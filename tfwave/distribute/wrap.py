"""The first way in: one line around a strategy."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar, overload

from tfwave.distribute.mirrored import Average, check_machines, is_mirrored, waves
from tfwave.distribute.ordering import Enforcer, order
from tfwave.errors import EnforcerError
from tfwave.plan.given import GivenPlan
from tfwave.runtime.control.credentials import Credentials
from tfwave.runtime.waves.options import Number, Offset

_Product = Callable[..., Any]
_Strategy = TypeVar("_Strategy")


@overload
def wrap(
    strategy: _Strategy,
    *,
    policy: str = ...,
    enforcer: Enforcer = ...,
    control: Mapping[str, Sequence[str]] | None = ...,
    credentials: Credentials | None = ...,
    trace_steps: int = ...,
    plan: GivenPlan | None = ...,
    report_dir: str | Path | None = ...,
) -> _Strategy: ...
@overload
def wrap(
    strategy: _Strategy,
    *,
    waves: Number | None = ...,
    average: Average = ...,
    offset: Offset | None = ...,
    plan: GivenPlan | None = ...,
    report_dir: str | Path | None = ...,
) -> _Strategy: ...
def wrap(strategy: _Strategy, **options: Any) -> _Strategy:
    """Have a `ParameterServerStrategy` move its tensors in the right order, or a `MirroredStrategy` train in waves.

    The first is `tfwave.distribute.order`, the second `tfwave.distribute.waves`: they say what the options are.
    `waves` or a `plan` must be given, as waves change what is trained. The same strategy is returned.

    Raises:
        EnforcerError: an option that is for the other kind of strategy, whatever its value, a `MirroredStrategy`
            without `waves` and `plan`, a strategy of several machines, or as `order` and `waves` say.
        PassError, EnvironmentUnsupported: as `waves` and `order` say.
    """
    check_machines(strategy)
    kind = type(strategy).__name__
    if not is_mirrored(strategy):
        _refuse(options, waves, order, f"is for the waves of a MirroredStrategy, and this is a {kind}")
        return order(strategy, **options)
    _refuse(options, order, waves, f"orders what parameter servers send, and a {kind} has none")
    if options.keys().isdisjoint(("waves", "plan")):
        raise EnforcerError(
            f"a {kind} has no transfers to order, it trains in waves: give waves=2, or a plan"
        )
    return waves(strategy, **options)


def _refuse(options: Iterable[str], other: _Product, own: _Product, why: str) -> None:
    """Refuse options that the other product has, and this strategy's own has not."""
    foreign = signature(other).parameters.keys() - signature(own).parameters.keys()
    for option in options:
        if option in foreign:
            raise EnforcerError(f"the option {option} {why}: leave it out")
