"""Waves with an offset that is chosen for a limited pool, against that offset in numbers; prints JSON.

A process of its own: the pool is there once for all that a process runs.
"""

import tfwave.colocate as colocation

POOL = "48MiB"
colocation.limit_memory(POOL)

import gc  # noqa: E402
import hashlib  # noqa: E402
import json  # noqa: E402
import logging  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import warnings  # noqa: E402
from collections.abc import Callable, Iterable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import tfwave  # noqa: E402
from tests.events import told_events  # noqa: E402
from tests.numerics.corpus.sample import Array  # noqa: E402
from tfwave.errors import TfwaveError  # noqa: E402
from tfwave.keras import TickTockCallback  # noqa: E402
from tfwave.plan.io import plan_json  # noqa: E402
from tfwave.runtime.pool import pool_limit  # noqa: E402

WIDTH, LAYERS, ROWS = 64, 10, 5120
"""In each half of a model. Few of its layers have weights: what gradients wait for differs from step to step."""
BATCHES = 7
"""Three calls and a rest."""

Batch = tuple[Array, Array]


class Lines(logging.Handler):
    """What tfwave says."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def batches(rows: int, count: int = BATCHES) -> Iterable[Batch]:
    draw = np.random.default_rng(3)
    for _ in range(count):
        yield (draw.standard_normal((rows, WIDTH), np.float32), draw.standard_normal((rows, 8), np.float32))


def by_fit(offset: Any, rows: int = ROWS, plan: Any = None, waves: Any = None) -> dict[str, Any]:
    """A Keras model with statistics and random numbers."""
    keras.utils.set_random_seed(5)
    layers = keras.layers
    half = [[layers.Dense(WIDTH), *(layers.Activation("tanh") for _ in range(LAYERS))] for _ in range(2)]
    ends = [layers.Dense(8), layers.BatchNormalization(), layers.Dropout(0.25)]
    model = keras.Sequential([keras.Input((WIDTH,)), *half[0], *half[1], *ends])
    model.compile(
        keras.optimizers.Adam(0.001), "mse", metrics=["mae"], steps_per_execution=1 if waves == 1 else 2
    )
    left = tempfile.TemporaryDirectory()
    callback = TickTockCallback(waves, offset=offset, plan=plan, report_dir=left.name)
    spec = tf.TensorSpec((rows, WIDTH)), tf.TensorSpec((rows, 8))
    data = tf.data.Dataset.from_generator(lambda: batches(rows), output_signature=spec)
    heard: list[Any] = []
    told = keras.callbacks.LambdaCallback(on_train_batch_end=lambda _, logs: heard.append(dict(logs)))
    peak = peak_of(lambda: model.fit(data, epochs=2, callbacks=[callback, told], verbose=0))
    states = [v.value for v in (*model.variables, *model.optimizer.variables)]
    return {
        "told": told_of(left),
        "offset": callback.offset,
        "plan": callback.plan and plan_json(callback.plan),
        "peak": peak,
        "losses": [[value.hex() for value in logs.values()] for logs in heard],
        "bits": bits([*states, *state_of(callback)]),
    }


def told_of(left: tempfile.TemporaryDirectory[str]) -> dict[str, Any]:
    """The tags of texts and pictures, the names of files that are no events, and the page's facts."""
    place = Path(left.name)
    events = told_events(place)
    told = {
        "tags": [*events["text"], *events["images"]],
        "files": sorted(file.name for file in place.glob("waves.*")),
        "page": (place / "waves.md").read_text(),
    }
    left.cleanup()
    return told


def loop(step_of: Callable[[Any], Callable[[Any], Any]], offset: Any, left: str | None = None) -> Any:
    """A loop of one's own, over one replica."""
    strategy = tf.distribute.MirroredStrategy(["/device:CPU:0"])
    tfwave.distribute.wrap(strategy, waves=2, offset=offset, report_dir=left)
    return tfwave.distribute.in_waves(step_of(strategy), strategy=strategy)


class Layers:
    """With an op that keeps its random state to itself; `within` is called in each step."""

    def __init__(self, within: Callable[[Any], Any] = lambda loss: loss) -> None:
        self.within = within
        self.weights: list[Any] = []

    def step_of(self, strategy: Any) -> Callable[[Any], Any]:
        draw = np.random.default_rng(9)
        shapes = [[WIDTH, WIDTH], [WIDTH, WIDTH], [WIDTH, 8]]
        with strategy.scope():
            self.weights = [keras.Variable(draw.standard_normal(s, np.float32) * 0.1) for s in shapes]
            optimizer = keras.optimizers.SGD(0.01, momentum=0.5)
            optimizer.build(self.weights)

        def replica(inputs: Any, wanted: Any) -> Any:
            with tf.GradientTape() as tape:
                hidden = tf.where(tf.random.uniform(tf.shape(inputs), seed=7) < 0.75, inputs, 0.0)
                for weight in self.weights[:-1]:
                    hidden = hidden @ weight.value
                    for _ in range(LAYERS):
                        hidden = tf.tanh(hidden)
                loss = tf.reduce_mean(tf.square(hidden @ self.weights[-1].value - wanted))
            gradients = tape.gradient(loss, [weight.value for weight in self.weights])
            optimizer.apply_gradients(list(zip(gradients, self.weights, strict=True)))
            return self.within(loss)

        return lambda batch: strategy.reduce("SUM", strategy.run(replica, args=batch), axis=None)


def by_loop(
    offset: Any, rows: int = ROWS, within: Callable[[Any], Any] = lambda loss: loss
) -> dict[str, Any]:
    model = Layers(within)
    left = tempfile.TemporaryDirectory()
    train = loop(model.step_of, offset, left.name)
    losses: list[str] = []
    given = list(batches(rows))

    def run() -> None:
        for first in range(0, BATCHES, 2):
            pair = [tuple(map(tf.constant, batch)) for batch in given[first : first + 2]]
            losses.extend(float(loss).hex() for loss in train(*pair))

    peak = peak_of(run)
    found = bits([*(weight.value for weight in model.weights), *state_of(train)])
    told = told_of(left)
    return {"told": told, "offset": train.offset, "peak": peak, "losses": losses, "bits": found}


def state_of(holder: Any) -> list[Any]:
    """The variables of further waves, and what they keep."""
    return [v for group in (*holder.state.further, holder.state.kept) for v in group]


def bits(variables: Iterable[Any]) -> str:
    return hashlib.sha256(b"".join(v.numpy().tobytes() for v in variables)).hexdigest()


def peak_of(run: Callable[[], Any]) -> int:
    """The most bytes in the pool meanwhile."""
    tf.config.experimental.reset_memory_stats("CPU:0")
    run()
    return tf.config.experimental.get_memory_info("CPU:0")["peak"]


def refusal(run: Callable[[], Any]) -> str:
    try:
        run()
    except TfwaveError as err:
        return f"{type(err).__name__}: {err}"
    finally:
        gc.collect()
    return ""


def compared(train: Callable[[Any], dict[str, Any]], lines: Lines) -> dict[str, Any]:
    """The offset as it is chosen, and in numbers."""
    lines.said.clear()
    chosen = train("auto")
    said = [line for line in lines.said if "offset" in line]
    gc.collect()
    return {"chosen": chosen, "said": said, "given": train(chosen["offset"])}


def counted(lines: Lines) -> dict[str, Any]:
    """The number as it is chosen, whatever it is, and given."""
    lines.said.clear()
    chosen = by_fit(None, ROWS // 8, waves="auto")
    said = [line for line in lines.said if "waves=" in line]
    gc.collect()
    waves = json.loads(chosen["plan"])["waves"]
    given = by_fit(waves["offset"], ROWS // 8, waves=waves["count"])
    return {"chosen": chosen, "said": said, "given": given, "waves": waves}


def planned(text: str) -> dict[str, Any]:
    """The plan that was chosen, from its file; for the same model, built again, and with another batch."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(text)
        file.flush()
        same = by_fit(None, plan=file.name)
        return same | {"refused": refusal(lambda: by_fit(None, ROWS // 2, file.name))}


def in_function() -> Any:
    train = loop(Layers().step_of, "auto")
    call = tf.function(train.__call__, autograph=False)
    return call(*[tuple(map(tf.constant, batch)) for batch in batches(ROWS, 2)])


def printing(loss: Any) -> Any:
    with tf.control_dependencies([tf.print("a step", output_stream=sys.stderr)]):
        return tf.identity(loss)


def main() -> None:
    warnings.filterwarnings("ignore", "the last 1 of an epoch's batches")
    lines = Lines()
    logging.getLogger("tfwave").addHandler(lines)
    logging.getLogger("tfwave").setLevel(logging.INFO)
    found: dict[str, Any] = {"limit": pool_limit()}
    found["fit"] = compared(by_fit, lines)
    gc.collect()
    found["counted"] = counted(lines)
    gc.collect()
    found["planned"] = planned(found["fit"]["chosen"]["plan"])
    gc.collect()
    found["loop"] = compared(by_loop, lines)
    gc.collect()
    found["refused"] = {
        "fit": refusal(lambda: by_fit("auto", 7 * ROWS // 4)),
        "loop": refusal(lambda: by_loop("auto", 7 * ROWS // 4)),
        "function": refusal(in_function),
        "printing": refusal(lambda: by_loop("auto", within=printing)),
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
