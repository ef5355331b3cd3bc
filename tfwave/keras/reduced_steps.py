"""A Keras model's steps whose gradients are reduced between processes."""

from pathlib import Path
from typing import Any

from tfwave.distribute.reduced_optimizer import ReducedOptimizer
from tfwave.reduce.options import Options
from tfwave.reduce.place import Place


class ReducedSteps:
    """In the place of a model's train function."""

    def __init__(self, model: Any, place: Place, options: Options, report_dir: Path | None) -> None:
        """Join the other workers; waits for them, and for the first one's variables.

        Raises:
            EnforcerError: the coordinator is not there or refuses, or no port is free.
        """
        self._in_groups = bool(place.groups)
        self._reduced = ReducedOptimizer(
            model.optimizer, model.trainable_variables, model.weights, place, options, report_dir
        )
        try:
            self._reduced.join()
        except BaseException:
            self.close()
            raise
        model.make_train_function(force=True)
        self._function = model.train_function

    def __call__(self, iterator: Any) -> Any:
        """Train on what an execution takes.

        Raises:
            EnforcerError: this worker is out, or the coordinator is gone.
        """
        return self._reduced.run(self._function, iterator)

    def serve(self) -> None:
        """Give the variables to workers that came late."""
        self._reduced.serve()

    def logs(self) -> dict[str, float]:
        """The figures so far, at the end of an epoch: where callbacks change the learning rate."""
        self._reduced.check_rate()
        figures = self._reduced.figures
        met = {"tfwave_met": figures.met} if self._in_groups else {}
        return {
            "tfwave_reduces": figures.reduces,
            "tfwave_joined": figures.joined,
            "tfwave_dropped": figures.dropped,
            **met,
        }

    def tell(self, epoch: int) -> None:
        """Tell the figures so far, if anybody is to know."""
        self._reduced.tell(epoch)

    def drain(self) -> None:
        """Apply what still comes, until no worker has anything.

        Raises:
            EnforcerError: this worker is out, or the coordinator is gone.
        """
        self._reduced.drain()

    def close(self) -> None:
        """Leave the others, and the optimizer as it was."""
        self._reduced.close()
