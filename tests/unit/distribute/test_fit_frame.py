"""Noticing the end of a fit of which nobody tells, and what is left behind then."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from tfwave.distribute.settings import Settings
from tfwave.errors import EnforcerError, TfwaveError
from tfwave.keras import fit_frame
from tfwave.keras.callback import ScheduleCallback
from tfwave.keras.fit_frame import FitFrame
from tfwave.keras.stand_in import StandIn


def fit(ended: threading.Event, fails: bool) -> FitFrame:
    frame = began(ended)
    assert not ended.wait(0.5)
    if fails:
        raise ValueError
    return frame


def began(ended: threading.Event) -> FitFrame:
    frame = FitFrame.of_caller(on_end=ended.set)
    assert frame
    return frame


def test_an_exception_ends_it() -> None:
    ended = threading.Event()
    with suppress(ValueError):
        fit(ended, fails=True)
    assert ended.wait(2)


def test_a_return_ends_it() -> None:
    ended = threading.Event()
    fit(ended, fails=False)
    assert ended.wait(2)


def test_a_second_fit_is_another_one() -> None:
    first, second = threading.Event(), threading.Event()
    with suppress(ValueError):
        fit(first, fails=True)
    fit(second, fails=False)
    assert first.wait(2)
    assert second.wait(2)


def test_what_is_released_is_not_told() -> None:
    ended = threading.Event()
    fit(ended, fails=False).release()
    assert not ended.wait(0.5)


def test_a_generator_that_was_left_meanwhile_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its frame was found on the stack, and has no caller any more."""
    left = (number for number in range(2))
    next(left)
    found = {threading.get_ident(): left.gi_frame}

    def fit() -> None:
        frame = began(threading.Event())
        monkeypatch.setattr(fit_frame, "_INTERPRETER", SimpleNamespace(_current_frames=lambda: found))
        assert not frame.has_ended
        frame.release()

    fit()


def test_without_a_fit_there_is_nothing_to_watch() -> None:
    assert FitFrame.of_caller(on_end=time.time) is None


_FIT = """
import contextlib, threading, time
from tfwave.keras.fit_frame import FitFrame

class Data:
    def __del__(self):
        time.sleep(0.3)
        print("data ended")

def fit(data, end):
    end(FitFrame.of_caller(on_end=lambda: print("told")))
"""
_ENDS = {
    "returned": "fit(Data(), FitFrame.release)",
    "failed": "with contextlib.suppress(TypeError): fit(Data(), None)",
}


def said_by(program: str) -> str:
    """What a process of that program says until it ends."""
    command = [sys.executable, "-c", _FIT + program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize("how", _ENDS)
def test_a_process_that_ends_right_behind_it_ends_its_data_first(how: str) -> None:
    assert said_by(_ENDS[how]).endswith("data ended\n")


def test_one_that_goes_on_does_not_keep_its_process() -> None:
    began = "threading.Thread(target=fit, args=(None, lambda _: time.sleep(600)), daemon=True).start()"
    assert not said_by(f"{began}; time.sleep(0.3)")


class Stock:
    """A model that trains by itself, as its `train_function` is asked in each step."""

    name = "stock"

    def __init__(self) -> None:
        self.train_function: Any = lambda batches: f"stock {next(batches)}"

    def fit(self, begin: Callable[[], None], end: Callable[[], None] | None = None) -> str:
        begin()
        trained = self.train_function(iter([1]))
        if end is None:
            raise ValueError("it fails")
        end()
        return trained


def stood_in(said: str) -> Callable[[], Any]:
    return lambda: lambda batches: f"{said} {next(batches)}"


@pytest.fixture
def never_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fit is seen to have ended before the next one begins."""
    monkeypatch.setattr(fit_frame, "_POLL_SECONDS", 3600.0)


@pytest.mark.usefixtures("never_looked")
class TestAStandIn:
    def test_a_plain_fit_right_behind_one_that_failed_is_plain(self) -> None:
        model, waves = Stock(), StandIn[Any]()
        stock = model.train_function
        with suppress(ValueError):
            model.fit(lambda: waves.put(model, stood_in("waves")))
        assert model.fit(lambda: None, lambda: None) == "stock 1"
        assert model.train_function is stock
        assert waves.steps is None

    def test_another_callback_right_behind_one_whose_fit_failed_leaves_the_stock_function(self) -> None:
        model, ended = Stock(), list[Any]()
        failed, second = StandIn[Any](ended.append), StandIn[Any]()
        stock = model.train_function
        with suppress(ValueError):
            model.fit(lambda: failed.put(model, stood_in("failed")))
        assert model.fit(lambda: second.put(model, stood_in("second")), second.take_back) == "second 1"
        assert model.train_function is stock
        assert len(ended) == 1

    def test_two_callbacks_of_one_fit_are_refused(self) -> None:
        model, one, other = Stock(), StandIn[Any](), StandIn[Any]()

        def begin() -> None:
            one.put(model, stood_in("one"))
            other.put(model, stood_in("other"))

        with pytest.raises(TfwaveError, match="the model 'stock' is trained by another callback"):
            model.fit(begin, lambda: None)

    def test_what_fails_as_it_is_closed_does_not_stay(self) -> None:
        def fails(steps: Any) -> None:
            del steps
            raise OSError("the disk is full")

        model, failing = Stock(), StandIn[Any](fails)
        stock = model.train_function
        with pytest.raises(OSError, match="the disk is full"):
            model.fit(lambda: failing.put(model, stood_in("failing")), failing.take_back)
        assert (model.train_function, failing.steps) == (stock, None)

    def test_the_end_of_a_fit_that_is_told_late_does_not_end_the_next(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told: list[Callable[[], None]] = []
        monkeypatch.setattr(FitFrame, "_watch", lambda frame: told.append(frame._on_end))
        model, waves = Stock(), StandIn[Any]()
        with suppress(ValueError):
            model.fit(lambda: waves.put(model, stood_in("first")))

        def begin() -> None:
            waves.put(model, stood_in("second"))
            told[0]()

        assert model.fit(begin, waves.take_back) == "second 1"


class Schedule:
    """Of a strategy: by which settings it orders."""

    events = None

    def __init__(self, settings: Settings | None) -> None:
        self.settings: Settings | None = settings
        self.answers = True

    def start(self, settings: Settings, events: object) -> None:
        del events
        self.settings = None
        if not self.answers:
            self.answers = True
            raise EnforcerError("a server does not answer")
        self.settings = settings

    def stop(self) -> None:
        self.settings = None


@pytest.mark.usefixtures("never_looked")
class TestAScheduleCallback:
    def made(self, schedule: Schedule) -> ScheduleCallback:
        callback = ScheduleCallback()
        callback.set_model(SimpleNamespace(distribute_strategy=SimpleNamespace(_tfwave_schedule=schedule)))
        return callback

    def test_another_one_right_behind_one_whose_fit_failed_leaves_the_strategys_own_schedule(self) -> None:
        own = Settings("tic")
        schedule = Schedule(own)
        failed, second = self.made(schedule), self.made(schedule)
        with suppress(ValueError):
            Stock().fit(failed.on_train_begin)
        Stock().fit(second.on_train_begin, second.on_train_end)
        assert schedule.settings is own
        failed.on_train_end()
        assert schedule.settings is own

    def test_two_of_one_fit_are_refused(self) -> None:
        schedule = Schedule(None)
        one, other = self.made(schedule), self.made(schedule)

        def begin() -> None:
            one.on_train_begin()
            other.on_train_begin()

        with pytest.raises(TfwaveError, match="another ScheduleCallback"):
            Stock().fit(begin, lambda: None)

    def test_servers_that_do_not_answer_leave_the_strategys_own_schedule(self) -> None:
        own = Settings("tic")
        schedule = Schedule(own)
        schedule.answers = False
        with pytest.raises(EnforcerError, match="does not answer"):
            Stock().fit(self.made(schedule).on_train_begin, lambda: None)
        assert schedule.settings is own


def test_what_is_collected_meanwhile_may_begin_threads() -> None:
    """Python 3.11 tells where threads are under a lock that these need; a collection would stop it all."""
    program = """
import gc, threading, time
from tfwave.keras.fit_frame import FitFrame

class Cycle:
    def __init__(self):
        self.itself = self

    def __del__(self):
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()

def fit():
    frame = FitFrame.of_caller(lambda: None)
    gc.set_threshold(1)
    for _ in range(200):
        Cycle()
        frame._runs()
    frame.release()
    assert gc.isenabled()

fit()
"""
    subprocess.run([sys.executable, "-c", program], timeout=30, check=True)
