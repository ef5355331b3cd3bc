"""How rows of a table are updated: by ops that touch these rows only, on the server that has them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from inspect import signature
from numbers import Real
from typing import Any, Protocol

from tfwave.errors import TfwaveError

Rate = float | Callable[[], Any]
"""A number, or a function that gives it: a scalar in each step."""


class RowOptimizer(Protocol):
    """Updates rows of one variable."""

    @property
    def slots(self) -> dict[str, float]:
        """What it keeps for each number of the table, by name: with what value that begins."""
        ...

    @property
    def by_row(self) -> bool:
        """Whether that is one number for each row; and whether an update is of several ops, so that no other may
        come in between.
        """
        ...

    def apply(self, variable: Any, slots: Sequence[Any], rows: Any, gradients: Any) -> Any:
        """Update rows, each of which comes once: int32 of shape [n], gradients [n, width].

        The variable is locked meanwhile: of two workers that update a row at once, none's update is lost. One that
        is `by_row` is for tables that one process updates.

        Returns:
            The op that is done when they are updated; None where ops run at once.
        """
        ...


@dataclass(frozen=True)
class SGD:
    """Subtracts `rate` times the gradient.

    The rate is a number or, for one that changes, a function without arguments, which is called as each step is
    traced: ``lambda: schedule(optimizer.iterations)``, or ``lambda: variable``. Under `staged` it is called before
    the step, on workers by `Table.push`.

    Raises:
        TfwaveError: a rate below 0, or one that is neither.
    """

    rate: Rate
    by_row = False

    def __post_init__(self) -> None:
        _check_rate(self.rate)

    @property
    def slots(self) -> dict[str, float]:
        return {}

    def apply(self, variable: Any, slots: Sequence[Any], rows: Any, gradients: Any) -> Any:
        del slots
        tensorflow: Any = import_module("tensorflow")
        return tensorflow.raw_ops.ResourceScatterNdSub(
            ref=variable.handle, indices=rows[:, None], updates=_now(self.rate) * gradients
        )


@dataclass(frozen=True)
class _Accumulating:
    """Keeps a sum of squares."""

    rate: Rate
    initial_accumulator: float = 0.1
    epsilon: float = 1e-7

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        _check("initial_accumulator", self.initial_accumulator)
        _check("epsilon", self.epsilon)

    @property
    def slots(self) -> dict[str, float]:
        return {"accumulator": self.initial_accumulator}


@dataclass(frozen=True)
class Adagrad(_Accumulating):
    """Adds the gradient's square to the accumulator, and subtracts rate * gradient / (sqrt(accumulator) + epsilon).

    The rate may be a function, as that of `SGD`.

    Raises:
        TfwaveError: a number below 0, or a rate that is no number.
    """

    by_row = False

    def apply(self, variable: Any, slots: Sequence[Any], rows: Any, gradients: Any) -> Any:
        tensorflow: Any = import_module("tensorflow")
        return tensorflow.raw_ops.ResourceSparseApplyAdagradV2(
            var=variable.handle,
            accum=slots[0].handle,
            lr=_now(self.rate),
            epsilon=self.epsilon,
            grad=gradients,
            indices=rows,
            use_locking=True,
        )


@dataclass(frozen=True)
class RowWiseAdagrad(_Accumulating):
    """As `Adagrad`, with one accumulator for a row: it adds the mean of the squares of the row's gradient.

    A table with it takes little more memory than its rows; on workers only (``where="workers"``).

    Raises:
        TfwaveError: a number below 0, or a rate that is no number.
    """

    by_row = True

    def apply(self, variable: Any, slots: Sequence[Any], rows: Any, gradients: Any) -> Any:
        tensorflow: Any = import_module("tensorflow")
        raw, accumulator = tensorflow.raw_ops, slots[0].handle
        squares = tensorflow.reduce_mean(tensorflow.square(gradients), 1, keepdims=True)
        raw.ResourceScatterAdd(resource=accumulator, indices=rows, updates=squares)
        sums = raw.ResourceGather(resource=accumulator, indices=rows, dtype=tensorflow.float32)
        updates = _now(self.rate) * gradients / (tensorflow.sqrt(sums) + self.epsilon)
        return raw.ResourceScatterSub(resource=variable.handle, indices=rows, updates=updates)


def as_it_is(optimizer: RowOptimizer) -> RowOptimizer:
    """The same, with a rate that stays what its function gives now."""
    rate: object = getattr(optimizer, "rate", None)
    if not callable(rate):
        return optimizer
    now = _now(rate)
    same: Any = optimizer
    return replace(same, rate=lambda: now)


def _now(rate: Any) -> Any:
    """A number, or a scalar tensor of float32."""
    if not callable(rate):
        return rate
    tensorflow: Any = import_module("tensorflow")
    found = tensorflow.cast(rate(), tensorflow.float32)
    if found.shape.rank:
        raise TfwaveError(f"the rate of a table has shape {found.shape}: have its function give one number")
    return found


def _check_rate(rate: Any) -> None:
    if isinstance(rate, Real):
        _check("rate", float(rate))
        return
    try:
        signature(rate).bind()
    except TypeError as err:
        raise TfwaveError(
            f"rate must be a number or a function without arguments, not {rate!r}: give one that changes as "
            "lambda: schedule(optimizer.iterations), or lambda: variable"
        ) from err


def _check(name: str, value: float) -> None:
    if not isinstance(value, Real):
        raise TfwaveError(f"{name} must be a number, not {value!r}")
    if not value >= 0:
        raise TfwaveError(f"{name} must be >= 0, not {value}")
