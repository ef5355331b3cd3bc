"""What goldens are computed from: real graphs and captures, kept so that no TensorFlow is needed.

    inputs/<name>.pb.gz      a GraphDef
    inputs/steps.json        what a step of each graph is fed, fetches and keeps
    inputs/<name>.tar.gz     a capture bundle

Packed files hold no time and no owner: the same content gives the same bytes.
"""

import gzip
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tfwave import GraphItem, load_graph

INPUTS = Path(__file__).with_name("inputs")
_STEPS = INPUTS / "steps.json"


@dataclass(frozen=True)
class Step:
    """What a step of a graph is fed and fetches, nodes that stay, and of a function the variables' devices."""

    feeds: Sequence[str]
    fetches: Sequence[str]
    preserve: Sequence[str]
    handles: Mapping[str, str] | None


def steps() -> dict[str, Step]:
    """Of each graph, by its name."""
    return {name: Step(**step) for name, step in json.loads(_STEPS.read_text()).items()}


def unpack(target: Path) -> None:
    """Put all graphs, as ``<name>.pb``, and all bundles into a directory."""
    for file in sorted(INPUTS.glob("*.pb.gz")):
        (target / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
    for file in sorted(INPUTS.glob("*.tar.gz")):
        with tarfile.open(file) as packed:
            packed.extractall(target, filter="data")


def item_of(name: str, folder: Path) -> GraphItem:
    """A graph that was unpacked there, with what its step needs."""
    step = steps()[name]
    return replace(
        load_graph(folder / f"{name}.pb"),
        feeds=tuple(step.feeds),
        fetches=tuple(step.fetches),
        preserve=frozenset(step.preserve),
        handles=step.handles,
    )


def pack_graph(name: str, item: GraphItem) -> None:
    """Keep a graph; `keep_steps` keeps the rest of it."""
    data = item.graph.SerializeToString(deterministic=True)
    (INPUTS / f"{name}.pb.gz").write_bytes(gzip.compress(data, mtime=0))


def keep_steps(items: Mapping[str, GraphItem]) -> None:
    """Write what the steps of all graphs need."""
    kept = {
        name: asdict(Step(item.feeds, item.fetches, sorted(item.preserve), item.handles))
        for name, item in sorted(items.items())
    }
    _STEPS.write_text(json.dumps(kept, indent=1) + "\n")


def pack_bundle(bundle: Path) -> None:
    """Keep a bundle under the name of its directory."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for file in sorted(bundle.rglob("*")):
            if file.is_file():
                data = file.read_bytes()
                entry = tarfile.TarInfo(str(file.relative_to(bundle.parent)))
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    (INPUTS / f"{bundle.name}.tar.gz").write_bytes(gzip.compress(packed.getvalue(), mtime=0))
