"""FindDependencies of TicTac: which transfers each op waits for.

Sets of transfers are integers: bit i stands for `Dependencies.transfers[i]`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfwave.graph.reach import reached
from tfwave.graph.transfer import Transfer, home_of_all, ops_at
from tfwave.graph.view import GraphView


@dataclass(frozen=True)
class Dependencies:
    """The ops of the task that transfers go to, grouped by the set of transfers that they wait for.

    `transfers` is in the order of the stated tie rule: by the longest-path level of the first consumer, then
    by `Transfer.sort_key`. Neither sees how nodes are numbered.
    """

    transfers: tuple[Transfer, ...]
    ops: tuple[int, ...]
    """The ops of all its devices (view indices), receives left out."""
    classes: Mapping[int, Sequence[int]]
    """op.dep -> the ops with exactly that set, for the sets that are not empty."""
    blockers: tuple[int, ...]
    """Per transfer: the other transfers that must arrive before it can start."""

    def work(self, op_ticks: Sequence[int]) -> dict[int, int]:
        """Of each class the ticks of all its ops; `op_ticks` are those of `ops`, in their sequence."""
        of_op = dict(zip(self.ops, op_ticks, strict=True))
        return {needs: sum([of_op[op] for op in ops]) for needs, ops in self.classes.items()}


def find_dependencies(view: GraphView, transfers: Sequence[Transfer]) -> Dependencies:
    """Follow data and control edges, through other devices too, from transfers to all that waits for them.

    Back edges of while loops are not followed.

    Raises:
        GraphError: a cycle, or transfers into more than one task.
    """
    ordered = in_tie_order(view, transfers)
    upstream = upstream_transfers(view, ordered)
    ops = tuple(ops_at(view, home_of_all(transfers)))
    classes: dict[int, list[int]] = defaultdict(list)
    for op in ops:
        if upstream[op]:
            classes[upstream[op]].append(op)
    blockers = tuple(upstream[t.recv] & ~(1 << bit) for bit, t in enumerate(ordered))
    return Dependencies(ordered, ops, classes, blockers)


def in_tie_order(view: GraphView, transfers: Sequence[Transfer]) -> tuple[Transfer, ...]:
    """The transfers by the stated tie rule; one without consumers counts as read at once."""

    def tie_key(transfer: Transfer) -> tuple[object, ...]:
        consumers = [view.levels[n] for n in view.fanouts[transfer.recv]]
        return min(consumers, default=view.levels[transfer.recv] + 1), transfer.sort_key

    return tuple(sorted(transfers, key=tie_key))


def bits(mask: int) -> Iterator[int]:
    """The positions of the bits that are set, lowest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def membership(sets: Sequence[int], count: int) -> np.ndarray:
    """Sets x transfers, true where the set holds the transfer."""
    width = (count + 7) // 8
    packed = np.frombuffer(b"".join([s.to_bytes(width, "little") for s in sets]), dtype=np.uint8)
    rows = np.unpackbits(packed.reshape(len(sets), width), axis=1, count=count, bitorder="little")
    return rows.astype(np.bool_)


def upstream_transfers(view: GraphView, transfers: Sequence[Transfer]) -> list[int]:
    """Per node: the set of the transfers that it waits for; only nodes behind some are looked at."""
    own = {t.recv: 1 << bit for bit, t in enumerate(transfers)}
    upstream, places = [0] * len(view), view.places
    for node in sorted(reached(view.fanouts.__getitem__, own), key=places.__getitem__):
        waits = own.get(node, 0)
        for fanin in view.forward_fanins(node):
            waits |= upstream[fanin]
        upstream[node] = waits
    return upstream
