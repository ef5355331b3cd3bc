"""The third way in: a callback for `fit` under a wrapped strategy."""

import logging
import threading
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from tfwave.distribute.ordering import schedule_of
from tfwave.distribute.schedule import Schedule
from tfwave.distribute.settings import Settings
from tfwave.errors import EnforcerError, TfwaveError
from tfwave.keras.fit_frame import FitFrame
from tfwave.keras.hooks import Hooks
from tfwave.keras.report import tell_epoch

_log = logging.getLogger("tfwave")
_HOLDERS: WeakKeyDictionary[Schedule, "ScheduleCallback"] = WeakKeyDictionary()
"""Of each schedule that is a callback's now: whose."""


class ScheduleCallback(Hooks):
    """Traces, plans and enforces an order while `fit` runs, and says in the epoch logs what it gave.

    For `tf_keras` models and `tfwave.keras.fit`, under a strategy that `tfwave.distribute.wrap` took. Each
    epoch's logs get ``tfwave_step_seconds``, ``tfwave_efficiency``, ``tfwave_inversions``,
    ``tfwave_exact_share``, ``tfwave_planned_share``, ``tfwave_released`` and ``tfwave_straggler``, of E and
    straggler the median, too, as ``tfwave_efficiency_median`` and ``tfwave_straggler_median`` (see
    `tfwave.distribute.Figures`), so `History` has them, and so have loggers that come after this callback in the
    list. When `fit` ends, also by an exception, the strategy's schedule is as it was before.
    """

    def __init__(
        self, policy: str = "tac", trace_steps: int = 5, report_dir: str | Path | None = None
    ) -> None:
        """Say how to order.

        Args:
            policy: as in `tfwave.distribute.order`.
            trace_steps: as in `tfwave.distribute.order`.
            report_dir: where to write TensorBoard events (figures of each epoch as scalars, step times as
                histograms) besides what `tfwave.distribute.order` writes there; None: nowhere.

        Raises:
            TfwaveError: an unknown policy, or no step to trace.
        """
        super().__init__()
        directory = None if report_dir is None else Path(report_dir)
        self._settings = Settings(policy, trace_steps, report_dir=directory)
        self._schedule: Schedule | None = None
        self._before: Settings | None = None
        self._frame: FitFrame | None = None
        self._fit: object = None
        self._lock = threading.RLock()  # the end of a fit may be noticed by another thread

    def on_train_begin(self, logs: Any = None) -> None:
        """Start the schedule with these settings.

        Raises:
            EnforcerError: the model's strategy is not wrapped, or a server does not answer; or another
                ScheduleCallback orders this `fit`.
        """
        del logs
        with self._lock:
            self._restore()
            schedule = schedule_of(self.model.distribute_strategy)
            self._take_over(schedule)
            self._schedule, self._before, self._fit = schedule, schedule.settings, object()
            _HOLDERS[schedule] = self
            self._frame = FitFrame.of_caller(on_end=partial(self._end, self._fit))
            try:
                schedule.start(self._settings, self._settings.events())
            except BaseException:
                self._restore()
                raise

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Add the figures of the epoch to its logs."""
        if self._schedule is None:
            return
        figures = self._schedule.figures()
        if logs is not None:
            logs.update(figures.logs())
        if self._schedule.events is not None:
            tell_epoch(self._schedule.events, epoch, figures)

    def on_train_end(self, logs: Any = None) -> None:
        """Leave the strategy as it was."""
        del logs
        self._restore()

    def _take_over(self, schedule: Schedule) -> None:
        """From a callback whose `fit` has ended, which may not have been noticed yet."""
        holder = _HOLDERS.get(schedule)
        if holder is None:
            return
        if holder._frame is None or not holder._frame.has_ended:
            raise EnforcerError("another ScheduleCallback orders this fit: give it one")
        holder._restore()

    def _end(self, fit: object) -> None:
        """That one has ended; another one may have begun since."""
        with self._lock:
            if fit is self._fit:
                self._restore()

    def _restore(self) -> None:
        with self._lock:
            if self._frame is not None:
                self._frame.release()
            if self._schedule is not None:
                _HOLDERS.pop(self._schedule, None)
                self._hand_back(self._schedule)
            self._frame = self._schedule = None

    def _hand_back(self, schedule: Schedule) -> None:
        try:
            schedule.stop()
            if self._before is not None:
                schedule.start(self._before, self._before.events())
        except TfwaveError as err:
            _log.warning("tfwave: the strategy's own schedule does not start again: %s", err)
