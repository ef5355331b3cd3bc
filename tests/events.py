"""What an events file tells TensorBoard."""

from pathlib import Path
from typing import Any

import numpy as np


def told_events(directory: Path) -> dict[str, dict[str, list[Any]]]:
    """What the events files have for each of TensorBoard's plugins, by tag; of images their sizes."""
    import tensorflow as tf  # not before a pool is set up

    found: dict[str, dict[str, list[Any]]] = {"scalars": {}, "histograms": {}, "text": {}, "images": {}}
    for file in sorted(directory.glob("events*")):
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            for value in event.summary.value:
                of_plugin = found[value.metadata.plugin_data.plugin_name]
                of_plugin.setdefault(value.tag, []).append(_told(tf.make_ndarray(value.tensor)))
    return found


def _told(made: np.ndarray) -> Any:
    """Numbers, texts, or width and height of an image, as told and as they are."""
    import tensorflow as tf

    if made.dtype != object:
        return made.tolist()
    if len(made) == 1:
        return [made[0].decode()]
    width, height, png = made
    return [[int(width), int(height)], tf.io.decode_png(png).shape[1::-1].as_list()]
