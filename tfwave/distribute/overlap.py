"""Training steps that overlap: several in one function, each variable's read waiting for its own update only."""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from tfwave.distribute.mirrored import is_mirrored
from tfwave.distribute.ordering import schedule_of
from tfwave.errors import EnforcerError
from tfwave.runtime.remade import refuse_compiled
from tfwave.runtime.unroll import unrolled

_Advice = Callable[[Any], int | None]

_log = logging.getLogger("tfwave")


class Unrolled(NamedTuple):
    """A `tf.function`, and how many steps a call of it makes."""

    function: Any
    steps: int


class StepChoice:
    """How many steps a call makes: as many as said; or one, until there is advice on a graph that was traced."""

    def __init__(self, name: str, steps: int | None, advice: _Advice) -> None:
        """Of what the log calls `name`; `steps` is None to go by advice, which knows traced graphs."""
        self._name = name
        self._steps = steps
        self._advice = advice
        self._traced: WeakKeyDictionary[Any, None] = WeakKeyDictionary()  # in the order of the traces

    @property
    def steps(self) -> int:
        """As they were last renewed."""
        return self._steps or 1

    def note(self, graph: Any) -> None:
        """A step was traced into a `tf.Graph`."""
        self._traced[graph] = None

    def renew(self) -> int:
        """Take advice, where there is some, for good: of the graph that was traced first; the steps."""
        if self._steps is None:
            advised = (self._advice(graph) for graph in list(self._traced))
            self._steps = next((steps for steps in advised if steps is not None), None)
            if self._steps is not None:
                _log.info("tfwave: %s: %d steps a call from now on", self._name, self._steps)
        return self.steps


class Overlap:
    """The functions of a step, one for each number of calls; see `overlap`."""

    def __init__(self, step: Callable[..., Any], choice: StepChoice) -> None:
        """Of as many steps as are chosen."""
        self._step = step
        self._choice = choice
        self._functions: dict[int, Any] = {}

    @property
    def steps(self) -> int:
        """Of one call, as it was last taken."""
        return self._choice.steps

    @property
    def function(self) -> Any:
        """The `tf.function` of so many steps."""
        return self._of(self.steps)

    def take(self, at_most: int | None = None) -> Unrolled:
        """What to schedule next, with no more steps than `at_most`.

        Raises:
            EnforcerError: there is no step to take.
        """
        if at_most is not None and at_most < 1:
            raise EnforcerError(f"cannot take {at_most} steps: give at least 1")
        chosen = self._choice.renew()
        steps = chosen if at_most is None else min(chosen, at_most)
        return Unrolled(self._of(steps), steps)

    def _of(self, steps: int) -> Any:
        if steps not in self._functions:
            self._functions[steps] = unrolled(self._step, steps, self._choice.note)
        return self._functions[steps]


def overlap(step: Callable[..., Any], steps: int | None = None, *, strategy: Any = None) -> Overlap:
    """Let training steps of a custom loop overlap: several calls of `step` in one `tf.function`.

    In it the read of a variable waits for the update of that variable by the step before, and for nothing else, so
    parameters are pulled while gradients are still pushed. The arithmetic is that of one step after the other::

        train = tfwave.distribute.overlap(step, strategy=strategy)
        done = 0
        while done < total:
            function, count = train.take(total - done)
            losses = coordinator.schedule(function, args=(iterator,))
            done += count

    What the step returns comes stacked along a new first axis of length `count`: ragged and sparse tensors as such;
    others must have one shape in all steps. Each call of the step gets the same arguments: give it an iterator,
    from which it draws with ``next``. All that a step does in TensorFlow must be in it: what it calls through
    another `tf.function` is waited for as a whole.

    Let the iterator have a batch for each step that is taken, as of a dataset that repeats: where it ends within a
    call, what the steps of that call before the end have trained is lost, or a part of it.

    With several workers the calls of each overlap among themselves, and with those of other workers as
    asynchronous training always does.

    Args:
        step: a Python function, or a `tf.function`, whose Python function and options are taken.
        steps: how many in one call; None leaves it to the planner of `strategy`: one, until the schedule has
            measured it, then what `choose_steps` makes of that; the function is traced anew for it.
        strategy: what `tfwave.distribute.wrap` returned; needed where `steps` is None.

    Raises:
        EnforcerError: no step, neither steps nor a wrapped strategy, a strategy without parameter servers, or a
            step that XLA is to compile.
    """
    refuse_compiled(step, "and would run all steps of a call as it likes")
    if steps is None and strategy is None:
        raise EnforcerError("how many steps? Give steps, or the wrapped strategy whose planner chooses")
    if steps is not None and steps < 1:
        raise EnforcerError(f"cannot overlap {steps} steps: give at least 1")
    if is_mirrored(strategy):
        raise EnforcerError(
            f"the steps of a {type(strategy).__name__} do not overlap (steps={steps}): "
            "train in waves, with tfwave.distribute.in_waves"
        )
    return Overlap(step, step_choice(getattr(step, "__name__", "a step"), steps, strategy))


def step_choice(name: str, steps: int | None, strategy: Any) -> StepChoice:
    """So many steps; None: those that the planner of a wrapped strategy advises.

    Raises:
        EnforcerError: the strategy is to advise, and is not wrapped.
    """
    advice = schedule_of(strategy).advised_steps if steps is None else _no_advice
    return StepChoice(name, steps, advice)


def _no_advice(graph: Any) -> None:
    del graph
