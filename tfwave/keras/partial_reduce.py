"""RNA as a callback for `fit`: several processes train one model, and none waits for the slowest."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfwave.keras.hooks import Hooks
from tfwave.keras.reduced_ready import check_reduced
from tfwave.keras.reduced_steps import ReducedSteps
from tfwave.keras.stand_in import StandIn
from tfwave.reduce.held import Local
from tfwave.reduce.options import Probes
from tfwave.reduce.place import Place
from tfwave.runtime.control.credentials import Credentials, find_credentials


class PartialReduce(Hooks):
    """Trains a Keras 3 or tf_keras model on several processes by partial all-reduces (RNA, ch. 5 of the thesis).

    Each process runs the same program on data of its own, and calls `fit` with such a callback. A reduce goes when
    one of some members, asked at random, has a gradient; who has none yet is waited for a tenth of a step, and
    then left for the next one. Where no worker is a straggler nothing is split.

    1. All begin with the weights and optimizer variables of the first worker, and apply each reduced gradient
       once, in order. When `fit` ends in a process it waits for the others, and applies what they still give: then
       weights to train and optimizer variables are the same in all, bit for bit. Statistics of normalisation
       layers are each one's own.
    2. A reduced gradient is the sum over the workers divided by how many there are, so a learning rate means what
       it does in synchronous training. With "all" it is synchronous training, that goes on when a worker dies.
    3. `optimizer.iterations`, and a schedule of the learning rate, count reduces, not steps: so they are the same
       everywhere. A learning rate that a callback sets, as LearningRateScheduler does, changes behind other reduces
       in each process, and weights differ from then on, which a warning says; unless `probes` is "all", and the
       callback goes by what is the same in all, as the number of the epoch. Averages that the optimizer keeps
       (`use_ema`) take the place of weights behind the last sum.
    4. Losses, metrics and validation are each process's own. What looks at the weights at the end of an epoch, as a
       validation, a checkpoint or EarlyStopping, sees them before the last sums of the others. The epoch logs get
       ``tfwave_reduces``, ``tfwave_joined`` (the mean share of workers that gave something to a reduce) and
       ``tfwave_dropped`` (gradients of this worker that were staler than allowed).
    5. A worker that dies, or stands still for `deadline`, is left out, and the others go on. When it is started
       again it takes the weights of another one and joins. Without the coordinator nobody goes on: it is in the
       process of the first worker, or of `tfwave launch --reduce`.
    6. When `fit` ends, also by an exception, the model trains as before.
    """

    def __init__(  # noqa: PLR0913
        self,
        probes: Probes = 2,
        local: Local = "linear",
        staleness: int = 32,
        *,
        workers: Sequence[str] | None = None,
        rank: int | None = None,
        deadline: float = 30.0,
        patience: float = 300.0,
        credentials: Credentials | None = None,
        report_dir: str | Path | None = None,
        groups: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Say how to reduce, and with whom; on all workers the same, but for `rank`.

        Args:
            probes: how many are asked, of which the first with a gradient lets a reduce go; "all": all must
                have one.
            local: how several gradients of one worker become one: "linear", their mean with weights 1 (oldest),
                2, ... (sec. 5.1.3), or their "sum".
            staleness: a gradient is dropped if more reduces than these came after the weights it was taken at.
            workers: ``host:port`` of each; None: those of TF_CONFIG. The first one has the coordinator at its
                address, unless TF_CONFIG says ``{"tfwave": {"reduce": "host:port"}}``.
            rank: which of `workers` this process is, from 0.
            deadline: seconds without a byte or an answer after which a worker is given up.
            patience: seconds without a gradient after which a worker is given up that others wait for; also how
                long workers are waited for at the start.
            credentials: for the coordinator, if workers are on several machines; None: the token in TFWAVE_TOKEN.
            report_dir: a directory that gets, in ``worker_<rank>``, TensorBoard events of each epoch (the figures
                of its logs, and this worker's steps) and, when `fit` ends, a page as ``reduces.html``: who joined,
                who came last, and how long steps and waiting took. Workers may share it; None: none.
            groups: the ranks of the workers of each group, as [[0, 1], [2, 3]]: each reduces by itself (sec. 5.2).
                Every fourth reduce a group tells the others by how much its weights have moved, and moves by what
                they did; nobody waits for another group before the end. None: all are one.

        Raises:
            EnforcerError: a value out of range; `workers` without `rank`; or TF_CONFIG is not set, malformed, or
                of no worker.
        """
        super().__init__()
        self._place = Place.find(workers, rank).grouped(groups)
        self._options = self._place.options(
            probes=probes,
            local=local,
            staleness=staleness,
            deadline=deadline,
            patience=patience,
            credentials=credentials or find_credentials(),
        )
        self._report_dir = None if report_dir is None else Path(report_dir)
        self._stand_in = StandIn[ReducedSteps](on_end=ReducedSteps.close)

    def on_train_begin(self, logs: Any = None) -> None:
        """Join the other workers; waits for them, and for their weights.

        Raises:
            TfwaveError: the model cannot be trained so.
            EnforcerError: the coordinator is not there or refuses.
        """
        del logs
        check_reduced(self.model)
        self._stand_in.put(
            self.model, lambda: ReducedSteps(self.model, self._place, self._options, self._report_dir)
        )

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Give the weights to workers that came late."""
        del batch, logs
        if self._stand_in.steps is not None:
            self._stand_in.steps.serve()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Add the figures so far to the epoch's logs, and tell them."""
        steps = self._stand_in.steps
        if steps is not None and logs is not None:
            logs.update(steps.logs())
        if steps is not None:
            steps.tell(epoch)

    def on_train_end(self, logs: Any = None) -> None:
        """Wait for the other workers, apply what they still give, and leave the model as it was.

        Raises:
            EnforcerError: this worker is out, or the coordinator is gone.
        """
        del logs
        self._stand_in.take_back(last=ReducedSteps.drain)
