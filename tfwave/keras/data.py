"""Where the batches of an epoch come from: the chief deals them out, or each worker reads its own."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Protocol

from tfwave.errors import TfwaveError


class Source(Protocol):
    """Gives the arguments for the functions of an epoch's steps."""

    @property
    def element_spec(self) -> Any:
        """The `tf.TypeSpec`s of a batch."""
        ...

    @property
    def steps_known(self) -> int | None:
        """The steps of an epoch, if that can be said beforehand."""
        ...

    def epoch(self, per_execution: Callable[[], int]) -> Iterator[tuple[int, Any]]:
        """For each function of the next epoch: its number of steps, at most as asked then, and its argument."""
        ...

    def signature(self, count: int) -> Sequence[Any] | None:
        """The input signature of a function of so many steps; None to take it from the argument."""
        ...

    def batches(self, argument: Any, count: int) -> Sequence[Any]:
        """Inside such a function: the batches."""
        ...


class Dealt:
    """Batches that the chief reads from a dataset and sends with each step.

    Without `steps` an epoch is the whole dataset; else it goes on where the last one ended.
    """

    def __init__(self, dataset: Any, steps: int | None) -> None:
        self._dataset = dataset
        self._steps = steps
        self._rest: Iterator[Any] = iter(())

    @property
    def element_spec(self) -> Any:
        return self._dataset.element_spec

    @property
    def steps_known(self) -> int | None:
        size = int(self._dataset.cardinality())
        return self._steps or (size if size >= 0 else None)

    def from_the_start(self) -> "Dealt":
        return Dealt(self._dataset, self._steps)

    def epoch(self, per_execution: Callable[[], int]) -> Iterator[tuple[int, Any]]:
        batches = iter(self._dataset) if self._steps is None else self._draw(self._steps)
        while chunk := tuple(islice(batches, per_execution())):
            yield len(chunk), chunk

    def _draw(self, steps: int) -> Iterator[Any]:
        """So many batches, from the start if there are none left; fewer, and a warning, if it ends."""
        first = list(islice(self._rest, 1))
        if not first:
            self._rest = iter(self._dataset)
        drawn = 0
        for batch in islice(chain(first, self._rest), steps):
            drawn += 1
            yield batch
        if drawn < steps:
            warnings.warn(
                f"the dataset ended after {drawn} of the epoch's {steps} batches, and so does the epoch; the"
                " next begins it anew. Repeat it (.repeat()) for epochs of full length",
                stacklevel=2,
            )

    def signature(self, count: int) -> Sequence[Any]:
        return [(self.element_spec,) * count]

    def batches(self, argument: Any, count: int) -> Sequence[Any]:
        return argument


class Streamed:
    """Batches that each worker reads from its own dataset, which begins anew when it ends."""

    def __init__(self, coordinator: Any, dataset_fn: Callable[[Any], Any], steps: int) -> None:
        tensorflow: Any = __import__("tensorflow")
        strategy = coordinator.strategy

        def repeated(context: Any) -> Any:
            return dataset_fn(context).repeat()

        def on_worker() -> Any:
            return strategy.distribute_datasets_from_function(repeated)

        function = tensorflow.function(on_worker)
        dataset = coordinator.create_per_worker_dataset(function)
        _check_made_inside(function)
        self._iterators = iter(dataset)
        self.element_spec: Any = dataset.element_spec
        self.steps_known = steps

    def epoch(self, per_execution: Callable[[], int]) -> Iterator[tuple[int, Any]]:
        left = self.steps_known
        while left:
            count = min(per_execution(), left)
            left -= count
            yield count, self._iterators

    def signature(self, count: int) -> None:
        return None

    def batches(self, argument: Any, count: int) -> Sequence[Any]:
        return [next(argument) for _ in range(count)]


def _check_made_inside(function: Any) -> None:
    captured = function.get_concrete_function().captured_inputs
    if any(tensor.dtype.name == "variant" for tensor in captured):
        raise TfwaveError(
            "the dataset function uses a dataset that was made outside: make it inside, where each worker does"
        )


def source_of(x: Any, coordinator: Any, steps: int | None) -> Source:
    """The source that fits the data.

    Raises:
        TfwaveError: not a dataset nor a function, or an epoch without end.
    """
    if not callable(x):
        return dealt("x", x, steps)
    if steps is None:
        raise TfwaveError("a dataset function has no size: give steps_per_epoch")
    return Streamed(coordinator, x, _counted("steps_per_epoch", steps))


def dealt(name: str, dataset: Any, steps: int | None) -> Dealt:
    """A dataset dealt out by the chief.

    Raises:
        TfwaveError: not a dataset, or without end and no number of steps.
    """
    tensorflow: Any = __import__("tensorflow")
    if not isinstance(dataset, tensorflow.data.Dataset):
        raise TfwaveError(
            f"{name} is a {type(dataset).__name__}, not a tf.data.Dataset: wrap arrays as"
            " tf.data.Dataset.from_tensor_slices((x, y)).batch(32)"
        )
    if steps is None and dataset.cardinality() == tensorflow.data.INFINITE_CARDINALITY:
        raise TfwaveError(f"{name} has no end: say how many batches are an epoch")
    return Dealt(dataset, steps if steps is None else _counted(f"the steps of {name}", steps))


def _counted(name: str, steps: int) -> int:
    if steps < 1:
        raise TfwaveError(f"{name} must be >= 1, not {steps}")
    return steps
