"""The chief of a Keras 3 training on a parameter server, as a task of `keras_fit.py`.

Asked {"do": "start", "cluster": {job: [address]}, "control": {job: [address]} or null, "image": int,
"batch": int}, it builds a ConvNeXt-like model under a ParameterServerStrategy. Where `control` is given the
strategy is wrapped and the model is trained by `tfwave.keras.fit`, in a thread, with as many steps a call as are
advised; else the coordinator schedules `train_step`, which is what stock TensorFlow allows. Then, as often as
asked:
{"do": "settle"} runs until the schedule has ordered the function of the advised steps, and answers what it did;
{"do": "run", "steps": n} answers {"seconds": [of each step]};
{"do": "figures"} answers what the schedule says.
"""

import logging
import os
import threading
import time
from typing import Any

from tools.bench.obeying import obey, strategy_of

MODULE = "tools.bench.transfers.keras_fit_chief"
SETTLE_SECONDS = 300.0
_WIDTHS = (84, 168, 336, 672)
_DEPTHS = (2, 2, 6, 2)


def convnext(image: int) -> Any:
    """59 MB of parameters; the largest variable has 7 MB."""
    import keras

    layers = keras.layers
    inputs = hidden = keras.Input((image, image, 3))
    for stage, (width, depth) in enumerate(zip(_WIDTHS, _DEPTHS, strict=True)):
        if stage:
            hidden = layers.LayerNormalization()(hidden)
        hidden = layers.Conv2D(width, 2 if stage else 4, 2 if stage else 4)(hidden)
        for _ in range(depth):
            branch = layers.DepthwiseConv2D(7, padding="same")(hidden)
            branch = layers.LayerNormalization()(branch)
            branch = layers.Dense(4 * width, "gelu")(branch)
            hidden = hidden + layers.Dense(width)(branch)
    pooled = layers.LayerNormalization()(layers.GlobalAveragePooling2D()(hidden))
    return keras.Model(inputs, layers.Dense(1000)(pooled))


class Gate:
    """Lets a training run so many calls, and waits for them."""

    def __init__(self) -> None:
        """Closed."""
        self._calls = threading.Semaphore(0)
        self._ended = threading.Semaphore(0)

    def run(self, calls: int) -> None:
        """Let them run."""
        self._calls.release(calls)
        for _ in range(calls):
            self._ended.acquire()

    def wait(self) -> None:
        """Of the training: for its turn."""
        self._calls.acquire()

    def end(self) -> None:
        """Of the training: a call is done."""
        self._ended.release()


class Chief:
    """A job that runs one call at a time."""

    def __init__(self, request: dict[str, Any]) -> None:
        import keras
        import tensorflow as tf

        from tfwave.distribute import schedule_of, wrap

        self._tf: Any = tf
        wrapped = bool(request["control"])
        self._strategy: Any = strategy_of(request["cluster"])
        if wrapped:
            wrap(self._strategy, enforcer="hook", control=request["control"])
        keras.utils.set_random_seed(1)
        image, batch = request["image"], request["batch"]
        with self._strategy.scope():
            self._model = convnext(image)
            self._model.compile(
                keras.optimizers.SGD(1e-2),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                steps_per_execution="auto" if wrapped else 1,
                jit_compile=False,
            )
        self._shape = [batch, image, image, 3]
        self._schedule: Any = None
        self.steps = 1
        if wrapped:
            self._gate = Gate()
            threading.Thread(target=self._fit, daemon=True).start()
            self._gate.run(1)
            self._schedule = schedule_of(self._strategy)
            self._call = lambda: self._gate.run(1)
        else:
            self._call = self._stock()

    def run(self, steps: int) -> dict[str, Any]:
        seconds: list[float] = []
        while len(seconds) < steps:
            begin = time.perf_counter()
            self._call()
            seconds += [(time.perf_counter() - begin) / self.steps] * self.steps
        return {"seconds": seconds}

    def settle(self) -> dict[str, Any]:
        end = time.monotonic() + SETTLE_SECONDS
        while not self._settled():
            if time.monotonic() > end:
                raise TimeoutError(f"not ordered: {self._schedule.phases}")
            self._call()
        sizes = [4 * v.shape.num_elements() for v in (w.value for w in self._model.trainable_weights)]
        return {
            "steps": self.steps,
            "bytes": sum(sizes),
            "largest": max(sizes),
            "predicted": [vars(plan.predicted) for plan in self._schedule.plans.values()],
        }

    def figures(self) -> dict[str, Any]:
        return {"phases": self._schedule.phases, **self._schedule.figures().logs()}

    def _settled(self) -> bool:
        phases = list(self._schedule.phases.values())
        return self.steps > 1 and phases[-1] in {"ordered", "unordered"}

    def _data(self, context: Any = None) -> Any:
        """One batch, again and again; made where it is used."""
        del context
        tf = self._tf
        images = tf.random.stateless_uniform(self._shape, seed=(1, 7))
        return tf.data.Dataset.from_tensors((images, tf.range(self._shape[0]))).repeat()

    def _stock(self) -> Any:
        from tfwave.keras.ready import build

        build(self._model, self._data().element_spec)
        coordinator = self._tf.distribute.coordinator.ClusterCoordinator(self._strategy)
        batches = iter(coordinator.create_per_worker_dataset(self._data))
        step = self._tf.function(
            lambda iterator: self._strategy.run(self._model.train_step, args=(next(iterator),))
        )

        def call() -> None:
            coordinator.schedule(step, args=(batches,))
            coordinator.join()

        return call

    def _fit(self) -> None:
        import keras

        from tfwave.keras import fit

        chief = self

        class Turns(keras.callbacks.Callback):
            """A call waits for its turn; how many steps it makes is known when it ends."""

            def __init__(self) -> None:
                super().__init__()
                self._first = 0

            def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
                chief._gate.wait()
                self._first = batch

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                chief.steps = batch + 1 - self._first
                chief._gate.end()

        try:
            fit(self._model, self._data, steps_per_epoch=1 << 20, callbacks=[Turns()], verbose=0)
        finally:
            os._exit(1)


def main() -> None:
    """Obey until standard input is closed."""
    logging.basicConfig(level=logging.INFO)
    obey(Chief)


if __name__ == "__main__":
    main()
