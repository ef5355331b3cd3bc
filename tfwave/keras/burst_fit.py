"""A burst plan as a callback for `fit`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tfwave.errors import PlanError, TfwaveError
from tfwave.keras.batches import batch_spec, plain_batch
from tfwave.keras.bursts.planned import PlannedDevices
from tfwave.keras.bursts.walk import running
from tfwave.keras.hooks import Hooks
from tfwave.keras.ready import check_one_step, make_variables
from tfwave.keras.stand_in import StandIn
from tfwave.plan.given import GivenPlan
from tfwave.plan.plan import Plan
from tfwave.report.page.left import leave_page
from tfwave.report.told import tell_plan
from tfwave.runtime.events import Events

_NAME = "burst"


class BurstCallback(Hooks):
    """Trains a Keras 3 model by a burst plan: each layer on its own number of devices (DeepPool section 4).

    1. A layer's samples are split over the devices that ``tfwave burst plan`` gives it; its forward and its
       backward pass run there, and what the next layer reads moves where that has another number of devices.
       Branches run beside each other where the plan gives them devices of their own.
    2. What is trained is what one device trains, up to the rounding of sums over samples: about 1e-6 of a tensor's
       largest gradient in single precision. With one device for all layers it is the same, bit for bit; but for
       smaller batches at the end of the data, which Keras traces without their size, and rounds otherwise.
    3. A batch normalisation takes the moments of the whole batch, and moves its averages once. `Dropout`, its
       spatial kinds and `GaussianDropout` draw for the whole batch, on each of their devices: the numbers of one.
    4. Weights and metrics stay where they were made, and weights that `fit` makes lie on the first device; slots
       lie with their weights. Each device reads a weight once, and gradients are summed where the weight lies.
    5. The model's outputs are put together on the first device. Losses, sample weights and metrics see the whole
       batch there, as Keras has it: any loss will do. Masks are split with their tensors.
    6. The first batch is of the size that the plan is for. A smaller one, as the last of an epoch, is split, too.
    7. Validation, `evaluate` and `predict` are as they are without. When `fit` ends, also by an exception, the
       model's train function is as it was before.
    8. Refused by name, where the plan gives them several devices: stateful layers, layers that change variables
       otherwise than 3 says (as those do that draw random numbers), outputs whose first axis is not the batch, and
       losses that a layer adds, but for Keras's L1 and L2 of activities. What a layer of your own mixes between
       samples cannot be seen: give such a one device.
    """

    def __init__(
        self,
        plan: GivenPlan,
        *,
        devices: Sequence[str] | None = None,
        report_dir: str | Path | None = None,
    ) -> None:
        """Say which plan, and what its devices are.

        Args:
            plan: with layers (``tfwave burst plan``), or the name of its file.
            devices: by the numbers of the plan, as `tf.config.list_logical_devices` names them, of this process or
                of a cluster that it is connected to; those of this process, if nothing says otherwise: its GPUs,
                or CPUs.
            report_dir: a directory that gets the plan as ``burst.plan.json`` when `fit` begins, a page of it as
                ``burst.html`` (see `tfwave report`), and for TensorBoard what it says as text; None: none.

        Raises:
            PlanError: no such plan, or it has no layers, or is for another number of devices.
            TfwaveError: a device is not there.
        """
        super().__init__()
        self._planned = PlannedDevices(plan, devices)
        self._stand_in = StandIn[_BurstSteps]()
        self._report_dir = None if report_dir is None else Path(report_dir)

    def on_train_begin(self, logs: Any = None) -> None:
        """Put the planned step in the place of the model's train function.

        Raises:
            TfwaveError: the model's step is none of one graph on one device.
        """
        del logs
        check_one_step(self.model)
        self._stand_in.put(self.model, lambda: _BurstSteps(self.model, self._planned))
        if self._report_dir is not None:
            _leave(self._report_dir, self._planned.plan)

    def on_train_end(self, logs: Any = None) -> None:
        """Leave the model as it was."""
        del logs
        self._stand_in.take_back()


def _leave(directory: Path, plan: Plan) -> None:
    leave_page(directory, _NAME, plan)
    events = Events(directory)
    tell_plan(events, _NAME, plan, {})
    events.close()


class _BurstSteps:
    """Takes the place of `model.train_function`: an iterator of batches goes in, logs come out."""

    def __init__(self, model: Any, planned: PlannedDevices) -> None:
        tensorflow: Any = __import__("tensorflow")
        self._model, self._planned = model, planned
        self._function = tensorflow.function(self._step, autograph=False)
        self._is_built = False

    def __call__(self, iterator: Iterator[Any]) -> Any:
        """Train on a batch.

        Raises:
            StopIteration: there is none.
            PlanError: the plan was made for another model, or another batch.
            TfwaveError: a layer cannot be split as planned.
        """
        batch = plain_batch(next(iterator))
        if not self._is_built:
            self._build(batch_spec(iterator, batch), batch)
            self._is_built = True
        return self._function(batch)

    def _build(self, spec: Any, batch: Any) -> None:
        tensorflow: Any = __import__("tensorflow")
        samples = tensorflow.nest.flatten(batch)[0].shape[0]
        if samples != self._planned.batch:
            raise PlanError(
                f"the plan is for a batch of {self._planned.batch}, and the first has {samples} samples: fit with "
                f"batch_size={self._planned.batch}, or make one with `tfwave burst plan --batch {samples}`"
            )
        with tensorflow.device(self._planned.devices[0]):
            make_variables(self._model, spec)

    def _step(self, batch: Any) -> Any:
        tensorflow: Any = __import__("tensorflow")
        with tensorflow.device(self._planned.devices[0]), running(self._model, self._planned) as walk:
            logs = self._model.train_step(batch)
        if not walk.has_begun:
            raise TfwaveError(
                f"the train_step of '{self._model.name}' does not call the model, so nothing ran by the plan: let "
                "it call self(x, training=True)"
            )
        return logs
