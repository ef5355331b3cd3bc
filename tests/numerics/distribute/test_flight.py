"""Steps under way on workers that do not answer. No server runs; tests/cluster/keras/test_keras_fit.py has some."""

import threading
import time
from typing import Any

import pytest

from tfwave.keras import flight
from tfwave.keras.flight import Flight


class Silent:
    """A `ClusterCoordinator` whose worker is gone."""

    def __init__(self) -> None:
        self.back = threading.Event()

    def schedule(self, function: Any, args: Any) -> "Silent":
        del function, args
        return self

    def get(self) -> None:
        self.back.wait()

    def done(self) -> bool:
        return self.back.is_set()

    def join(self) -> None:
        self.back.wait()


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(flight, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(flight, "_workers", lambda: 1)
    coordinator = Silent()
    timer = threading.Timer(30, coordinator.back.set)  # where it is waited for after all
    timer.start()
    yield coordinator
    coordinator.back.set()
    timer.cancel()


def test_an_exception_is_raised_though_a_worker_does_not_answer(silent: Silent) -> None:
    def fails() -> None:
        with Flight(silent) as flying:
            flying.launch(1, None, None)
            raise ValueError("of a callback")

    with pytest.warns(UserWarning, match="are left behind"), pytest.raises(ValueError, match="of a callback"):
        fails()
    assert not silent.back.is_set()
    waiting = [thread for thread in threading.enumerate() if thread.name.startswith("tfwave-step")]
    assert waiting
    assert all(thread.daemon for thread in waiting)  # the process can end


def test_without_one_they_are_waited_for(silent: Silent) -> None:
    threading.Timer(0.5, silent.back.set).start()
    begin = time.monotonic()
    with Flight(silent) as flying:
        flying.launch(1, None, None)
    assert silent.back.is_set()
    assert time.monotonic() - begin > 0.4
