"""Activations cut by samples, and how they get from the devices of one layer to those of the next."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfwave.burst.shards import overlaps
from tfwave.errors import TfwaveError
from tfwave.keras.bursts.placed import copies, on_device, sent

Place = tuple[str, ...]
"""The devices of a layer, by shard."""


@dataclass(frozen=True)
class Part:
    """A shard's tensor, and Keras's mask of it, if there is one."""

    tensor: Any
    mask: Any = None

    def with_mask(self, tensor: Any) -> Any:
        """A tensor that stands for this one, as layers take it."""
        if self.mask is not None:
            tensor._keras_mask = self.mask
        return tensor


class Shards:
    """An activation on the devices of the layer that made it, and of all that read it.

    Each place gets it once, however many layers read it there.
    """

    def __init__(
        self, maker: str, batch: int, place: Place, parts: Sequence[Part], readers: Counter[Place]
    ) -> None:
        """Take the parts of `batch` samples; `readers` are how many layers read them, by place."""
        self._maker, self._batch, self._place = maker, batch, place
        self._readers = readers
        forks = [copies(part.tensor, len(readers), device) for part, device in zip(parts, place, strict=True)]
        self._made = {
            reader: [Part(fork[number], part.mask) for fork, part in zip(forks, parts, strict=True)]
            for number, reader in enumerate(readers)
        }
        self._held: dict[Place, list[list[Part]]] = {}

    def take(self, place: Place) -> list[Part]:
        """The parts for one reader, on its devices.

        Raises:
            TfwaveError: their number changes, and the first axis is not the batch.
        """
        if place not in self._held:
            parts = self._moved(self._made.pop(place), place)
            forks = [
                [Part(tensor, part.mask) for tensor in copies(part.tensor, self._readers[place], device)]
                for part, device in zip(parts, place, strict=True)
            ]
            self._held[place] = [list(column) for column in zip(*forks, strict=True)]
        return self._held[place].pop()

    def _moved(self, parts: list[Part], place: Place) -> list[Part]:
        if len(place) != len(self._place):
            self._check_batch(parts)
        tensors = self._cut([part.tensor for part in parts], place)
        if parts[0].mask is None:
            return [Part(tensor) for tensor in tensors]
        masks = self._cut([part.mask for part in parts], place)
        return [Part(tensor, mask) for tensor, mask in zip(tensors, masks, strict=True)]

    def _cut(self, parts: Sequence[Any], place: Place) -> list[Any]:
        tensorflow: Any = __import__("tensorflow")
        table = overlaps(self._batch, len(self._place), len(place))
        pieces: list[list[Any]] = [[] for _ in place]
        for shard, (part, device) in enumerate(zip(parts, self._place, strict=True)):
            targets = [target for source, target, _ in table if source == shard]
            sizes = [samples for source, _, samples in table if source == shard]
            cut = [part]
            if len(sizes) > 1:
                cut = on_device(device, lambda xs, sizes=sizes: tensorflow.split(xs[0], sizes), [part])
            for target, piece in zip(targets, cut, strict=True):
                pieces[target].append(sent(piece, place[target]))
        return [
            some[0] if len(some) == 1 else on_device(device, lambda xs: [tensorflow.concat(xs, 0)], some)[0]
            for some, device in zip(pieces, place, strict=True)
        ]

    def _check_batch(self, parts: Sequence[Part]) -> None:
        shapes = [part.tensor.shape for part in parts]
        if any(shape.rank == 0 for shape in shapes) or self._batch != sum(shape[0] or 0 for shape in shapes):
            raise TfwaveError(
                f"layer '{self._maker}' gives a tensor of the shape {tuple(shapes[0])}, whose first axis is not "
                f"the batch of {self._batch}, and layers on other numbers of devices read it: give it, and "
                "those, one device in the plan"
            )
