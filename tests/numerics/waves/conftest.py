from collections.abc import Iterator

import pytest

from tests.numerics.waves.keras_update_steps import all_in_doubles
from tests.numerics.waves.keras_waves import in_doubles


@pytest.fixture
def doubles() -> Iterator[None]:
    """Keras makes variables in double precision."""
    with in_doubles():
        yield


@pytest.fixture
def all_doubles() -> Iterator[None]:
    """So does tf_keras."""
    with all_in_doubles():
        yield
