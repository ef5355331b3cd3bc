"""A profile: the layers of a model, what they read and move, and their times by batch."""

import bisect
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from tfwave.burst.costs import LayerCosts
from tfwave.burst.network import Network
from tfwave.cost.document import Document, read_document
from tfwave.errors import CostError, MissingCost

PROFILE_VERSION = 1


class Layer(BaseModel):
    """One layer: what it reads, by name; bytes of its output, a sample, and of its weights; and its times.

    `seconds` is of its forward and backward pass on one device, by the number of samples.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    reads: tuple[str, ...] = ()
    output_bytes: float = Field(ge=0, allow_inf_nan=False)
    weight_bytes: float = Field(ge=0, allow_inf_nan=False)
    seconds: dict[int, float]

    def seconds_of(self, samples: int) -> float:
        """Of a batch; between two that were measured it is taken as a straight line.

        Raises:
            MissingCost: the batch is smaller or larger than all that were measured.
        """
        known = sorted(self.seconds)
        place = bisect.bisect_left(known, samples)
        if place < len(known) and known[place] == samples:
            return self.seconds[samples]
        if not 0 < place < len(known):
            raise MissingCost(
                f"layer '{self.name}' has no time of {samples} samples: it was measured with "
                f"{', '.join(map(str, known)) or 'none'}; profile it with more batches, or give other --counts"
            )
        low, high = known[place - 1], known[place]
        share = (samples - low) / (high - low)
        return self.seconds[low] * (1 - share) + self.seconds[high] * share


class Profile(Document):
    """Layers in an order in which they can run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = PROFILE_VERSION
    model: str
    layers: tuple[Layer, ...]

    def costs(self, batch: int, counts: Sequence[int], network: Network) -> LayerCosts:
        """What a step of `batch` samples has to choose from.

        Raises:
            CostError: a time is negative or not a number, or layers break an order; names the layer.
            MissingCost: no time is known for some part of the batch.
            PlanError: the layers have not one beginning and one end.
        """
        self._check()
        numbers = {layer.name: number for number, layer in enumerate(self.layers)}
        edges = tuple(
            (numbers[name], number)
            for number, layer in enumerate(self.layers)
            for name in dict.fromkeys(layer.reads)
        )
        kinds = tuple(counts)
        shares = [-(-batch // count) for count in kinds]
        times = np.array([[layer.seconds_of(share) for share in shares] for layer in self.layers])
        sums = network.sums(np.array([layer.weight_bytes for layer in self.layers]), kinds)
        moved = np.array([self.layers[before].output_bytes * batch for before, _ in edges], dtype=float)
        names = tuple(layer.name for layer in self.layers)
        near, far = network.near(moved, kinds), network.far(moved, kinds)
        return LayerCosts(names, kinds, times + sums, edges, near, far)

    def _check(self) -> None:
        if not self.layers:
            raise CostError("the profile has no layers: make it again")
        seen: set[str] = set()
        for layer in self.layers:
            if layer.name in seen:
                raise CostError(f"the profile has the layer '{layer.name}' twice")
            for name in layer.reads:
                if name not in seen:
                    raise CostError(f"layer '{layer.name}' reads '{name}', which is not before it")
            for samples, seconds in layer.seconds.items():
                if not (samples > 0 and 0 <= seconds < float("inf")):
                    raise CostError(f"layer '{layer.name}' takes {seconds} s for {samples} samples")
            seen.add(layer.name)


def read_profile(path: Path) -> Profile:
    """A profile as `Profile.write` wrote it.

    Raises:
        CostError: it cannot be read, or is none.
    """
    return read_document(path, Profile, "profile", PROFILE_VERSION)
