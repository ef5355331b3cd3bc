"""Where the buffers of a captured step shall lie, as the section of a plan."""

from tfwave.bundle.bundle import Bundle
from tfwave.bundle.memory import CapturedMemory, captured_memory
from tfwave.graph.access import ASSIGN_OPS, changes_variable
from tfwave.graph.marks import FETCH_OP, STASH_OP
from tfwave.graph.view import GraphView
from tfwave.memory.pool.lives import Beside, traced_lives
from tfwave.offload.places import Region
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.memory import Memory

POLICY = "placement"


def placed_section(bundle: Bundle, device: str | None = None) -> Memory:
    """The places of all that the captured step takes and gives back; nothing is away, the order is the traced one.

    What becomes the value of a variable lies elsewhere, as it would hold its place behind the step.

    Raises:
        BundleError: as `captured_memory`.
    """
    found = captured_memory(bundle, device)
    lives, makers = traced_lives(found.memory, copies_of(bundle.view)), _makers_of_values(found, bundle.view)
    region = Region.of(
        [each for each in lives if each.op not in makers], [each for each in lives if each.op in makers]
    )
    besides = max(1, found.memory.profile.resident + max(0, found.others or 0))
    seconds = found.memory.seconds
    peak = besides + region.live_peak + region.elsewhere
    return Memory(
        graph=graph_print(bundle.view),
        limit_bytes=besides + region.bytes + region.elsewhere,
        policy=POLICY,
        order=_order(found),
        tensors=(),
        peak_bytes=peak,
        seconds=seconds,
        plain_seconds=seconds,
        least_bytes=peak,
        places=region.places,
        region_bytes=region.bytes,
    )


def copies_of(view: GraphView) -> Beside:
    """A copy out is done before the first op that waits for it; one back begins behind all that it waits for."""
    names = view.names
    return Beside(
        behind={
            names[n]: {names[f] for f in view.fanins[n]} for n, op in enumerate(view.ops) if op == FETCH_OP
        },
        before={
            names[n]: {names[f] for f in view.fanouts[n]} for n, op in enumerate(view.ops) if op == STASH_OP
        },
    )


def _makers_of_values(found: CapturedMemory, view: GraphView) -> frozenset[str]:
    """What is assigned is not copied, but held; an update makes a buffer where others read the old value."""
    ops, kinds = found.memory.profile.ops, dict(zip(view.names, view.ops, strict=True))
    updates = {op.node for op in ops if changes_variable(kinds.get(op.node, ""))}
    assigned = {
        ops[tensor.born].node
        for tensor in found.memory.tensors
        if any(kinds.get(ops[use].node) in ASSIGN_OPS for use in tensor.uses)
    }
    return frozenset(updates | assigned)


def _order(found: CapturedMemory) -> tuple[str, ...]:
    """By when each began first."""
    return tuple(dict.fromkeys(op.node for op in found.memory.profile.ops))
