"""Two waves are one large batch, in every weight and slot, or are refused by name: there is no third outcome."""

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from grappler_passes.tick_tock import TickTock
from grappler_passes.tick_tock_partitions import TickTockPartitions
from tests.numerics import keras_update_steps, update_steps
from tests.numerics.corpus.sample import Array
from tests.numerics.keras_update_steps import all_in_doubles, keras_values
from tests.numerics.update_steps import Values, v1_step, v1_values
from tfwave.errors import PassError

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(300)]

ROWS = "embedding"
"""The layer whose gradient is one of single rows, which may be refused; no other may."""
THOROUGH = ("descent", "adam")
"""The optimizers with which each layer is trained; the others train some."""


@pytest.fixture(autouse=True)
def doubles() -> Iterator[None]:
    with all_in_doubles():
        yield


def is_equal_or_refused(layer: str, values: Callable[[], tuple[Values, Values]]) -> None:
    found, wanted, refusal = outcome(values)
    if layer == ROWS and refusal:
        assert re.match("nodes? '.+' ", refusal)
        return
    assert not refusal
    assert len(found) == len(wanted) > 2
    for (name, value), other in zip(wanted.items(), found.values(), strict=True):
        assert difference(other, value) <= 1e-12, name


def outcome(values: Callable[[], tuple[Values, Values]]) -> tuple[Values, Values, str]:
    try:
        return *values(), ""
    except PassError as err:
        return {}, {}, str(err)


def difference(found: Array, wanted: Array) -> float:
    """The greatest, relative to the greatest magnitude."""
    most = float(np.abs(found.astype(float) - wanted).max())
    return most and most / float(np.abs(wanted).max())


V1 = [
    (optimizer, layer)
    for optimizer in update_steps.OPTIMIZERS
    for layer in update_steps.LAYERS
    if optimizer in THOROUGH or layer in ("dense", "by hand", ROWS)
]
KERAS = [
    (library, optimizer, layer)
    for library, optimizers in keras_update_steps.OPTIMIZERS.items()
    for optimizer in optimizers
    for layer in keras_update_steps.LAYERS
    if optimizer in THOROUGH or layer in ("dense", ROWS)
]


@pytest.mark.parametrize(("optimizer", "layer"), V1)
def test_optimizers_of_tensorflow_1(optimizer: str, layer: str) -> None:
    is_equal_or_refused(layer, lambda: v1_values(optimizer, layer))


@pytest.mark.parametrize(("library", "optimizer", "layer"), KERAS)
def test_optimizers_of_keras(library: str, optimizer: str, layer: str) -> None:
    is_equal_or_refused(layer, lambda: keras_values(library, optimizer, layer))


@pytest.mark.parametrize("transform", [TickTock(), TickTockPartitions()])
def test_adam_with_single_rows_is_refused_by_the_update_of_its_slot(
    transform: TickTock | TickTockPartitions,
) -> None:
    """Its rows are scattered to slots, not to the weight."""
    item = v1_step("adam", ROWS, 2).item
    with pytest.raises(
        PassError, match=r"node 'Adam/update_table/ResourceScatterAdd' .* updates single rows"
    ):
        transform(item)
