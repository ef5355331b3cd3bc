"""What becomes of Keras 3's own `fit` under a `MultiWorkerMirroredStrategy` on two processes, point by point.

python tools/stock_keras.py [POINT ...]

Each point is tried in two processes of its own, and printed as a row of a table: what both said, or that they
trained and ended with equal weights.
"""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tfwave.runtime.ports import reserved_ports

SECONDS = 120
BATCH, STEPS, EPOCHS = 8, 4, 2
MOST_WIDE = 160


def data(rank: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(rank).normal(size=(BATCH * STEPS, 6)).astype("f")
    return x, x.argmax(1)


def model_of(keras: Any, **options: Any) -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(6)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), **options)
    return model


def fitted(keras: Any, rank: int, model: Any, **options: Any) -> Any:
    model.fit(*data(rank), BATCH, EPOCHS, shuffle=False, verbose=0, **options)
    return model


def plain(keras: Any, rank: int, directory: Path) -> Any:
    del directory
    return fitted(keras, rank, model_of(keras))


def metrics(keras: Any, rank: int, directory: Path) -> Any:
    del directory
    return fitted(keras, rank, model_of(keras, metrics=["accuracy"]))


def callbacks(keras: Any, rank: int, directory: Path) -> Any:
    own = [keras.callbacks.CSVLogger(directory / f"{rank}.csv"), keras.callbacks.EarlyStopping("loss")]
    return fitted(keras, rank, model_of(keras), callbacks=own)


def validation(keras: Any, rank: int, directory: Path) -> Any:
    del directory
    return fitted(keras, rank, model_of(keras), validation_data=data(9))


def steps_per_execution(keras: Any, rank: int, directory: Path) -> Any:
    del directory
    return fitted(keras, rank, model_of(keras, steps_per_execution=2))


def mixed_precision(keras: Any, rank: int, directory: Path) -> Any:
    del directory
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    return fitted(keras, rank, model_of(keras))


def resume(keras: Any, rank: int, directory: Path) -> Any:
    backup = keras.callbacks.BackupAndRestore(directory / f"backup {rank}")
    return fitted(keras, rank, model_of(keras), callbacks=[backup])


def killed_worker(keras: Any, rank: int, directory: Path) -> Any:
    del directory

    def kill(batch: int, logs: Any) -> None:
        del logs
        if rank == 1 and batch == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    callback = keras.callbacks.LambdaCallback(on_train_batch_end=kill)
    return fitted(keras, rank, model_of(keras), callbacks=[callback])


POINTS: dict[str, Callable[[Any, int, Path], Any]] = {
    "`fit`": plain,
    "metrics": metrics,
    "callbacks": callbacks,
    "validation": validation,
    "`steps_per_execution`": steps_per_execution,
    "mixed precision": mixed_precision,
    "resume": resume,
    "a killed worker": killed_worker,
}


def work(point: str, directory: str) -> None:
    """A worker: prints what came of it."""
    import keras
    import tensorflow as tf

    rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    strategy: Any = tf.distribute.MultiWorkerMirroredStrategy()
    try:
        with strategy.scope():
            model = POINTS[point](keras, rank, Path(directory))
        weights = hashlib.sha256(b"".join(np.asarray(each).tobytes() for each in model.get_weights()))
        said = f"trained, weights {weights.hexdigest()[:8]}"
    except Exception as error:
        said = f"{type(error).__name__}: {_short(str(error))}"
    print(json.dumps(said), flush=True)
    os._exit(0)  # TensorFlow's server would wait for the other worker's


def tried(point: str) -> list[str]:
    """What the two workers said; in the words of their ends where they said nothing."""
    with tempfile.TemporaryDirectory() as directory, reserved_ports(2) as ports:
        addresses = [f"127.0.0.1:{port}" for port in ports]
        started = [
            subprocess.Popen(
                [sys.executable, __file__, "--work", point, directory],
                env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_CONFIG": _config(addresses, rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for rank in range(2)
        ]
        return [_end(process) for process in started]


def _config(addresses: list[str], rank: int) -> str:
    return json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}})


def _end(process: "subprocess.Popen[str]") -> str:
    try:
        out, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"still waits after {SECONDS} s"
    if out:
        return json.loads(out.splitlines()[-1])
    return "killed" if process.returncode == -signal.SIGKILL else f"exit code {process.returncode}"


def _short(text: str) -> str:
    """In one line, without what tensors hold."""
    line = re.sub(r"\{.*\}", "{...}", " ".join(text.split()))
    return line if len(line) <= MOST_WIDE else f"{line[:MOST_WIDE]}..."


def main(points: list[str]) -> None:
    """Print the table."""
    print("| point | worker 0 | worker 1 |\n|---|---|---|", flush=True)
    for point in points or POINTS:
        one, other = (said.replace("|", "\\|") for said in tried(point))
        print(f"| {point} | {one} | {other} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(*sys.argv[2:])
    main(sys.argv[1:])
