"""The chief of two Keras 3 models with a large table on a parameter server, as a task of `keras_embedding.py`.

Asked {"do": "start", "cluster": {job: [address]}, "rows": int, "width": int, "batch": int, "optimizer": name}, it
makes both models. Then, as often as asked:
{"do": "run", "mode": "stock" or "gathered", "steps": n} trains one, and answers {"seconds": [of each step]};
{"do": "compare"} answers whether losses and weights are equal, and the bytes of the rows that a step needs.
"""

import time
from itertools import pairwise
from typing import Any

from tools.bench.obeying import obey, strategy_of

MODULE = "tools.bench.embeddings.keras_embedding_chief"
_FEATURES = 26
_BATCHES = 4
_WARM = 3
"""Steps of a fit that are not counted: the first one is traced."""
_ZIPF = 1.1


class Chief:
    """One job with two models."""

    def __init__(self, request: dict[str, Any]) -> None:
        import keras

        from tfwave import parse_pipeline

        strategy: Any = strategy_of(request["cluster"])
        self._width = request["width"]
        self._ids = _ids(request["rows"], request["batch"])
        self._models: dict[str, Any] = {}
        self._losses: dict[str, list[float]] = {"stock": [], "gathered": []}
        self._passes: dict[str, Any] = {"stock": None, "gathered": parse_pipeline("gather_on_server")}
        for mode in self._losses:
            keras.utils.set_random_seed(1)
            with strategy.scope():
                self._models[mode] = _model(request["rows"], self._width, request["optimizer"])

    def run(self, mode: str, steps: int) -> dict[str, Any]:
        import keras
        import tensorflow as tf

        from tfwave.keras import fit

        ends: list[float] = []
        losses: list[float] = []

        def ended(batch: int, logs: Any) -> None:
            del batch
            ends.append(time.perf_counter())
            losses.append(logs["loss"])

        labels = tf.zeros((_BATCHES, len(self._ids[0]), 1))
        data = tf.data.Dataset.from_tensor_slices((self._ids, labels)).repeat()
        callback = keras.callbacks.LambdaCallback(on_train_batch_end=ended)
        fit(
            self._models[mode],
            data,
            steps_per_epoch=steps + _WARM,
            callbacks=[callback],
            passes=self._passes[mode],
            verbose=0,
        )
        self._losses[mode] += losses
        counted = ends[_WARM - 1 :]
        return {"seconds": [end - begin for begin, end in pairwise(counted)]}

    def compare(self) -> dict[str, Any]:
        import numpy as np

        stock, gathered = (self._models[mode].get_weights() for mode in ("stock", "gathered"))
        unique = np.median([len(np.unique(ids)) for ids in self._ids])
        return {
            "losses_equal": self._losses["stock"] == self._losses["gathered"],
            "weights_equal": all(a.tobytes() == b.tobytes() for a, b in zip(stock, gathered, strict=True)),
            "steps_each": len(self._losses["stock"]),
            "table_bytes": stock[0].nbytes,
            "row_bytes": int(unique) * self._width * 4,
        }


def _model(rows: int, width: int, optimizer: str) -> Any:
    import keras

    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((_FEATURES,), dtype="int32"),
            layers.Embedding(rows, width),
            layers.Flatten(),
            layers.Dense(64, "relu"),
            layers.Dense(1),
        ]
    )
    model.compile(getattr(keras.optimizers, optimizer)(0.01), "mse")
    return model


def _ids(rows: int, batch: int) -> Any:
    """Zipf's law over all rows, in an order of chance."""
    import numpy as np

    random = np.random.default_rng(1)
    shares = 1 / np.arange(1, rows + 1) ** _ZIPF
    ranks = np.searchsorted(np.cumsum(shares) / shares.sum(), random.random((_BATCHES, batch, _FEATURES)))
    return random.permutation(rows)[ranks].astype(np.int32)


def main() -> None:
    """Obey until standard input is closed."""
    obey(Chief)


if __name__ == "__main__":
    main()
