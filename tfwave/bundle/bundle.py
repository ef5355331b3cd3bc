"""The capture bundle: a directory that holds all that is known of some traced steps of one job.

    bundle.json      what was captured, where and with what
    graphs/000.pb    the partition graph of each device (GraphDef)
    own/000.pb       the step in the session's own graph, before TensorFlow optimized it (GraphDef)
    steps/000.pb     the trace of each step (StepStats)
    transfers.json   the transfers of each step, as traced
    SHA256SUMS       of graphs, own and steps, as sha256sum writes them

It loads on any machine, without the cluster and without TensorFlow.
"""

import json
import os
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import DecodeError, Message
from pydantic import BaseModel, ConfigDict, ValidationError

from tfwave.bundle.step_stats import TransferRecord, transfer_records
from tfwave.errors import BundleError
from tfwave.files import check_inside, read_file, real_path, sha256_of, whole_directory
from tfwave.graph.names import Channel, natural_key
from tfwave.graph.transfer import Transfer, Transfers, find_transfers
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import GraphDef, StepStats

BUNDLE_VERSION = 1
_MANIFEST = "bundle.json"
_SUMS = "SHA256SUMS"


class StepSummary(BaseModel):
    """One traced step: wall seconds of the call, and transfers whose events TensorFlow lost.

    `core_seconds` are those that the cores of the calling machine worked meanwhile, whoever for; None: not known.
    """

    model_config = ConfigDict(extra="forbid")
    seconds: float
    missing_transfers: int
    core_seconds: float | None = None


class Manifest(BaseModel):
    """What ``bundle.json`` says; `cores` are those of the calling machine.

    `untraced_core_seconds` are what they worked in the median step before the traced ones, but for the first of
    several; None: not known.
    """

    model_config = ConfigDict(extra="forbid")
    version: int
    tfwave: str
    tensorflow: str
    target: str
    devices: list[str]
    fetches: list[str]
    warmup_steps: int
    steps: list[StepSummary]
    cores: int | None = None
    untraced_core_seconds: float | None = None

    @property
    def median_seconds(self) -> float:
        """Of the steps."""
        return statistics.median(step.seconds for step in self.steps)

    @property
    def machine_seconds(self) -> float:
        """What a step takes at the least, on a machine with these cores, were none ever idle.

        A trace is work, too: the untraced step is told, unless that was the first of all, or beside others' work,
        and took more than the median one. 0 if not known.
        """
        traced = self._traced_seconds
        if not self.cores or self.untraced_core_seconds is None:
            return traced
        return min(traced, self.untraced_core_seconds / self.cores)

    @property
    def compute_share(self) -> float | None:
        """Of the cores, that the median step keeps busy, as far as nothing else ran there; None: not known."""
        traced = self._traced_seconds
        return min(1.0, traced / self.median_seconds) if traced else None

    @property
    def _traced_seconds(self) -> float:
        known = [step.core_seconds for step in self.steps if step.core_seconds is not None]
        return statistics.median(known) / self.cores if known and self.cores else 0.0


@dataclass(frozen=True)
class Bundle:
    """Partition graphs and traced steps of one job."""

    manifest: Manifest
    graphs: tuple[GraphDef, ...]
    steps: tuple[StepStats, ...]
    own: GraphDef | None = None
    """The step in the graph of the program; None: not known, as of functions."""

    @cached_property
    def view(self) -> GraphView:
        """All partitions joined."""
        return GraphView.of(*self.graphs)

    @cached_property
    def records(self) -> tuple[tuple[TransferRecord, ...], ...]:
        """The traced transfers of each step."""
        return tuple(tuple(transfer_records(step)) for step in self.steps)

    @cached_property
    def transfers(self) -> Transfers:
        """The transfers of the graphs, with the most bytes that a trace shows (0 where no step shows any)."""
        sizes: dict[tuple[str, Channel], int] = {}
        for record in (r for step in self.records for r in step):
            arrival = record.edge, record.channel
            sizes[arrival] = max(record.bytes, sizes.get(arrival, 0))
        found = find_transfers(self.view)
        sized = tuple(replace(t, bytes=sizes.get((t.edge, t.channel), 0)) for t in found.data)
        return Transfers(sized, found.control)

    def transfer_of(self, record: TransferRecord) -> Transfer | None:
        """The one that was traced; None if it is not in the graphs."""
        return self._by_arrival.get((record.edge, record.channel))

    @cached_property
    def _by_arrival(self) -> dict[tuple[str, Channel], Transfer]:
        return {(t.edge, t.channel): t for t in self.transfers.data}


def expected_arrivals(graphs: Iterable[GraphDef]) -> frozenset[tuple[str, Channel]]:
    """The wire name and channel of each data transfer of the graphs."""
    return frozenset((t.edge, t.channel) for t in find_transfers(GraphView.of(*graphs)).data)


def traced_arrivals(step: StepStats) -> frozenset[tuple[str, Channel]]:
    """The wire name and channel of each transfer that has an event in the trace of a step."""
    return frozenset((r.edge, r.channel) for r in transfer_records(step))


def missing_transfers(graphs: Iterable[GraphDef], steps: Iterable[StepStats]) -> list[int]:
    """How many data transfers of the graphs have no event in the trace of each step."""
    expected = expected_arrivals(graphs)
    return [len(expected - traced_arrivals(step)) for step in steps]


def check_place(path: str | Path) -> None:
    """Refuse a place for a bundle, before there is one to write.

    Raises:
        BundleError: it cannot be written, or holds other files than a bundle's; names it.
    """
    place = real_path(Path(path))
    there = next(p for p in (place, *place.parents) if os.path.exists(p))
    if not os.path.isdir(there):
        raise BundleError(f"cannot write '{path}': '{there}' is a file, and a bundle needs a directory")
    if there == place and any(place.iterdir()) and not is_bundle(place):
        raise BundleError(f"'{path}' is a directory with other files, not a bundle: choose another name")
    folder = place.parent if there == place else there
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BundleError(f"cannot write '{path}': nothing can be made in '{folder}'")


def save_bundle(bundle: Bundle, path: str | Path) -> None:
    """Write a bundle directory, whole or not at all; an earlier bundle is replaced.

    Raises:
        TfwaveError: as `check_place`, or it could not be written after all.
    """
    check_place(path)
    with whole_directory(real_path(Path(path))) as target:
        _save_messages(target / "graphs", bundle.graphs)
        _save_messages(target / "steps", bundle.steps)
        if bundle.own is not None:
            _save_messages(target / "own", (bundle.own,))
        records = [{"step": i} | asdict(r) for i, step in enumerate(bundle.records) for r in step]
        (target / "transfers.json").write_text(json.dumps(records, indent=1) + "\n")
        (target / _SUMS).write_text(
            "".join(f"{sha256_of(f)}  {f.relative_to(target)}\n" for f in _messages(target))
        )
        (target / _MANIFEST).write_text(bundle.manifest.model_dump_json(indent=1) + "\n")


def load_bundle(path: str | Path) -> Bundle:
    """Read a bundle directory.

    Raises:
        BundleError: it is not a bundle, of another version, truncated or incomplete; names the file.
        TfwaveError: as `check_inside`: nothing outside of it is read.
    """
    place = Path(path)
    check_inside(place)
    manifest = _load_manifest(place / _MANIFEST)
    graphs = _load_messages(place / "graphs", GraphDef)
    steps = _load_messages(place / "steps", StepStats)
    own = _load_messages(place / "own", GraphDef)
    if not (graphs and steps):
        raise BundleError(f"bundle '{path}' has no graphs or no steps: capture it again")
    if len(steps) != len(manifest.steps):
        raise BundleError(f"bundle '{path}' holds {len(steps)} steps, but lists {len(manifest.steps)}")
    _check_sums(place)
    return Bundle(manifest, graphs, steps, own[0] if own else None)


def is_bundle(path: Path) -> bool:
    """Whether a path looks like a bundle."""
    return os.path.isfile(path / _MANIFEST)


def malformed(path: Path, error: ValidationError) -> BundleError:
    """What to say of a file that breaks its schema, and where."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])) or "content"
    return BundleError(f"'{path}' is malformed: {where}: {first['msg']}")


def _load_manifest(path: Path) -> Manifest:
    try:
        manifest = Manifest.model_validate_json(read_file(path))
    except OSError as error:
        raise BundleError(
            f"'{path.parent}' is not a capture bundle: {path.name}: {error.strerror}: give what "
            "tfwave.capture_run or `tfwave demo` wrote"
        ) from error
    except ValidationError as error:
        raise malformed(path, error) from error
    if manifest.version != BUNDLE_VERSION:
        raise BundleError(f"'{path}' is of version {manifest.version}; this tfwave reads {BUNDLE_VERSION}")
    return manifest


def _check_sums(path: Path) -> None:
    """A message cut between two fields still parses: only its digest tells."""
    try:
        lines = read_file(path / _SUMS).decode(errors="replace").split("\n")
    except OSError as error:
        raise BundleError(f"bundle '{path}' is incomplete: {_SUMS}: {error.strerror}") from error
    listed = {line[66:]: line[:64] for line in lines if line}
    found = {str(file.relative_to(path)): sha256_of(file) for file in _messages(path)}
    for name in sorted(listed.keys() | found.keys()):
        if listed.get(name) != found.get(name):
            raise BundleError(f"'{path / name}' is damaged or missing: capture the bundle again")


def _messages(path: Path) -> list[Path]:
    return sorted(path.glob("*/*.pb"))


def _save_messages(folder: Path, messages: tuple[Message, ...]) -> None:
    folder.mkdir()
    for i, message in enumerate(messages):
        (folder / f"{i:03}.pb").write_bytes(message.SerializeToString(deterministic=True))


_M = TypeVar("_M", bound=Message)


def _load_messages(folder: Path, kind: type[_M]) -> tuple[_M, ...]:
    messages: list[_M] = []
    for file in sorted(folder.glob("*.pb"), key=lambda file: natural_key(file.name)):
        try:
            messages.append(kind.FromString(read_file(file)))
        except (DecodeError, OSError) as error:
            raise BundleError(f"'{file}' is damaged ({error}): capture the bundle again") from error
    return tuple(messages)
