"""Wavelet's tick-tock training as a callback for `fit`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfwave.capture.wave_choice import WaveChoice
from tfwave.errors import TfwaveError
from tfwave.keras.hooks import Hooks
from tfwave.keras.layer_devices import LayerDevices
from tfwave.keras.stand_in import StandIn
from tfwave.keras.wave_ready import check_waves
from tfwave.keras.wave_steps import WaveSteps
from tfwave.plan.given import GivenPlan
from tfwave.plan.plan import Plan
from tfwave.report.waves import WaveReport
from tfwave.runtime.waves.options import Number, Offset, WaveOptions
from tfwave.runtime.waves.state import WaveState


class TickTockCallback(Hooks):
    """Trains a Keras 3 model in waves: each begins its forward pass while the one before is in its backward pass.

    Compile the model with ``steps_per_execution=waves``: `fit` then makes calls of `waves` batches, one for each
    wave, in one graph (see `grappler_passes.tick_tock`).

    1. Wave 0 has the model's own variables. Each further wave has copies of all that a step changes, weights,
       slots, counters and moving statistics, which begin as wave 0's are at its first call. They share the
       learning rate.
    2. ``average="wave"`` is the paper's Eq. 1, a mean with the gradient of the wave before. The waves' weights
       differ then, and those of the model, which are validated and saved, are wave 0's. ``average="batch"`` is data
       parallel training: a call is one update by the mean gradient of its batches, and all weights stay equal.
       Rows of an embedding are averaged as the large batch has them.
    3. An optimizer counts the updates of its wave: a schedule of the learning rate advances once a call. With
       ``gradient_accumulation_steps=k`` each wave adds up what it averaged in k calls, and then updates: with
       ``"batch"`` that is one update by k times `waves` batches. Rows of an embedding cannot be added up so: the
       call is refused.
    4. Metrics and losses are over the batches of all waves, in their order; the random numbers of layers go on from
       batch to batch, as in plain steps.
    5. Where `waves` does not divide the number of batches, the rest of an epoch is plain steps of wave 0, with a
       warning. After them Eq. 1 begins anew, or (``"batch"``) the further waves take wave 0's variables over.
    6. When `fit` ends, also by an exception, the model's train function is as it was before. The further waves stay
       in this object: another `fit` with it goes on where the last one ended. Use a new one after the model's
       weights were loaded from elsewhere.
    7. ``offset="auto"`` needs a pool with a limit (`tfwave.colocate.limit_memory`), and a step that changes nothing
       but variables. The first call runs four steps more, on copies of the variables: what is trained is the same
       as with that offset as a number, bit for bit. It is chosen once, by the first batch and by what is in the
       pool then. Where two waves fit at no offset, `fit` raises a `PlanError`.
    8. ``waves="auto"`` chooses the number, too, by the same steps and by how busy they kept the cores: two waves if
       they gain over one larger batch in that pool and fit with this batch, else one, which is plain training, with
       a warning that says why (`plan.waves.verdict`). Compile with ``steps_per_execution=2``. See
       `tfwave.waves.verdict.judge_waves`.
    9. A model made in the scope of a `MirroredStrategy` trains on all its replicas: gradients are reduced over them
       in each wave, then averaged over waves. Nothing is "auto" there. Strategies of several machines are refused.
    10. With `devices` the model lies on several: each of them works on another wave's batch at a time, by the cycle
       table of `grappler_passes.tick_tock_partitions`, and a call is one update by the mean gradient. All weights
       must be of a layer that has a device, or is in one that has; a model that is not built is built there. What
       has no device runs where its data are, and the backward pass where the forward pass ran. The variables of
       further waves lie on other devices than those of wave 0, which stay where they are when `fit` ends.
    """

    def __init__(  # noqa: PLR0913
        self,
        waves: Number | None = None,
        average: str = "wave",
        offset: Offset | None = None,
        *,
        plan: GivenPlan | None = None,
        devices: Mapping[str, str] | None = None,
        report_dir: str | Path | None = None,
    ) -> None:
        """Say how many waves, and what they average.

        Args:
            waves: batches of a call, 1 to 64; 2 if nothing says otherwise. ``"auto"``: two or one; see point 8.
            average: ``"wave"`` or ``"batch"``.
            offset: the share of a wave's backward pass, 0 to 1, after which the next begins; 0, the default, is the
                paper's. ``"auto"`` is the least with which two waves fit into the CPU's pool; see point 7.
            plan: says waves and offset in their place, or the name of its file; that of `plan` of another run.
                Where the model's step is not the one that was planned, `fit` raises a `PlanError`.
            devices: of layers, by their names, where the model is to lie on several (``{"front": "CPU:0", ...}``);
                with ``average="batch"``, and at most as many waves as devices, which are the default. See point 10.
            report_dir: a directory that gets, at the first call, a page of the waves as ``waves.html``, what is
                planned or "auto" as ``waves.plan.json``, and for TensorBoard the same as text and, where a step was
                measured, what it holds alone, and where the second wave begins, as a picture (with
                ``tfwave[plot]``); None: none.

        Raises:
            TfwaveError: `devices` are less than two, or not there, or beside an offset, a plan or "auto".
            PassError: a value out of range, beside a plan, or "auto" for other than two waves, or an offset in
                numbers beside waves of "auto".
            PlanError: no such plan, or one without waves.
            EnforcerError: something is "auto", and the CPU's pool has no limit.
        """
        super().__init__()
        self._devices = None if devices is None else LayerDevices(devices)
        if self._devices is None:
            self._options = WaveOptions.given(waves, average, offset, plan)
        else:
            self._options = self._devices.options(waves, average, offset, plan)
        self._report = WaveReport(report_dir)
        self._choice = WaveChoice(self._options, self._report.chosen)
        self._state = WaveState()
        self._trained: Any = None
        self._stand_in = StandIn[WaveSteps]()

    @property
    def state(self) -> Any:
        """The variables of the further waves and the gradients kept from call to call, for a checkpoint.

        ``tf.train.Checkpoint(model=model, waves=callback.state)`` saves and restores the training of all waves. It
        has the states of the layers' random seeds, too, which Keras leaves out of such checkpoints.
        """
        return self._state.trackable

    @property
    def offset(self) -> float | None:
        """As given, or as chosen at the first call; None before."""
        return self._choice.offset

    @property
    def plan(self) -> Plan | None:
        """The waves as a plan, for another run, given or chosen; None before, and if a number says the offset."""
        return self._choice.plan

    def on_train_begin(self, logs: Any = None) -> None:
        """Put the waves in the place of the model's train function.

        Raises:
            TfwaveError: the model cannot train in waves, or another one was trained with this callback.
        """
        del logs
        check_waves(self.model, self._options)
        if self._devices is not None:
            self._devices.check_names(self.model)
        if self._trained is not None and self._trained is not self.model:
            raise TfwaveError(
                "this TickTockCallback holds the waves of another model: make one for each model"
            )
        self._trained = self.model
        self._stand_in.put(
            self.model,
            lambda: WaveSteps(
                self.model, self._options, self._choice, self._state, self._report, self._devices
            ),
        )

    def on_train_end(self, logs: Any = None) -> None:
        """Leave the model as it was."""
        del logs
        self._stand_in.take_back()
