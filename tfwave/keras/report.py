"""What a training leaves on disk as it goes: TensorBoard events of each epoch."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tfwave.distribute.figures import Figures
from tfwave.keras.order_text import order_text
from tfwave.plan.plan import Plan

_CHIEF = "/job:chief/replica:0/task:0/device:CPU:0"
_BUCKETS = 30


class TrainingReport:
    """Events in a directory; needs no tensorboard package, which `tf.summary.scalar` and the like would."""

    def __init__(self, directory: Path) -> None:
        """Begin a new events file in `directory`."""
        self._tensorflow: Any = import_module("tensorflow")
        self._writer: Any = self._tensorflow.summary.create_file_writer(str(directory))
        self._told: dict[str, Plan] = {}

    def add(self, epoch: int, figures: Figures, plans: Mapping[str, Plan]) -> None:
        """Write an epoch's figures as scalars, its steps as a histogram, and what is new of the plans as text."""
        tensorflow = self._tensorflow
        with self._writer.as_default(), tensorflow.device(_CHIEF):
            for name, value in figures.logs().items():
                scalar = tensorflow.constant(value, tensorflow.float32)
                self._write("scalars", name.replace("tfwave_", "tfwave/"), scalar, epoch)
            if figures.seconds:
                self._write("histograms", "tfwave/seconds", _histogram(figures.seconds), epoch)
            for function, plan in plans.items():
                if self._told.get(function) != plan:
                    self._write(
                        "text", f"tfwave/order/{function}", tensorflow.constant([order_text(plan)]), epoch
                    )
        self._told = dict(plans)
        self._writer.flush()

    def close(self) -> None:
        """End the events."""
        self._writer.close()

    def _write(self, plugin: str, tag: str, tensor: Any, epoch: int) -> None:
        summary = self._tensorflow.compat.v1.SummaryMetadata
        metadata = summary(plugin_data=summary.PluginData(plugin_name=plugin))
        self._tensorflow.summary.write(tag, tensor, epoch, metadata=metadata)


def _histogram(values: tuple[float, ...]) -> np.ndarray[Any, Any]:
    """As TensorBoard's plugin reads it: of each bucket its left and right edge, and how many are in it."""
    counts, edges = np.histogram(values, _BUCKETS)
    return np.stack([edges[:-1], edges[1:], counts], axis=1)
