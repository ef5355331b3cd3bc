"""A capture bundle as a container of graphs: its partitions can be rewritten."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfwave.bundle.bundle import Bundle, load_bundle, save_bundle
from tfwave.errors import BundleError
from tfwave.files import overlap
from tfwave.graph.item import GraphItem
from tfwave.graph.serialize import check_serializable


@dataclass(frozen=True)
class BundleGraphs:
    """The partition graphs of a bundle; the traced steps go along unchanged."""

    path: Path
    bundle: Bundle

    @classmethod
    def read(cls, path: Path) -> "BundleGraphs":
        """Load a bundle.

        Raises:
            BundleError: as `load_bundle`.
        """
        return cls(path, load_bundle(path))

    def items(self) -> tuple[tuple[str, GraphItem], ...]:
        """Each partition, after the device it is for."""
        return tuple((_device(item), item) for item in map(GraphItem, self.bundle.graphs))

    def write(self, items: Sequence[GraphItem], out: str) -> None:
        """Write the bundle with other graphs.

        Raises:
            TfwaveError: `out` is the source, or no directory for a bundle, or cannot be written.
        """
        target = Path(out)
        if out == "-" or os.path.isfile(target):
            raise BundleError(f"cannot write '{out}': '{self.path}' is a bundle, which needs a directory")
        if overlap(self.path, target):
            raise BundleError(
                f"'{out}' is, or lies within, the bundle that was read, '{self.path}': choose another place"
            )
        for item in items:
            check_serializable(item.graph, out)
        save_bundle(replace(self.bundle, graphs=tuple(item.graph for item in items)), target)


def _device(item: GraphItem) -> str:
    return next((node.device for node in item.graph.node if node.device), "(no device)")
