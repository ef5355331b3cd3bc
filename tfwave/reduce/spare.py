"""Arrays whose memory is used again: new memory is first filled with zeros by the system, while the wire waits."""

import ctypes
import weakref
from typing import Any

import numpy as np

from tfwave.reduce.held import Vector

MOST_SPARE = 2
"""A member in step has one sum that is applied, and one that comes, and as many gradients."""


class Spare:
    """Arrays of one length, whose memory comes back when neither they nor views of them are left."""

    def __init__(self) -> None:
        """Begin with none."""
        self._memory: list[Any] = []

    def flat(self, size: int, dtype: Any) -> Vector:
        """One of so many elements, the same number and type each time, with any values."""
        count = size * np.dtype(dtype).itemsize
        memory: Any = self._memory.pop() if self._memory else np.empty(count, np.uint8)
        lent: Any = (ctypes.c_uint8 * count).from_buffer(memory)  # all views hold it
        weakref.finalize(lent, self._take_back, memory).atexit = False
        return np.frombuffer(lent, dtype)

    def _take_back(self, memory: Any) -> None:
        if len(self._memory) < MOST_SPARE:
            self._memory.append(memory)
