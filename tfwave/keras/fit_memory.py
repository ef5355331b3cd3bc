"""Training in a limited memory as a callback for `fit`."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tfwave.errors import TfwaveError
from tfwave.fitting.function import FittedFunction, fit_memory
from tfwave.keras.batches import batch_spec, plain_batch
from tfwave.keras.hooks import Hooks
from tfwave.keras.ready import check_one_step
from tfwave.keras.stand_in import StandIn
from tfwave.plan.plan import Plan
from tfwave.runtime.live.retrace import is_function
from tfwave.runtime.stash import StashFigures, stash_figures
from tfwave.runtime.waves.targets import targets_noted


class FitMemoryCallback(Hooks):
    """Trains a Keras 3 model in a memory that its step would not keep to: see `tfwave.fit_memory`.

    The pool is that of `tfwave.colocate.limit_memory` or `planned_pool`, which comes before TensorFlow. At the
    first batch of each shape three steps run on the model's variables, metrics and seeds, which are then given
    their values back. What is trained is what `fit` trains by itself, bit for bit. When `fit` ends, also by an
    exception, the model's train function is as it was before.

    Where a dataset does not say how many batches it has, as one of a generator, Keras's own `fit` counts a step
    more at the end of each epoch (Keras 3.15), by which Adam and schedules go. This counts those that there were.
    """

    def __init__(
        self,
        limit: str | int | None = None,
        *,
        sample_rows: int | None = None,
        report_dir: str | Path | None = None,
    ) -> None:
        """Say what all may hold in the pool, and how much of a batch is traced.

        Args:
            limit: bytes, or with a unit, such as ``"512MiB"``; that of the pool, if nothing says otherwise.
            sample_rows: how many rows of a batch are traced; all, if nothing says otherwise. These must fit as they
                are; half as many are traced, too, which tells what grows with the rows (see `tfwave.fit_memory`).
            report_dir: where to write TensorBoard events (what went to the host and back in each epoch as scalars)
                besides what `tfwave.fit_memory` writes there; None: nowhere.
        """
        super().__init__()
        self._step_options = {"limit": limit, "sample_rows": sample_rows, "report_dir": report_dir}
        self._stand_in = StandIn[_FittedSteps](on_end=self._end)
        self._plans: Mapping[tuple[str, ...], Plan] = {}

    @property
    def plans(self) -> Mapping[tuple[str, ...], Plan]:
        """How the step fits, by shape and type of its batch: of the `fit` that runs, or of the last one."""
        steps = self._stand_in.steps
        return self._plans if steps is None else steps.plans

    @property
    def figures(self) -> StashFigures:
        """What this process has moved to the host and back, and holds there now."""
        return stash_figures()

    def on_train_begin(self, logs: Any = None) -> None:
        """Put the fitted step in the place of the model's train function.

        Raises:
            TfwaveError: the model's step is none of one graph on one device.
            EnforcerError: the pool has no limit, or a number is out of range.
        """
        del logs
        check_one_step(self.model)
        _check_loss_is_seen(self.model)
        self._stand_in.put(self.model, lambda: _FittedSteps(self.model, self._step_options))

    def on_test_begin(self, logs: Any = None) -> None:
        """Leave all room that a planned pool has to what is not trained."""
        del logs
        steps = self._stand_in.steps
        if steps is not None:
            steps.release()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Tell what the epoch has moved."""
        del logs
        steps = self._stand_in.steps
        if steps is not None:
            steps.tell(epoch)

    def on_train_end(self, logs: Any = None) -> None:
        """Leave the model as it was."""
        del logs
        self._stand_in.take_back()

    def _end(self, steps: "_FittedSteps") -> None:
        self._plans = steps.plans
        steps.close()


class _FittedSteps:
    """Takes the place of `model.train_function`: an iterator of batches goes in, logs come out."""

    def __init__(self, model: Any, options: Mapping[str, Any]) -> None:
        tensorflow: Any = __import__("tensorflow")
        self._step = tensorflow.function(partial(_with_losses, model), autograph=False)
        self._fitted: FittedFunction = fit_memory(self._step, **options)
        self._is_traced = False
        self._moved = stash_figures()

    @property
    def plans(self) -> Mapping[tuple[str, ...], Plan]:
        return self._fitted.plans

    def tell(self, epoch: int) -> None:
        events, before, now = self._fitted.events, self._moved, stash_figures()
        self._moved = now
        if events is None:
            return
        for way, old, new in (("out", before.out, now.out), ("back", before.back, now.back)):
            events.scalar(f"tfwave/stash_{way}_bytes", new.bytes - old.bytes, epoch)
            events.scalar(
                f"tfwave/stash_{way}_waited_seconds", new.waited_seconds - old.waited_seconds, epoch
            )
        events.scalar("tfwave/stash_high_water_bytes", now.high_water_bytes, epoch)
        events.flush()

    def release(self) -> None:
        self._fitted.release()

    def close(self) -> None:
        self.release()
        if self._fitted.events is not None:
            self._fitted.events.close()

    def __call__(self, iterator: Iterator[Any]) -> Any:
        """Train on a batch.

        Raises:
            StopIteration: there is none.
            TfwaveError: the step cannot be traced, or does not fit.
        """
        batch = plain_batch(next(iterator))
        if not self._is_traced:
            self._trace(batch_spec(iterator, batch))
        logs, _ = self._fitted(batch)
        return logs

    def _trace(self, spec: Any) -> None:
        """As Keras does: where its data do not tell the number of samples, a known one would round means otherwise.

        TensorFlow takes this trace for all batches that it is general enough for.
        """
        self._step.get_concrete_function(spec)
        self._is_traced = True


def _check_loss_is_seen(model: Any) -> None:
    if is_function(model.train_step):
        raise TfwaveError(
            f"the train_step of '{model.name}' is a tf.function, in which its loss is not seen: leave @tf.function "
            "off, as fit makes a graph of it"
        )


def _with_losses(model: Any, batch: Any) -> tuple[Any, list[Any]]:
    """The model's step, and what it takes gradients of: what Keras logs is a mean, which does not tell its turn.

    What is in another graph, such as that of a `tf.function` which the step calls, cannot be returned.
    """
    tensorflow: Any = __import__("tensorflow")
    graph = tensorflow.compat.v1.get_default_graph()
    with targets_noted() as targets:
        logs = model.train_step(batch)
    return logs, [target for target in targets if getattr(target, "graph", None) is graph]
