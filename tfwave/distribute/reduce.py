"""Custom training loops on several processes of which none waits for the slowest (RNA)."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypedDict, Unpack

from tfwave.distribute.reduced_optimizer import ReducedOptimizer
from tfwave.errors import EnforcerError
from tfwave.reduce.held import Local
from tfwave.reduce.options import Probes
from tfwave.reduce.place import Place
from tfwave.reduce.update import ReduceFigures
from tfwave.runtime.control.credentials import Credentials, find_credentials
from tfwave.runtime.remade import refuse_compiled, remade


class Rules(TypedDict, total=False):
    """How to reduce, and with whom: the arguments of `tfwave.keras.PartialReduce`, with its defaults."""

    probes: Probes
    local: Local
    staleness: int
    workers: Sequence[str] | None
    rank: int | None
    deadline: float
    patience: float
    credentials: Credentials | None
    report_dir: str | Path | None
    groups: Sequence[Sequence[int]] | None


class Reduced:
    """A step whose gradients are reduced between processes, while the context lasts; see `reduce`."""

    def __init__(self, step: Callable[..., Any], make: Callable[[], ReducedOptimizer]) -> None:
        """Nothing is connected before the context is entered."""
        self._step = step
        self._make = make
        self._reduced: ReducedOptimizer | None = None
        self._function: Any = None

    @property
    def figures(self) -> ReduceFigures:
        """What this process has seen so far: reduces, the mean share of workers that joined them, what was dropped.

        Raises:
            EnforcerError: outside of the context.
        """
        return self._joined().figures

    def __enter__(self) -> "Reduced":
        """Join the other workers; waits for them, and for the first one's variables.

        Raises:
            EnforcerError: the coordinator is not there or refuses, or no port is free.
        """
        self._reduced = self._make()
        try:
            self._reduced.join()
        except BaseException:
            self._close()
            raise
        self._function = remade(self._step)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make one step; what it returned.

        Raises:
            EnforcerError: this worker is out, or the coordinator is gone; the step applied no gradients, or those
                of other variables; or outside of the context.
        """
        reduced = self._joined()
        result = reduced.run(self._function, *args, **kwargs)
        reduced.serve()
        return result

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the others, and apply what they still give; after an exception leave them at once.

        Raises:
            EnforcerError: this worker is out, or the coordinator is gone.
        """
        try:
            if error is None:
                self._joined().drain()
        finally:
            self._close()

    def _joined(self) -> ReducedOptimizer:
        if self._reduced is None:
            raise EnforcerError("the other workers are joined by a context: with reduced: ... reduced(batch)")
        return self._reduced

    def _close(self) -> None:
        reduced = self._joined()
        reduced.tell(reduced.figures.reduces)
        reduced.close()
        self._reduced = self._function = None


def reduce(
    step: Callable[..., Any],
    optimizer: Any,
    variables: Sequence[Any],
    *,
    state: Iterable[Any] = (),
    **rules: Unpack[Rules],
) -> Reduced:
    """Train by a custom loop on several processes of which none waits for the slowest (RNA, ch. 5 of the thesis).

    `tfwave.keras.PartialReduce` for loops of one's own. Each process runs the same program on data of its own::

        def step(x, y):
            with tf.GradientTape() as tape:
                loss = loss_of(y, model(x, training=True))
            optimizer.apply(tape.gradient(loss, variables), variables)
            return loss

        with tfwave.distribute.reduce(step, optimizer, variables) as reduced:
            for x, y in batches:
                loss = reduced(x, y)

    Within the context the optimizer's `apply` (of tf_keras, `apply_gradients`) gives its gradients to the reduces,
    and applies each sum that has come, divided by the number of workers, once and in order. Its begin and end are
    those of a `fit`: all begin with the first worker's variables, and end with the same bits.

    Args:
        step: a Python function, or a `tf.function`; it is traced anew, with the options that it was made with.
        optimizer: of Keras 3 or tf_keras; none that scales its loss, as each process would by another factor.
        variables: those that the step applies gradients of, in that order, of one float type.
        state: further variables that are to begin with the first worker's values, such as statistics of
            normalisation layers.
        rules: how to reduce, and with whom, as `tfwave.keras.PartialReduce` takes them.

    Raises:
        EnforcerError: a value out of range; `workers` without `rank`; TF_CONFIG is not set, malformed, or of no
            worker; or XLA is to compile the step.
    """
    refuse_compiled(step, "and cannot wait for other processes")
    place = Place.find(rules.pop("workers", None), rules.pop("rank", None)).grouped(rules.pop("groups", None))
    rules["credentials"] = rules.get("credentials") or find_credentials()
    directory = rules.pop("report_dir", None)
    told = None if directory is None else Path(directory)
    options = place.options(**rules)
    return Reduced(step, lambda: ReducedOptimizer(optimizer, variables, state, place, options, told))
