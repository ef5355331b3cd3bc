"""What a step that gets at state is made of."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

v1, raw = tf.compat.v1, tf.raw_ops
SHAPE = (16, 32)


@dataclass
class Step:
    """A step under construction: it reads something, takes its time, and then changes it."""

    folder: Path
    inits: list[Any] = field(default_factory=list)
    fetches: list[Any] = field(default_factory=list)
    change: Any = None
    reset: Callable[[], Any] = lambda: None

    def variable(self, value: Any = None, name: str = "v", **options: Any) -> Any:
        """Its handle; without a value it holds floats that are all different."""
        start = tf.constant(np.arange(512, dtype=np.float32).reshape(SHAPE) / 64 if value is None else value)
        handle = raw.VarHandleOp(
            dtype=start.dtype, name=name, **{"shared_name": name, "shape": start.shape, **options}
        )
        self.inits.append(raw.AssignVariableOp(resource=handle, value=start))
        return handle

    def reads(self, tensor: Any) -> Any:
        """The step gives this; a one that follows from it, and comes late."""
        self.fetches.append(tensor)
        square = tf.fill([400, 400], tf.reduce_sum(tf.cast(tensor, tf.float32)) * 1e-9)
        return tf.reduce_sum(square @ square @ square @ square) * 0 + 1

    def changes(self, *operations: Any) -> None:
        """What the step changes, after what it reads."""
        self.change = tf.group(*operations)


Build = Callable[[Step], None]
STEPS: dict[str, Build] = {}
"""By what a step does, in the words of `docs/access.md`."""


def step(name: str) -> Callable[[Build], Build]:
    def add(build: Build) -> Build:
        STEPS[name] = build
        return build

    return add


def value(handle: Any, dtype: Any = tf.float32) -> Any:
    return raw.ReadVariableOp(resource=handle, dtype=dtype)


def subtract(handle: Any, late: Any) -> Any:
    return raw.AssignSubVariableOp(resource=handle, value=tf.fill(SHAPE, late))


def keys(*numbers: int) -> Any:
    return tf.constant(numbers, tf.int64)


def rows(late: Any, count: int = 2) -> Any:
    return tf.fill([count, 32], late)


def call(body: Callable[..., Any], *inputs: Any) -> Any:
    return tf.function(body, autograph=False)(*inputs)
