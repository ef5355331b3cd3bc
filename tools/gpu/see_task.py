"""The process that is asked what works on a device; else as `limited_task`.

{"do": "built"} builds and loads the native library, and moves a tensor through its stash; {"do": "operation",
"name": str} runs one of `OPERATIONS` there; {"do": "copies", "size": bytes} times copies between
the host and the device.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from tfwave.runtime.allocator import Device
from tfwave.runtime.native import ensure_built
from tools.bench.memory.limited_task import Trial, main

MODULE = "tools.gpu.see_task"
COPIES = 5
"""That are timed; the fastest counts."""


def _images(tf: Any) -> Any:
    return tf.random.stateless_uniform([4, 8, 8, 3], [1, 2])


def _convolved(tf: Any) -> Any:
    return tf.nn.conv2d(_images(tf), tf.ones([3, 3, 3, 4]), 1, "SAME")


def _convolution_gradients(tf: Any) -> Any:
    images, weights = _images(tf), tf.ones([3, 3, 3, 4])
    with tf.GradientTape() as tape:
        tape.watch([images, weights])
        result = tf.nn.conv2d(images, weights, 1, "SAME")
    return sum(tf.reduce_sum(each) for each in tape.gradient(result, [images, weights]))


OPERATIONS: Mapping[str, Callable[[Any], Any]] = {
    "matmul": lambda tf: tf.matmul(tf.ones([64, 64]), tf.ones([64, 64])),
    "conv2d": _convolved,
    "conv2d gradients": _convolution_gradients,
    "batch norm": lambda tf: (
        tf.raw_ops.FusedBatchNormV3(
            x=_images(tf), scale=tf.ones([3]), offset=tf.zeros([3]), mean=[], variance=[], is_training=True
        ).y
    ),
    "max pool": lambda tf: tf.nn.max_pool2d(_images(tf), 2, 2, "SAME"),
    "softmax": lambda tf: tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(4), tf.ones([4, 10])),
    "gather": lambda tf: tf.gather(tf.ones([16, 4]), [1, 2, 2]),
    "fft": lambda tf: tf.abs(tf.signal.rfft(tf.ones([16]))),
    "cholesky": lambda tf: tf.linalg.cholesky(tf.eye(4)),
}


class Seen(Trial):
    """What works here."""

    def built(self) -> dict[str, object]:
        begin = time.perf_counter()
        library = ensure_built()
        seconds = time.perf_counter() - begin
        ops = self._tf.load_op_library(str(library.path))
        return {"library": str(library), "seconds": seconds, "stash_gives_back": self._stashed(ops)}

    def operation(self, name: str) -> dict[str, object]:
        begin = time.perf_counter()
        with self._tf.device(self.device):
            value = OPERATIONS[name](self._tf)
        return {"sum": float(self._tf.reduce_sum(value)), "seconds": time.perf_counter() - begin}

    def copies(self, size: int) -> dict[str, object]:
        tf = self._tf
        with tf.device(self.device):
            there = tf.Variable(tf.zeros([size // 4]))
        with tf.device("CPU:0"):
            here = tf.Variable(tf.zeros([size // 4])) if self._settings.device == Device.GPU else there
        out = _copier(tf, there, "CPU:0")
        back = _copier(tf, here, self.device)
        return {"bytes": size, "out_seconds": _fastest(out), "back_seconds": _fastest(back)}

    def _stashed(self, ops: Any) -> bool:
        """Whether a tensor that was on the device comes back as it was."""
        tf = self._tf

        @tf.function
        def moved() -> Any:
            with tf.device(self.device):
                value = tf.random.stateless_uniform([1000], [3, 4])
            ticket = ops.tfwave_stash(value=value, slot="seen")
            again = ops.tfwave_fetch(ticket=ticket, T=tf.float32)
            with tf.device(self.device):
                return tf.reduce_all(value == tf.reshape(again, [1000]))

        return bool(moved())


def _copier(tf: Any, source: Any, device: str) -> Callable[[], Any]:
    """Copies a variable to a device whole, and takes one element there."""

    @tf.function
    def copied() -> Any:
        with tf.device(device):
            return tf.identity(source)[0]

    return copied


def _fastest(copied: Callable[[], Any]) -> float:
    found: list[float] = []
    for _ in range(COPIES):
        begin = time.perf_counter()
        copied().numpy()
        found.append(time.perf_counter() - begin)
    return min(found)


if __name__ == "__main__":
    main(Seen)
