"""What a `MirroredStrategy` is given: its waves."""

from pathlib import Path
from typing import Any, Literal, TypeVar

from tfwave.capture.wave_choice import check_pool
from tfwave.distribute.settings import WaveSettings
from tfwave.errors import EnforcerError
from tfwave.plan.given import GivenPlan
from tfwave.runtime.waves.options import Number, Offset, WaveOptions

Average = Literal["wave", "batch"]

_ATTRIBUTE = "_tfwave_waves"
_Strategy = TypeVar("_Strategy")


def waves(  # noqa: PLR0913
    strategy: _Strategy,
    waves: Number | None = None,
    *,
    average: Average = "wave",
    offset: Offset | None = None,
    plan: GivenPlan | None = None,
    report_dir: str | Path | None = None,
) -> _Strategy:
    """Have a `MirroredStrategy` train in waves: several batches in one call, each in the backward pass of the last.

    The same strategy is returned; `tfwave.distribute.in_waves` takes the training step.

    Args:
        strategy: a `tf.distribute.MirroredStrategy`.
        waves: how many batches a call trains, 2 to 64; 2 if nothing says otherwise. "auto" chooses the offset, too:
            two waves if, by the first call's step, they gain over one larger batch in the CPU's pool and fit with
            this batch; else one, which is plain training, with a warning that says why.
        average: of gradients, "wave" (Wavelet's Eq. 1) or "batch" (as one large batch); see `in_waves`.
        offset: the share of a wave's backward pass, 0 to 1, after which the next wave begins, 0 if nothing says
            otherwise; "auto" is the least with which two waves of one replica fit into the CPU's pool
            (`tfwave.colocate.limit_memory`).
        plan: says waves and offset in their place, or the name of its file; that of `InWaves.plan` of another run.
            The first call raises a `PlanError` where the step is not the one that was planned.
        report_dir: a directory that gets, at the first call of all waves, a page of them as ``waves.html``, what is
            planned or "auto" as ``waves.plan.json``, and for TensorBoard the same as text and, where a step was
            measured, what it holds as a picture (with ``tfwave[plot]``); None: none.

    Raises:
        EnforcerError: no such strategy, or one of several machines, a second time, or one wave that no plan says;
            or "auto" without a limited pool, or for several replicas.
        PassError: waves, average or offset out of range or beside a plan, an offset of "auto" for other than two
            waves, or one in numbers beside waves of "auto".
        PlanError: no such plan, or one without waves.
    """
    options = WaveOptions.given(waves, average, offset, plan)
    _check(strategy, options)
    setattr(strategy, _ATTRIBUTE, WaveSettings(options, report_dir))
    return strategy


def waves_of(strategy: Any) -> WaveSettings:
    """How a strategy trains in waves.

    Raises:
        EnforcerError: it does not.
    """
    settings: WaveSettings | None = getattr(strategy, _ATTRIBUTE, None)
    if settings is None:
        raise EnforcerError(
            f"this {type(strategy).__name__} has no waves: "
            "tfwave.distribute.waves(tf.distribute.MirroredStrategy(...)) gives it some"
        )
    return settings


def check_machines(strategy: Any) -> None:
    """Refuse a strategy of several machines.

    Raises:
        EnforcerError: it is one; says why it has no waves.
    """
    if any(kind.__name__ == "CollectiveAllReduceStrategy" for kind in type(strategy).__mro__):
        raise EnforcerError(
            "a MultiWorkerMirroredStrategy trains on several machines, and its reductions meet only while all make "
            "the same calls: nothing tells one how many batches the others have for their waves, and all would "
            "wait for ever for the one that runs fewer: take a tf.distribute.MirroredStrategy on one machine"
        )


def is_mirrored(strategy: Any) -> bool:
    """Is it a `tf.distribute.MirroredStrategy`?"""
    return any(kind.__name__ == "MirroredStrategy" for kind in type(strategy).__mro__)


def _check(strategy: Any, options: WaveOptions) -> None:
    check_machines(strategy)
    if not is_mirrored(strategy):
        raise EnforcerError(
            f"a {type(strategy).__name__} cannot train in waves: give a tf.distribute.MirroredStrategy"
        )
    if hasattr(strategy, _ATTRIBUTE):
        raise EnforcerError("this strategy has its waves already: give them once")
    if options.waves == 1 and options.planned is None:
        raise EnforcerError("one wave is plain training: give waves=2")
    check_pool(options)
    if options.is_auto and strategy.num_replicas_in_sync > 1:
        raise EnforcerError(
            f"offset='auto' is known for one replica, not for {strategy.num_replicas_in_sync}: give the offset as "
            "a number"
        )
