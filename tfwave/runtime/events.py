"""Events for TensorBoard, as its files have them: messages in records. No op runs, and no package is needed."""

import logging
import os
import struct
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

_BUCKETS = 30
_PNG_SIZE = struct.Struct(">16x2I")
"""Width and height, behind the signature and the head of the first chunk."""

_log = logging.getLogger("tfwave")


class Events:
    """An events file of a directory; both are made with the first event. Any thread may write.

    TensorBoard reads a directory's files one after the other, each to its end: let one be written at a time. What
    cannot be written is said in the log, once: no training ends for that.
    """

    def __init__(self, directory: Path) -> None:
        """Nothing is written yet."""
        self._directory = directory
        self._records: Any = None
        self._lock = threading.Lock()
        self._is_broken = False

    def scalar(self, tag: str, value: float, step: int) -> None:
        """A point of a curve."""
        self._write("scalars", tag, np.float32(value), step)

    def histogram(self, tag: str, values: Sequence[float], step: int) -> None:
        """Of each bucket its left and right edge, and how many are in it."""
        counts, edges = np.histogram(values, _BUCKETS)
        self._write("histograms", tag, np.stack([edges[:-1], edges[1:], counts], axis=1), step)

    def text(self, tag: str, text: str, step: int) -> None:
        """Markdown."""
        self._write("text", tag, [text], step)

    def image(self, tag: str, png: bytes, step: int) -> None:
        """A picture."""
        size = [str(side).encode() for side in _PNG_SIZE.unpack_from(png)]
        self._write("images", tag, [*size, png], step)

    def flush(self) -> None:
        """Let readers see what was written."""
        with self._lock:
            self._guarded(lambda: self._records and self._records.flush())

    def close(self) -> None:
        """End the file; an event after that begins a new one."""
        with self._lock:
            self._guarded(lambda: self._records and self._records.close())
            self._records = None

    def _write(self, plugin: str, tag: str, value: Any, step: int) -> None:
        tensorflow: Any = import_module("tensorflow")
        v1 = tensorflow.compat.v1
        metadata = v1.SummaryMetadata(plugin_data=v1.SummaryMetadata.PluginData(plugin_name=plugin))
        tensor = tensorflow.make_tensor_proto(value)
        summary = v1.Summary(value=[v1.Summary.Value(tag=tag, metadata=metadata, tensor=tensor)])
        event = v1.Event(wall_time=time.time(), step=step, summary=summary)
        with self._lock:
            self._guarded(lambda: self._open().write(event.SerializeToString()))

    def _open(self) -> Any:
        if self._records is None:
            tensorflow: Any = import_module("tensorflow")
            self._directory.mkdir(parents=True, exist_ok=True)
            name = f"events.out.tfevents.{time.time_ns()}.{os.getpid()}.tfwave"
            self._records = tensorflow.io.TFRecordWriter(str(self._directory / name))
            first = tensorflow.compat.v1.Event(wall_time=time.time(), file_version="brain.Event:2")
            self._records.write(first.SerializeToString())
        return self._records

    def _guarded(self, do: Any) -> None:
        if self._is_broken:
            return
        tensorflow: Any = import_module("tensorflow")
        try:
            do()
        except (OSError, tensorflow.errors.OpError) as error:
            self._is_broken = True
            _log.warning("tfwave: there are no more TensorBoard events in '%s': %s", self._directory, error)
