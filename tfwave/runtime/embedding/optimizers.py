"""How rows of a table are updated: by ops that touch these rows only, on the server that has them."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from tfwave.errors import TfwaveError


class RowOptimizer(Protocol):
    """Updates rows of one variable."""

    @property
    def slots(self) -> dict[str, float]:
        """What it keeps for each number of the table, by name: with what value that begins."""
        ...

    def apply(self, variable: Any, slots: Sequence[Any], rows: Any, gradients: Any) -> None:
        """Update rows, each of which comes once: int32 of shape [n], gradients [n, width].

        The variable is locked meanwhile: of two workers that update a row at once, none's update is lost.
        """
        ...


@dataclass(frozen=True)
class SGD:
    """Subtracts `rate` times the gradient.

    Raises:
        TfwaveError: a rate below 0.
    """

    rate: float

    def __post_init__(self) -> None:
        _check("rate", self.rate)

    @property
    def slots(self) -> dict[str, float]:
        return {}

    def apply(self, variable: Any, slots: Sequence[Any], rows: Any, gradients: Any) -> None:
        del slots
        tensorflow: Any = import_module("tensorflow")
        tensorflow.raw_ops.ResourceScatterNdSub(
            ref=variable.handle, indices=rows[:, None], updates=self.rate * gradients
        )


@dataclass(frozen=True)
class Adagrad:
    """Adds the gradient's square to the accumulator, and subtracts rate * gradient / (sqrt(accumulator) + epsilon).

    Raises:
        TfwaveError: a number below 0.
    """

    rate: float
    initial_accumulator: float = 0.1
    epsilon: float = 1e-7

    def __post_init__(self) -> None:
        _check("rate", self.rate)
        _check("initial_accumulator", self.initial_accumulator)
        _check("epsilon", self.epsilon)

    @property
    def slots(self) -> dict[str, float]:
        return {"accumulator": self.initial_accumulator}

    def apply(self, variable: Any, slots: Sequence[Any], rows: Any, gradients: Any) -> None:
        tensorflow: Any = import_module("tensorflow")
        tensorflow.raw_ops.ResourceSparseApplyAdagradV2(
            var=variable.handle,
            accum=slots[0].handle,
            lr=self.rate,
            epsilon=self.epsilon,
            grad=gradients,
            indices=rows,
            use_locking=True,
        )


def _check(name: str, value: float) -> None:
    if not value >= 0:
        raise TfwaveError(f"{name} must be >= 0, not {value}")
