"""A process of its own, as the pool is there once for all that it runs: captures functions, tells the pool's peaks.

python -m tests.numerics.capture.captured_functions BUNDLES
"""

import json
import sys
from pathlib import Path
from typing import Any

from tests.numerics.colocate.colocated_jobs import Keras, Trained, batches, forget_peak, peak, tf
from tfwave.capture import call
from tfwave.errors import TfwaveError
from tfwave.runtime.live.batches import input_bytes

STEPS = 3


def captured(job: Any, out: Path) -> dict[str, Any]:
    """What the pool measured in each step that was traced, and what its variables hold."""
    (data,) = batches(1, 1)
    batch = job.batch(tf.constant(data))
    batch = batch if isinstance(batch, tuple) else (batch,)
    peaks: list[int] = []
    timed = call.timed

    def measured(run: Any, worked_seconds: Any) -> Any:
        forget_peak()
        found = timed(run, worked_seconds)
        peaks.append(peak())
        return found

    call.timed = measured
    try:
        call.capture_function(job.step, *batch, out=out, steps=STEPS)
    finally:
        call.timed = timed
    given = sum(input_bytes(job.step.get_concrete_function(*batch)))
    return {"peaks": peaks, "given": given}


def refused(step: Any) -> str:
    """Why it is not captured."""
    try:
        call.capture_function(step, tf.constant(1.0), out=Path("never"))
    except TfwaveError as err:
        return f"{type(err).__name__}: {err}"
    return ""


def doubled(x: Any) -> Any:
    """By hand."""
    return x * 2.0


def main(out: Path) -> None:
    """A function with calls, a branch and a loop in it, and the step of a Keras model."""
    compiled = tf.function(doubled, jit_compile=True)
    called = tf.function(doubled, experimental_attributes={"_noinline": True})
    found = {
        "function": captured(Trained(1), out / "function"),
        "keras": captured(Keras(2), out / "keras"),
        "plain": refused(lambda x: x),
        "compiled": refused(compiled),
        "called": refused(tf.function(lambda x: x + called(x))),
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
