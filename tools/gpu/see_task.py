"""The process that is asked what works on a device; else as `limited_task`.

{"do": "built"} builds and loads the native library; {"do": "stash", "size": bytes} moves tensors through its stash,
by themselves and beside products of matrices; {"do": "operation", "name": str} runs one of `OPERATIONS` there;
{"do": "copies", "size": bytes} times copies between the host and the device.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from tfwave.errors import EnforcerError
from tfwave.runtime.allocator import Device
from tfwave.runtime.native import ensure_built, load_ops
from tfwave.runtime.stash import CopyFigures, stash_figures
from tools.bench.memory.limited_task import Trial, main

MODULE = "tools.gpu.see_task"
COPIES = 5
"""That are timed; the fastest counts."""
STASHED = 8
"""Tensors that go to the stash at once."""
PRODUCTS = 60
SIDE = {"CPU:0": 256, "GPU:0": 4096}
"""Of the matrices, by device."""


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
        return {"library": str(library), "seconds": seconds}

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

    def stash(self, size: int) -> dict[str, object]:
        """`hidden`: what computing and copying take less together than one after the other, over the copies."""
        work = StashWork(self._tf, self.device, size)
        if not bool(work.copied()):
            raise EnforcerError("a tensor does not come back from the stash as it was")
        before = stash_figures()
        copied, computed = _fastest(work.copied), _fastest(work.computed)
        beside = _fastest(work.beside)
        after = stash_figures()
        return {
            "bytes": size,
            "rates": [_rate(before.out, after.out), _rate(before.back, after.back)],
            "waited_seconds": [after.out.waited_seconds, after.back.waited_seconds],
            "pinned": after.pinned_bytes,
            "mapped": after.mapped_bytes,
            "tensors": after.tensors,
            "seconds": {"copied": copied, "computed": computed, "beside": beside},
            "hidden": (copied + computed - beside) / copied,
        }


class StashWork:
    """Calls for one device: tensors that go to the stash and come back, products of matrices, and both beside."""

    def __init__(self, tf: Any, device: str, size: int) -> None:
        self._tf, self._ops = tf, load_ops()
        with tf.device(device):
            self._values = [tf.random.stateless_uniform([size // 4], [n, 4]) for n in range(STASHED)]
            self._matrix = tf.random.stateless_uniform([SIDE[device], SIDE[device]], [3, 4])
        self.copied = tf.function(self._placed(device, self._copies))
        self.computed = tf.function(self._placed(device, self._products))
        self.beside = tf.function(self._placed(device, self._both))

    def _placed(self, device: str, made: Callable[[], Any]) -> Callable[[], Any]:
        def placed() -> Any:
            with self._tf.device(device):
                return made()

        return placed

    def _copies(self) -> Any:
        """Whether all came back as they were."""
        same = [self._tf.reduce_all(self._again(value) == value) for value in self._values]
        return self._tf.reduce_all(same)

    def _both(self) -> Any:
        return self._tf.where(self._copies(), self._products(), float("nan"))

    def _again(self, value: Any) -> Any:
        ticket = self._ops.tfwave_stash(value=value, slot="seen")
        return self._tf.ensure_shape(self._ops.tfwave_fetch(ticket=ticket, T=self._tf.float32), value.shape)

    def _products(self) -> Any:
        product = self._matrix
        for _ in range(PRODUCTS):
            product = self._tf.matmul(product, self._matrix) / self._matrix.shape[0]
        return product[0, 0]


def _rate(before: CopyFigures, after: CopyFigures) -> float:
    """Bytes a second."""
    return (after.bytes - before.bytes) / (after.seconds - before.seconds)


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
