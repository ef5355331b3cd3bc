import pytest

from tests.numerics.corpus.places import set_up


@pytest.fixture(scope="session", autouse=True)
def logical_devices() -> None:
    """The same for all tests of a process: TensorFlow takes them before it first runs, and never after."""
    set_up()
