"""The chief of a job with a dynamic table on a server, as a task of `drift.py`.

Asked {"do": "start", "cluster": {job: [address]}, "rows": int, "width": int, "batch": int, "steps": int}, it makes
the job. Then, as often as asked: {"do": "train", "seconds": float} trains so long, and answers how many batches it
drew so far, how many different ids came at least, and how many rows were freed.
"""

import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from tools.bench.obeying import obey, strategy_of

MODULE = "tools.bench.embeddings.drift_chief"
_CALLS = 8
"""Between two evictions."""
_SHIFT = 101
"""By so many places the order of ids goes on with each batch."""
_ZIPF = 1.05
_RANKS = 1_000_000
_RATE = 0.05


class Chief:
    """The job, and where its ids are."""

    def __init__(self, request: dict[str, Any]) -> None:
        import tensorflow as tf

        from tfwave.embedding import Adagrad, Dynamic, Score, Table, staged

        strategy: Any = strategy_of(request["cluster"])
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        self._rows, self._batch = request["rows"], request["batch"]
        with strategy.scope():
            rows = tf.Variable(tf.random.stateless_uniform([self._rows, request["width"]], (1, 2)))
            dynamic = Dynamic(Score(), tf.random_uniform_initializer(seed=1))
            self._table = Table(rows, Adagrad(_RATE), dynamic=dynamic)

        def step(embedded: Any, weight: Any) -> Any:
            loss = tf.reduce_sum(tf.square(embedded["ids"])) * weight
            return loss, {"ids": 2 * weight * embedded["ids"]}

        self._drawn = self._freed = 0
        self._calls = staged(step, {"ids": self._table}, steps=request["steps"]).calls(self._data())

    def train(self, seconds: float) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for call in islice(self._calls, _CALLS):
                self._coordinator.schedule(call.function, args=call.args)
            self._coordinator.join()
            self._freed += self._table.evict(keep=self._rows // 2)
        return {"steps": self._drawn, "ids_at_least": self._drawn * _SHIFT, "freed": self._freed}

    def _data(self) -> Any:
        """A dataset without an end."""
        import tensorflow as tf

        spec = ({"ids": tf.TensorSpec([self._batch], tf.int64)}, tf.TensorSpec([], tf.float32))
        return tf.data.Dataset.from_generator(self._batches, output_signature=spec)

    def _batches(self) -> Iterator[Any]:
        shares = np.cumsum(1 / np.arange(1, _RANKS + 1) ** _ZIPF)
        while True:
            random = np.random.default_rng(self._drawn)
            ranks = np.searchsorted(shares / shares[-1], random.random(self._batch))
            yield {"ids": ranks + self._drawn * _SHIFT}, np.float32(1e-3)
            self._drawn += 1


def main() -> None:
    """Obey until standard input is closed."""
    obey(Chief)


if __name__ == "__main__":
    main()
