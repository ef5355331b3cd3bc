from pathlib import Path

import pytest

from tests.numerics.corpus import SAMPLES
from tests.numerics.corpus.places import set_up


@pytest.fixture(scope="session", autouse=True)
def logical_devices() -> None:
    """The same for all tests of a process: TensorFlow takes them before it first runs, and never after."""
    set_up()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One sample's tests of all files one after the other, in one process: it is built and run there only.

    The tests of a file that lean on no sample stay together as well.
    """
    for item in items:
        if Path(__file__).parent in item.path.parents and config.pluginmanager.hasplugin("xdist"):
            item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=_group)


def _group(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    name = callspec.params.get("name") if callspec else None
    return name if name in SAMPLES else item.path.name
