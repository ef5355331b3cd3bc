"""A table on workers, in a group of one: what it takes, and what it refuses.

Bits, and what is left when a worker dies, are in tests/cluster/embedding/test_embedding_on_workers.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfwave.embedding import SGD, Adagrad, Table
from tfwave.runtime.all_to_all import Exchange

pytestmark = pytest.mark.tensorflow

START = np.arange(8, dtype=np.float32).reshape(4, 2)


@dataclass(frozen=True)
class Alone:
    """A group of this process."""

    exchange: Exchange


@pytest.fixture(scope="module")
def alone() -> Iterator[Alone]:
    exchange = Exchange("of one", 0, 1)
    exchange.form([None], deadline=60)
    yield Alone(exchange)
    exchange.leave()


def made(group: Alone, optimizer: Any = None) -> Table:
    return Table(tf.Variable(START, name="t"), optimizer or SGD(0.5), where="workers", workers=group)


@pytest.mark.parametrize("optimizer", [SGD(0.5), Adagrad(0.5)])
def test_gradients_in_half_precision_are_numbers_of_the_table(alone: Alone, optimizer: Any) -> None:
    """Of another type they would end the process."""
    whole, half = made(alone, optimizer), made(alone, optimizer)

    @tf.function
    def step(table: Table, kind: Any) -> None:
        pulled = table.pull([3, 1, 3])
        table.push(pulled, tf.cast(pulled.rows, kind))

    graph = step.get_concrete_function(half, tf.float16).graph
    sums = [op.inputs[0].dtype for op in graph.get_operations() if op.type == "UnsortedSegmentSum"]
    assert set(sums) == {tf.float32}
    step(whole, tf.float32)
    step(half, tf.float16)
    assert half.shards[0].numpy().tobytes() == whole.shards[0].numpy().tobytes() != START.tobytes()
