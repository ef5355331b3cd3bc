"""The mean and variance of a whole batch whose samples lie on several devices."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from tfwave.keras.bursts.placed import copies, on_device, sent, spread
from tfwave.keras.bursts.sharded import Part, Place


@dataclass(frozen=True)
class Moments:
    """Mean and variance, on the device of each shard."""

    of_shards: Sequence[Sequence[Any]]

    @staticmethod
    @contextmanager
    def given(layer: Any, moments: Sequence[Any]) -> Generator[None]:
        """Inside the block a batch normalisation takes these for its own."""

        def of_the_batch(inputs: Any, mask: Any) -> tuple[Any, ...]:
            del inputs, mask
            return tuple(moments)

        object.__setattr__(layer, "_moments", of_the_batch)
        try:
            yield
        finally:
            object.__delattr__(layer, "_moments")


def moments_of(layer: Any, parts: Sequence[Part], place: Place) -> tuple[Moments, list[Part]]:
    """Of what a batch normalisation reads, and the parts for the layer itself.

    Sums are taken where the samples are, first of these and then of their squared distances from the mean, and
    added up on the first device. With a mask only samples count that it lets through, as in Keras.
    """
    tensorflow: Any = __import__("tensorflow")
    read = _Read(layer)
    forks = [copies(part.tensor, 3, device) for part, device in zip(parts, place, strict=True)]

    def over_all(number: int, centres: Sequence[Any]) -> Any:
        summed = [
            on_device(device, partial(read.sums, part.mask, centre), [fork[number]])
            for fork, part, device, centre in zip(forks, parts, place, centres, strict=True)
        ]
        flat = [sent(tensor, place[0]) for sums in summed for tensor in sums]
        return on_device(place[0], partial(read.mean, parts[0].mask is not None), flat)[0]

    mean = over_all(0, [0.0] * len(place))
    with tensorflow.device(place[0]):
        centre = tensorflow.stop_gradient(mean)  # the distances' gradient by it is zero
    variance = over_all(1, [sent(centre, device) for device in place])
    flat = [on_device(place[0], _flat, [moment])[0] for moment in (mean, variance)]
    columns = [spread(moment, place[0], place) for moment in flat]
    of_shards = list(zip(*columns, strict=True))
    return Moments(of_shards), [Part(fork[2], part.mask) for fork, part in zip(forks, parts, strict=True)]


class _Read:
    """What a batch normalisation sees of its input."""

    def __init__(self, layer: Any) -> None:
        self._keras: Any = __import__("keras")
        self._tensorflow: Any = __import__("tensorflow")
        self._layer = layer
        self._axes = list(layer._reduction_axes)
        self._dtype = self._keras.backend.result_type(layer.compute_dtype, "float32")

    def sums(self, mask: Any, centre: Any, tensors: list[Any]) -> list[Any]:
        """Over all but the channels: of the values, or of their squares from a centre; and how many there are."""
        tensorflow = self._tensorflow
        seen = tensorflow.cast(tensorflow.cast(tensors[0], self._layer.compute_dtype), self._dtype)
        values = seen if isinstance(centre, float) else tensorflow.math.squared_difference(seen, centre)
        counted = tensorflow.ones_like(seen, "int32")
        if mask is not None:
            let_through = tensorflow.broadcast_to(mask[..., None], tensorflow.shape(seen))
            values = tensorflow.where(let_through, values, tensorflow.zeros_like(values))
            counted = tensorflow.cast(let_through, "int32")
        return [tensorflow.reduce_sum(one, self._axes, keepdims=True) for one in (values, counted)]

    def mean(self, is_masked: bool, sums: list[Any]) -> list[Any]:
        """Of what the shards summed and counted, in turn; with a mask there may be none."""
        tensorflow = self._tensorflow
        count = tensorflow.cast(tensorflow.add_n(sums[1::2]), self._dtype)
        least = self._keras.config.epsilon() if is_masked else 0.0
        return [tensorflow.add_n(sums[::2]) / (count + least)]


def _flat(tensors: list[Any]) -> list[Any]:
    return [__import__("tensorflow").reshape(tensors[0], [-1])]
