"""The chief of five like jobs with tables on parameter servers, as a task of `embedding.py`.

Asked {"do": "start", "cluster": {job: [address]}, "model": a name of `recommenders.MODELS`, "most_rows": int,
"width": int, "batch": int, "steps": int}, it makes the jobs. Then, as often as asked:
{"do": "capture", "path": a file, "batches": n} writes there what `tfwave.embedding.capture` sees of a like job
whose tables are in this process;
{"do": "run", "mode": one of MODES, "batches": n} trains one on the next n batches, prepares as many behind
those that are, and answers {"seconds": [of a step]};
{"do": "compare"} answers which losses are equal, as far as all have come, and the bytes of the rows that a batch
needs.
"""

import time
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

from tools.bench.embeddings.recommenders import MODELS as RECOMMENDERS
from tools.bench.obeying import obey, strategy_of

MODULE = "tools.bench.embeddings.embedding_chief"
STAGED = ("staged", "hot", "stale")
MODES = ("stock", "unique", *STAGED)
CARDINALITIES = (1460, 583, 10**7, 2 * 10**6, 305, 24, 12517, 633, 3, 93145, 5683, 8 * 10**6, 3194, 27, 14992)
CARDINALITIES += (5 * 10**6, 10, 5652, 2173, 4, 7 * 10**6, 18, 15, 286181, 105, 142572)
"""Of Criteo's features."""
_ZIPF = 1.1
_RATE = 0.05
_DENSE = 13
HOT_BYTES = 2**26


Calls = Callable[[Any], Iterator[tuple[Any, Any]]]
"""Of batches: functions with what each takes."""


class Chief:
    """The jobs, and what they lost."""

    def __init__(self, request: dict[str, Any]) -> None:
        import tensorflow as tf

        self._tf = tf
        self._strategy: Any = strategy_of(request["cluster"])
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(self._strategy)
        self._model = RECOMMENDERS[request["model"]]
        self._rows = [min(rows, request["most_rows"]) for rows in CARDINALITIES]
        self._width, self._batch, self._steps = request["width"], request["batch"], request["steps"]
        self._workers = len(request["cluster"]["worker"])
        self._calls = {mode: self._job(mode) for mode in MODES}
        self._ahead: dict[str, list[tuple[Any, Any]]] = {}
        self._losses: dict[str, list[float]] = {mode: [] for mode in MODES}

    def capture(self, path: str, batches: int) -> dict[str, Any]:
        from tfwave.embedding import capture

        capture(*self._step_of_tables(), self._data(0, batches), path, batches=batches)
        return {}

    def run(self, mode: str, batches: int) -> dict[str, Any]:
        steps = self._steps_of(mode)
        ahead = steps * self._workers
        if mode not in self._ahead:
            self._ahead[mode] = list(self._calls[mode](self._data(0, ahead)))
        data = self._data(len(self._losses[mode]) + ahead, batches)
        begin = time.perf_counter()
        calls = chain(self._ahead[mode], self._calls[mode](data))
        remote = [
            self._coordinator.schedule(function, args) for function, args in islice(calls, batches // steps)
        ]
        self._ahead[mode] = list(calls)
        self._coordinator.join()
        seconds = time.perf_counter() - begin
        losses = self._tf.nest.flatten([value.fetch() for value in remote])
        self._losses[mode] += [float(loss) for loss in losses]
        return {"seconds": [seconds / batches]}

    def compare(self) -> dict[str, Any]:
        import numpy as np

        ids = next(iter(self._data(0, 1)))[0]
        unique = sum(len(np.unique(some)) for some in ids.values())
        least = min(map(len, self._losses.values()))
        first = {mode: own[:least] for mode, own in self._losses.items()}
        return {
            "losses_equal_to_stock": {mode: own == first["stock"] for mode, own in first.items()},
            "steps_compared": least,
            "rows_of_all_ids": len(CARDINALITIES) * self._batch,
            "rows": unique,
            "row_bytes": unique * self._width * 4,
        }

    def _data(self, first: int, count: int) -> Any:
        import numpy as np
        import tensorflow as tf

        elements: list[Any] = []
        for seed in range(first, first + count):
            random = np.random.default_rng(seed)
            ids = {f"t{k}": zipf(random, rows, self._batch) for k, rows in enumerate(self._rows)}
            dense = random.normal(size=(self._batch, _DENSE)).astype(np.float32)
            elements.append((ids, (dense, random.integers(0, 2, self._batch).astype(np.float32))))
        return tf.data.Dataset.from_tensor_slices(
            tf.nest.map_structure(lambda *parts: np.stack(parts), *elements)
        )

    def _step_of_tables(self) -> tuple[Callable[[Any, Any], Any], dict[str, Any]]:
        """A training step of a model of its own, and its tables."""
        import tensorflow as tf

        from tfwave.embedding import Adagrad, Table

        width = self._width
        tables = {
            f"t{k}": Table(
                tf.Variable(tf.random.stateless_uniform([rows, width], (1, k), -0.05, 0.05)), Adagrad(_RATE)
            )
            for k, rows in enumerate(self._rows)
        }
        model = self._model(len(self._rows), width, _DENSE)

        def step(embedded: Any, batch: Any) -> Any:
            dense, labels = batch
            with tf.GradientTape() as tape:
                tape.watch(embedded)
                logits = model.logits(list(embedded.values()), dense)
                losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
                loss = tf.reduce_mean(losses)
            gradients: Any = tape.gradient(loss, (embedded, model.weights))
            for weight, gradient in zip(model.weights, gradients[1], strict=True):
                weight.assign_sub(_RATE * gradient)
            return loss, gradients[0]

        return step, tables

    def _steps_of(self, mode: str) -> int:
        """Of a call."""
        return self._steps if mode in STAGED else 1

    def _job(self, mode: str) -> Calls:
        from tfwave.embedding import staged

        with self._strategy.scope():
            step, tables = self._step_of_tables()
        if mode == "stock":
            return self._stock(step, tables)
        staleness, hot = int(mode == "stale"), HOT_BYTES if mode == "hot" else 0
        train = staged(step, tables, staleness=staleness, steps=self._steps_of(mode), hot_bytes=hot)

        return lambda data: ((call.function, call.args) for call in train.calls(data))

    def _stock(self, step: Any, tables: Any) -> Calls:
        """As TensorFlow's optimizers do it: gradients of all ids go to the server, which sums those of a row."""
        import tensorflow as tf

        @tf.function(autograph=False)
        def stock(ids: Any, batch: Any) -> Any:
            embedded = {t: tf.nn.embedding_lookup(tables[t].module.rows, ids[t]) for t in tables}
            loss, gradients = step(embedded, batch)
            for table, gradient in gradients.items():
                variable = tables[table].module.rows
                with tf.device(variable.device):
                    rows, places = tf.unique(ids[table])
                    summed = tf.math.unsorted_segment_sum(gradient, places, tf.size(rows))
                    tables[table].optimizer.apply(variable, tables[table].slots[0], rows, summed)
            return loss

        return lambda data: ((stock, element) for element in data)


def zipf(random: Any, rows: int, count: int) -> Any:
    """Ids by a power law."""
    import numpy as np

    shares = 1 / np.arange(1, rows + 1) ** _ZIPF
    return np.searchsorted(np.cumsum(shares) / shares.sum(), random.random(count)).astype(np.int32)


def main() -> None:
    """Obey until standard input is closed."""
    obey(Chief)


if __name__ == "__main__":
    main()
