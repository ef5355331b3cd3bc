"""Two waves are one large batch, in every weight and slot, or are refused by name: there is no third outcome."""

import numpy as np
import pytest

from tests.full import IS_FULL
from tests.numerics.corpus.sample import Array
from tests.numerics.waves import keras_update_steps, update_steps
from tests.numerics.waves.keras_update_steps import keras_values
from tests.numerics.waves.update_steps import Values, v1_values
from tfwave.errors import PassError

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(300), pytest.mark.usefixtures("all_doubles")]

ROWS = "embedding"
"""The layer whose gradient is single rows, with which each optimizer is tried."""
REFUSED = ("descent", "unique words")
"""What updates single rows that are unique in each wave, and does not make them so again; no other is refused."""
THOROUGH = ("descent", "adam")
"""The optimizers with which each layer is trained; the others train some."""
SOME = ("dense", "by hand", ROWS) if IS_FULL else ("by hand", ROWS)
"""Of a table of rows, too, the last layer is dense."""


def check_equal(found: Values, wanted: Values) -> None:
    assert len(found) == len(wanted) > 2
    for (name, value), other in zip(wanted.items(), found.values(), strict=True):
        assert difference(other, value) <= 1e-12, name


def difference(found: Array, wanted: Array) -> float:
    """The greatest, relative to the greatest magnitude."""
    most = float(np.abs(found.astype(float) - wanted).max())
    return most and most / float(np.abs(wanted).max())


V1 = [
    (optimizer, layer)
    for optimizer in update_steps.OPTIMIZERS
    for layer in update_steps.LAYERS
    if optimizer in THOROUGH or layer in SOME
]
KERAS = [
    pytest.param(library, optimizer, layer, marks=[pytest.mark.long] * (library != "keras"))
    for library, optimizers in keras_update_steps.OPTIMIZERS.items()
    for optimizer in optimizers
    for layer in keras_update_steps.LAYERS
    if optimizer in THOROUGH or layer in SOME
]


@pytest.mark.parametrize(("optimizer", "layer"), V1)
def test_optimizers_of_tensorflow_1(optimizer: str, layer: str) -> None:
    if (optimizer, layer) == REFUSED:
        with pytest.raises(
            PassError, match=r"node '.*/ResourceScatterAdd' .* 'Unique' makes unique, in each wave"
        ):
            v1_values(optimizer, layer)
        return
    check_equal(*v1_values(optimizer, layer))


@pytest.mark.parametrize(("library", "optimizer", "layer"), KERAS)
def test_optimizers_of_keras(library: str, optimizer: str, layer: str) -> None:
    check_equal(*keras_values(library, optimizer, layer))
