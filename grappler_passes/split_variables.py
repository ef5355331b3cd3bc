"""Cut large variables into blocks."""

from collections import defaultdict
from dataclasses import dataclass

from tfwave.errors import GraphError, PassError
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.view import GraphView, transfer_ends
from tfwave.passes.base import GraphPass
from tfwave.rewrite.blocks.cuttable import WholeVariable, plan_split
from tfwave.rewrite.blocks.layout import UNIT
from tfwave.rewrite.blocks.writer import BlockWriter
from tfwave.sizes import in_words

_LEAST_BYTES = UNIT * 8


@dataclass(frozen=True)
class SplitVariables(GraphPass):
    """Cut each variable of more than `max_bytes` into blocks, so that no small tensor waits behind a large one.

    Runs on the graph of a Session that is not cut yet; on variables of floats whose size is known, made with
    resource handles. A variable ``v`` becomes ``v/block_0``, ``v/block_1``, ...: runs of whole rows of its first
    dimension, or of its first dimensions taken together where a row is too large.

    1. What reads ``v`` on another device reads blocks, joined there. The node that read it gives the whole value
       under its own name, as before.
    2. What updates ``v`` (assignments, dense optimiser ops) becomes an update for each block, and a NoOp of its
       name that waits for all. A tensor from another device is split there, so that blocks travel; elementwise ops
       between it and the update are done block by block.
    3. Slots that one op updates with ``v`` are cut alike, or none of them is. Initialisation, saving and restoring
       work on blocks; checkpoints hold whole variables under their names, as before.
    4. A control edge between two nodes that are cut alike joins block to block.
    5. What is used in any other way (gathered, scattered, passed to a function) stays whole; a remark says why.
       ``docs/access.md`` has a table of all ways to get at state.

    Results are equal bit for bit: blocks hold multiples of 64 elements, so that kernels compute each element with
    the same instructions. Where clients update without waiting for each other, a reader may see blocks of
    different updates.

    Raises:
        PassError: blocks of less than 512 bytes.
    """

    max_bytes: int = 2**20

    def __post_init__(self) -> None:
        """Refuse blocks that cannot hold 64 elements of any type."""
        if self.max_bytes < _LEAST_BYTES:
            raise PassError(
                f"split_variables: max_bytes is {self.max_bytes}, it must be {_LEAST_BYTES} or more"
            )

    def requires(self, view: GraphView) -> None:
        """The graph is not cut yet."""
        ends = transfer_ends(view)
        if ends:
            raise GraphError(
                f"node '{ends[0]}' is an end of a transfer: the graph is cut already; "
                "run split_variables before 'cut'"
            )

    def run(self, graph: GraphRewriter) -> None:
        """Cut what can be cut, and say what cannot."""
        plan = plan_split(graph.item, self.max_bytes, graph.view)
        if plan.layouts:
            BlockWriter(graph, plan).write()
        reasons: dict[str, list[WholeVariable]] = defaultdict(list)
        for variable in plan.whole:
            reasons[variable.reason].append(variable)
        for reason, variables in reasons.items():
            first = variables[0]
            such = f"{first.name} ({in_words(first.bytes)})"
            graph.remark(f"{len(variables)} large variables stay whole, such as {such}: {reason}")
