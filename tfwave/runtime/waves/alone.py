"""A step that is tried out, and leaves nothing behind."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tfwave.errors import PlanError
from tfwave.runtime.waves.function import function_of
from tfwave.runtime.waves.rewritten import RewrittenStep
from tfwave.runtime.waves.state import WaveState


class StepAlone:
    """Runs a traced step on copies of all variables that it changes, which are gone with this object.

    Its graph has the names that `grappler_passes.tick_tock` sees, and is an instance of its own: random ops that
    keep their state to themselves go on elsewhere as if it had not run. What is no variable is not copied.
    """

    def __init__(self, rewritten: RewrittenStep) -> None:
        """Copy the variables; `rewritten` is the step in one wave.

        Raises:
            EnforcerError: the step changes what is no variable.
        """
        self._step = rewritten.step
        self._copies = WaveState()
        self._function = function_of(rewritten, rewritten.apart(self._copies))

    @property
    def copied_bytes(self) -> int:
        """What the variables hold that it has for itself, once it has run: before, they share their values."""
        return sum(self._copies.copies)

    def __call__(self, args: Any, carried: Sequence[Any] = ()) -> None:
        """Run it, as `TracedStep`; what it gives is dropped.

        Raises:
            PlanError: the pool has no room for it.
        """
        tensorflow: Any = import_module("tensorflow")
        try:
            self._function(*carried, *self._step.leaves(args))
        except tensorflow.errors.ResourceExhaustedError as err:
            raise PlanError(
                "not even one step fits into the pool beside the variables of two waves: take a smaller batch, or "
                "raise the limit"
            ) from err
