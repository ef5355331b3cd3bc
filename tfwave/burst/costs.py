"""A model as the search sees it: layers, what joins them, and the seconds of each choice."""

import functools
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from tfwave.errors import PlanError


@dataclass(frozen=True)
class LayerCosts:
    """Layers in an order in which they can run, from the only first one to the only last one.

    Attributes:
        names: of the layers.
        counts: the numbers of devices to choose from, rising, 1 first; K of them.
        own: seconds of each layer and of summing its gradients, [layer, K].
        edges: (layer before, layer), by number, each once.
        near: seconds of what an edge moves, forward and back, [edge, K before, K here].
        far: likewise if the two layers run on devices of their own; at least `near`.

    Raises:
        PlanError: an edge backwards, or not one first and one last layer; names the layers.
    """

    names: tuple[str, ...]
    counts: tuple[int, ...]
    own: np.ndarray
    edges: tuple[tuple[int, int], ...]
    near: np.ndarray
    far: np.ndarray
    readers: tuple[tuple[int, ...], ...] = field(init=False)
    """The layers that an edge leads to, by layer, each once."""

    def __post_init__(self) -> None:
        """Hold what the search relies on."""
        if not self.counts or self.counts[0] != 1 or list(self.counts) != sorted(set(self.counts)):
            raise PlanError(f"the numbers of devices are {self.counts}: they must rise from 1")
        readers: list[list[int]] = [[] for _ in self.names]
        for before, here in self.edges:
            if not 0 <= before < here < len(self.names):
                raise PlanError(f"layer {here} reads layer {before}: a layer reads those before it")
            readers[before].append(here)
        object.__setattr__(self, "readers", tuple(map(tuple, readers)))
        fed = {here for _, here in self.edges}
        firsts = [name for i, name in enumerate(self.names) if i not in fed]
        lasts = [name for name, after in zip(self.names, readers, strict=True) if not after]
        if len(firsts) != 1 or len(lasts) != 1:
            raise PlanError(
                f"a burst plan needs one first and one last layer, but first are {', '.join(firsts) or 'none'}, "
                f"last {', '.join(lasts) or 'none'}: plan the part between them"
            )

    @functools.cached_property
    def joins(self) -> tuple[int, ...]:
        """Where all ways from each layer meet first: its immediate post-dominator; the last layer's is itself."""
        last = len(self.names) - 1
        if all(len(after) <= 1 for after in self.readers):
            return tuple(after[0] if after else last for after in self.readers)
        import networkx as nx

        back = nx.DiGraph((here, before) for before, here in self.edges)
        found = cast("dict[int, int]", nx.immediate_dominators(back, last))  # pyright: ignore[reportUnknownMemberType]
        return tuple(last if layer == last else found[layer] for layer in range(last + 1))

    @property
    def alone(self) -> np.ndarray:
        """Seconds of each layer on one device, [layer]."""
        return self.own[:, 0]

    @property
    def is_chain(self) -> bool:
        """Whether no layer has several readers."""
        return all(len(after) <= 1 for after in self.readers)
