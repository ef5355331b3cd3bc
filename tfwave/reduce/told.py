"""What a training with reduces leaves in a directory."""

import statistics
from pathlib import Path

from tfwave.reduce.options import Options
from tfwave.reduce.page import reduce_facts
from tfwave.reduce.record import ReduceRecord
from tfwave.reduce.update import ReduceFigures
from tfwave.report.page.left import leave_facts
from tfwave.runtime.events import Events

_PAGE = "reduces"


class ReduceReport:
    """TensorBoard events as the training goes on, and a page at its end, in ``worker_<rank>`` of a directory.

    Workers may share the directory. Where no reduce counted there is nothing to tell.
    """

    def __init__(self, directory: Path, options: Options) -> None:
        """Of the worker that `options` says; nothing is written yet."""
        self.record = ReduceRecord(options.local)
        self._options = options
        self._directory = directory / f"worker_{options.rank}"
        self._events = Events(self._directory)
        self._told = 0

    def tell(self, figures: ReduceFigures, step: int) -> None:
        """Write the figures so far as scalars, and this worker's steps since the last time as a histogram."""
        own = [worker for worker in self.record.seen().workers if worker.rank == self._options.rank]
        for worker in own:
            steps = list(worker.steps)[max(0, len(worker.steps) - (worker.made - self._told)) :]
            self._told = worker.made
            for name in ("reduces", "joined", "dropped"):
                self._events.scalar(f"tfwave/{name}", getattr(figures, name), step)
            self._events.scalar("tfwave/waited_seconds", worker.mean_wait, step)
            if steps:
                self._events.scalar("tfwave/step_seconds", statistics.median(steps), step)
                self._events.histogram("tfwave/seconds", steps, step)
            self._events.flush()

    def leave(self, figures: ReduceFigures) -> None:
        """Write the page, and end the events."""
        self._events.close()
        if figures.reduces:
            leave_facts(
                self._directory, _PAGE, lambda: reduce_facts(self._options, figures, self.record.seen())
            )
