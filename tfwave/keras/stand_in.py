"""What trains in the place of a model's train function, for one `fit`."""

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

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
        self._before: Any = None
        self._frame: FitFrame | None = None
        self._lock = threading.RLock()  # the end of a fit may be noticed by another thread

    def put(self, model: Any, make: Callable[[], Steps]) -> None:
        """Put what is made in the place of the train function, in the nearest `fit` that calls."""
        with self._lock:
            self.take_back()
            self._model, self._before = model, model.train_function
            self.steps = make()
            model.train_function = self.steps
            self._frame = FitFrame.of_caller(on_end=self.take_back)

    def take_back(self) -> None:
        """Leave the model as it was, unless its train function has become another one since."""
        with self._lock:
            if self._frame is not None:
                self._frame.release()
            if self.steps is not None:
                if self._on_end is not None:
                    self._on_end(self.steps)
                if self._model.train_function is self.steps:
                    self._model.train_function = self._before
            self._frame = self.steps = self._before = self._model = None
