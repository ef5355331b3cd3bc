"""What becomes of an optimizer whose gradients are reduced; nothing here runs TensorFlow."""

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from tests.ports import free_ports
from tfwave.distribute.reduced_optimizer import ReducedOptimizer
from tfwave.errors import EnforcerError
from tfwave.keras.partial_reduce import PartialReduce
from tfwave.reduce import growing
from tfwave.reduce.place import Place
from tfwave.reduce.service import Coordinator
from tfwave.reduce.update import Update


class Weight(np.ndarray[Any, np.dtype[np.float32]]):
    """As much of a variable as its value is told by."""

    def assign(self, value: Any) -> None:
        self[...] = value


class Optimizer:
    """As Keras 3 makes them, but that the learning rate is none of the variables, as in tf_keras."""

    def __init__(self) -> None:
        self.variables: list[Any] = []
        self.finalized: list[Any] = []
        self._learning_rate = np.full((), 0.5, np.float32).view(Weight)

    def build(self, variables: Any) -> None:
        del variables

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        raise NotImplementedError

    def finalize_variable_values(self, var_list: Any) -> None:
        self.finalized.append(var_list)


Alone = Callable[..., ReducedOptimizer]


@pytest.fixture
def alone() -> Iterator[Alone]:
    """Has an optimizer reduce, of the only worker, and leave at the end."""
    with ExitStack() as left:

        def make(optimizer: Any, weights: int = 1, **rules: Any) -> ReducedOptimizer:
            place = Place.given([f"127.0.0.1:{free_ports(1)[0]}"], 0)
            options = place.options(patience=60.0, **rules)
            variables = [np.zeros(2, np.float32).view(Weight)] * weights
            reduced = ReducedOptimizer(optimizer, variables, (), place, options)
            left.callback(reduced.close)
            return reduced

        yield make


def test_averages_take_the_place_of_weights_behind_the_last_sum(alone: Alone) -> None:
    """Keras has them do so before it tells its callbacks that a fit has ended."""
    optimizer = Optimizer()
    reduced = alone(optimizer)
    reduced.join()
    optimizer.finalize_variable_values(["weights"])
    assert not optimizer.finalized
    reduced.drain()
    assert optimizer.finalized == [["weights"]]
    reduced.close()
    optimizer.finalize_variable_values(["again"])
    assert optimizer.finalized == [["weights"], ["again"]]


def test_groups_and_averages_of_weights_do_not_go_together() -> None:
    """Each group's averages, of its own sums, would take the place of the weights that all have at the end."""
    optimizer: Any = Optimizer()
    optimizer.use_ema = True
    place = Place.given([f"127.0.0.1:{port}" for port in free_ports(2)], 0).grouped([[0], [1]])
    with pytest.raises(EnforcerError, match="do without use_ema, or without groups"):
        ReducedOptimizer(optimizer, [np.zeros(2, np.float32).view(Weight)], (), place, place.options())


def test_who_is_interrupted_while_it_leaves_has_its_optimizer_back(
    alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Coordinator.stop

    def interrupted(coordinator: Coordinator) -> None:
        stop(coordinator)
        raise KeyboardInterrupt

    optimizer = Optimizer()
    reduced = alone(optimizer)
    reduced.join()
    monkeypatch.setattr(Coordinator, "stop", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reduced.close()
    assert vars(optimizer).keys() == {"variables", "finalized", "_learning_rate"}


def test_all_begin_with_the_learning_rate_of_the_first() -> None:
    """Its checkpoint may have another one than the program says."""
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]

    def rate(rank: int) -> float:
        place, optimizer = Place.given(workers, rank), Optimizer()
        optimizer._learning_rate.assign(rank + 1)
        weights, options = [np.zeros(2, np.float32).view(Weight)], place.options(patience=60.0)
        reduced = ReducedOptimizer(optimizer, weights, (), place, options)
        try:
            reduced.join()
            reduced.drain()
        finally:
            reduced.close()
        return float(optimizer._learning_rate)

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(rate, range(2))) == [1, 1]


@pytest.mark.parametrize("probes", [2, "all"])
def test_a_learning_rate_that_is_set_anew_is_warned_of_unless_all_set_it_at_once(probes: int | str) -> None:
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]

    with ThreadPoolExecutor(2) as threads:
        told, _ = threads.map(lambda rank: told_of_rates(workers, rank, probes), range(2))
    assert len(told) == (probes != "all")
    assert all("the learning rate was 0.5 and is 0.25" in text for text in told)


def told_of_rates(workers: list[str], rank: int, probes: int | str) -> list[str]:
    """Only the first one sets another."""
    place, optimizer = Place.given(workers, rank), Optimizer()
    options = place.options(patience=60.0, probes=probes)
    reduced = ReducedOptimizer(optimizer, [np.zeros(2, np.float32).view(Weight)], (), place, options)
    try:
        reduced.join()
        if rank:
            reduced.drain()
            return []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for rate in (0.5, 0.25, 0.25):
                optimizer._learning_rate.assign(rate)
                reduced.check_rate()
        reduced.drain()
    finally:
        reduced.close()
    return [str(warning.message) for warning in caught]


def test_a_worker_that_begins_its_next_fit_first_waits_for_the_others() -> None:
    """The coordinator of the fit before is in the process of the first worker, which has not left it yet."""
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
    began = threading.Event()

    def fits(rank: int) -> None:
        place = Place.given(workers, rank)
        for fit in range(2):
            weights, options = [np.zeros(2, np.float32).view(Weight)], place.options(patience=60.0)
            reduced = ReducedOptimizer(Optimizer(), weights, (), place, options)
            try:
                if rank and fit:
                    began.set()
                reduced.join()
                reduced.drain()
                if not rank and not fit:
                    assert began.wait(60)
                    time.sleep(0.5)  # time to say hello to a coordinator that would take it
            finally:
                reduced.close()

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(fits, range(2)))


def test_a_gradient_of_a_group_counts_as_one_of_all_workers() -> None:
    """And what other groups did is added as it is, once."""
    place = Place.given([f"127.0.0.1:{port}" for port in free_ports(4)], 0).grouped([[0], [1, 2, 3]])
    weights = [np.zeros(2, np.float32).view(Weight)]
    reduced = ReducedOptimizer(Optimizer(), weights, (), place, place.options(patience=60.0))
    try:
        two, three = np.array([2, 4], np.float32), np.array([3, 4], np.float32)
        updates = [Update(1, two, 1), Update(2, two, 1, of_others=True), Update(3, three, 1, of_others=True)]
        rows, which = reduced._rows(updates)
        assert rows.tolist() == [[0.5, 1], [2, 4], [1, 0]]
        assert which.tolist() == [False, True, True]
    finally:
        reduced.close()


def test_a_legacy_optimizer_is_refused(alone: Alone) -> None:
    class SGD:
        def apply_gradients(self, pairs: Any) -> None:
            raise NotImplementedError

    with pytest.raises(EnforcerError, match=r"a legacy optimizer .*: take tf_keras\.optimizers\.SGD"):
        alone(SGD())


def test_a_model_that_was_never_called_is_refused(alone: Alone) -> None:
    with pytest.raises(EnforcerError, match="a model has none before it was called"):
        alone(Optimizer(), weights=0)


def test_tf_keras_tells_the_callback_of_batches() -> None:
    """It asks which callbacks want to be told; who came late would wait for the weights until the end."""
    reduce: Any = PartialReduce(workers=["127.0.0.1:7000"], rank=0)
    assert reduce._implements_train_batch_hooks()
    assert not reduce._implements_test_batch_hooks()


def test_a_step_that_fails_has_handed_nothing_over(alone: Alone, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it had begun to; the next one begins anew."""
    monkeypatch.setattr(growing, "LEAST_BYTES", 8)
    reduced = alone(Optimizer(), weights=2, probes="all")
    reduced.join()
    assert reduced.buckets == [range(1, 2), range(1)]

    def step(*values: float) -> tuple[Any, ...]:
        reduced._has_applied = True
        for number, value in enumerate(values):
            reduced.put(np.full(2, value, np.float32), np.int32(number))
        if len(values) < 2:
            raise ValueError("no more data")
        return reduced.collect(np.int32(2))

    with pytest.raises(ValueError, match="no more data"):
        reduced.run(step, 100.0)
    (rows,) = reduced.run(step, 1.0, 2.0)
    assert rows.tolist() == [[2.0, 2.0, 1.0, 1.0]]
