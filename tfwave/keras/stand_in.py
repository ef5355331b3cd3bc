"""What trains in the place of a model's train function, for one `fit`."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, Generic, TypeVar

from tfwave.errors import TfwaveError
from tfwave.keras.fit_frame import FitFrame

Steps = TypeVar("Steps")


class StandIn(Generic[Steps]):
    """Steps in the place of a model's train function, until the `fit` that runs has ended, also by an exception.

    Attributes:
        steps: what stands in; None if nothing does.
    """

    def __init__(self, on_end: Callable[[Steps], None] | None = None) -> None:
        """Nothing stands in; `on_end` gets what did when it is taken back, perhaps in another thread."""
        self.steps: Steps | None = None
        self._on_end = on_end
        self._model: Any = None
        self._standing: _Standing | None = None
        self._frame: FitFrame | None = None
        self._lock = threading.RLock()  # the end of a fit may be noticed by another thread

    def put(self, model: Any, make: Callable[[], Steps]) -> None:
        """Put what is made in the place of the train function, in the nearest `fit` that calls.

        Raises:
            TfwaveError: something else stands in, in this `fit`.
        """
        with self._lock:
            self.take_back()
            _make_way(model)
            before, self.steps = model.train_function, make()
            self._model, self._standing = model, _Standing(self, self.steps, before)
            model.train_function = self._standing
            self._frame = FitFrame.of_caller(on_end=partial(self._take_back, self._standing))

    def take_back(self, last: Callable[[Steps], None] | None = None) -> None:
        """Leave the model as it was, unless its train function has become another one since.

        `last` gets what stands in before, whatever it raises; not if that was taken back already.
        """
        with self._lock, ExitStack() as stack:
            stack.callback(self._leave)
            if self.steps is not None and last is not None:
                last(self.steps)

    def _leave(self) -> None:
        if self._frame is not None:
            self._frame.release()
        try:
            if self.steps is not None and self._on_end is not None:
                self._on_end(self.steps)
        finally:
            if self._standing is not None and self._model.train_function is self._standing:
                self._model.train_function = self._standing.before
            self._frame = self.steps = self._standing = self._model = None

    @property
    def is_over(self) -> bool:
        """Has the `fit` ended in which it stood in? That may not have been noticed yet."""
        frame = self._frame
        return frame is not None and frame.has_ended

    def _take_back(self, standing: "_Standing") -> None:
        """The `fit` has ended in which that stood in; another one may have begun since."""
        with self._lock:
            if standing is self._standing:
                self.take_back()


class _Standing:
    """A train function, as Keras calls it, of a `fit`; behind its end the model trains as before."""

    def __init__(self, stand_in: StandIn[Any], steps: Any, before: Any) -> None:
        self.stand_in, self.before = stand_in, before
        self._steps = steps

    def __call__(self, iterator: Any) -> Any:
        if self.stand_in.is_over:
            self.stand_in.take_back()
            return self.before(iterator)
        return self._steps(iterator)


def _make_way(model: Any) -> None:
    """Take back what stood in for a `fit` that has ended, and refuse what stands in."""
    standing = model.train_function
    if not isinstance(standing, _Standing):
        return
    if not standing.stand_in.is_over:
        raise TfwaveError(
            f"the model '{model.name}' is trained by another callback of tfwave in this fit: give it one of "
            "BurstCallback, FitMemoryCallback, PartialReduce and TickTockCallback"
        )
    standing.stand_in.take_back()
