"""The memory of a captured job on one of its devices."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median_low

from tfwave.bundle.bundle import Bundle
from tfwave.bundle.memory.held import replay
from tfwave.bundle.memory.runs import Run, device_runs, op_events
from tfwave.bundle.memory.unread import unread_bytes
from tfwave.errors import BundleError
from tfwave.memory.profile import MemoryProfile
from tfwave.memory.step import StepMemory
from tfwave.proto.tensorflow_pb2 import NodeDef, StepStats


@dataclass(frozen=True)
class CapturedMemory:
    """The traced step that needs most memory on a device.

    Attributes:
        step: its place among the traced ones.
        memory: what it holds.
        others: bytes that its pool holds besides: other graphs' variables and constants, such as the zeros that a
            variable began with; other steps; and what the pool gave to variables beyond what they asked for, up to
            as much again. Less what is resident and not in the pool: an array that TensorFlow is fed and can use
            where it lies, at an address of whole 64 bytes. That is the median of what the pool counted after each
            op, less what the profile says; None where it does not count.
    """

    step: int
    memory: StepMemory
    others: int | None

    @property
    def peak(self) -> int:
        """The most that its pool holds in the step, in bytes, others included.

        Traced without a pool, a step tells neither them nor what a pool gives beyond what is asked for, so this is
        too low for one: capture in the pool whose limit is to be kept.
        """
        return self.memory.profile.peak + (self.others or 0)


def captured_memory(bundle: Bundle, device: str | None = None) -> CapturedMemory:
    """The traced step with the highest peak on a device, the first of equals.

    Steps differ: ops that can run at once begin in another order each time, and a pool gives whole pieces of what
    it has free. The highest peak counts, since a limit must hold in each step.

    Resident are variables, constants, and what the caller feeds; not what other steps and jobs hold in the pool.

    Raises:
        BundleError: the traces tell nothing of memory, or not of this device; several devices to choose from, and
            none given.
    """
    return highest(captured_steps(bundle, device))


def captured_steps(bundle: Bundle, device: str | None = None) -> list[CapturedMemory]:
    """All of them that were traced on a device; errors as of `captured_memory`."""
    device = _chosen(memory_devices(bundle), device)
    steps = [i for i, stats in enumerate(bundle.steps) if _tells(stats, device)]
    return [_captured(bundle, i, device) for i in steps]


def highest(found: Iterable[CapturedMemory]) -> CapturedMemory:
    """The step with the highest peak, the first of equals."""
    return max(found, key=lambda captured: captured.peak)


def memory_devices(bundle: Bundle) -> tuple[str, ...]:
    """The devices whose memory the traces tell of, by name."""
    devices = {of_device.device for step in bundle.steps for of_device in step.dev_stats}
    return tuple(d for d in sorted(devices) if any(_tells(stats, d) for stats in bundle.steps))


def _chosen(devices: Sequence[str], device: str | None) -> str:
    if not devices:
        raise BundleError("the traced steps tell nothing of memory: capture the job again")
    if device is None and len(devices) > 1:
        raise BundleError(
            f"{len(devices)} devices were traced: choose one with --device: {', '.join(devices)}"
        )
    if device is not None and device not in devices:
        raise BundleError(f"the traces tell nothing of the memory of '{device}', but of {', '.join(devices)}")
    return device or devices[0]


def _captured(bundle: Bundle, step: int, device: str) -> CapturedMemory:
    nodes = device_nodes(bundle, device)
    runs = device_runs(bundle, step, device)
    replayed = replay(runs, nodes, bundle.manifest.fetches)
    resident = replayed.found + unread_bytes(nodes, replayed.givers)
    origin = runs[0].begin
    memory = StepMemory(
        MemoryProfile(device, replayed.ops, resident),
        replayed.tensors,
        tuple((run.begin - origin) / 1e9 for run in runs),
        tuple((run.end - origin) / 1e9 for run in runs),
    )
    return CapturedMemory(step, memory, _others(runs, memory))


def _others(runs: Sequence[Run], memory: StepMemory) -> int | None:
    begins = [run.begin for run in runs]
    level = [before + op.takes for (before, _), op in zip(memory.held, memory.profile.ops, strict=True)]
    counted = [run.pool - level[bisect_right(begins, run.end) - 1] for run in runs if run.pool]
    return median_low(counted) if counted else None


def device_nodes(bundle: Bundle, device: str) -> dict[str, NodeDef]:
    """Those of the graphs that ran there, by name."""
    return {node.name: node for graph in bundle.graphs for node in graph.node if node.device == device}


def _tells(stats: StepStats, device: str) -> bool:
    """Whether the ops of a step say what they allocated on a device."""
    return any(event.memory or event.memory_stats.temp_memory_size > 0 for event in op_events(stats, device))
