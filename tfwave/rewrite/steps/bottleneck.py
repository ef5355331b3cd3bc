"""A node through which a whole step goes, so that nothing of the next step can overlap with it."""

from collections.abc import Sequence

from tfwave.rewrite.resources import Touch
from tfwave.rewrite.steps.step import Step, union

_HEAVY_OPS = ("MatMul", "BatchMatMul", "Conv", "DepthwiseConv", "Einsum")


def find_bottleneck(step: Step, touches: Sequence[Touch]) -> int | None:
    """The node that all matrix products and convolutions of the updates precede, and that precedes all updates.

    Of several the last. Counted are the updates of weights: what a step changes, and reads for such a product
    beforehand. None if there are fewer than two.
    """
    heavy = {node: 1 << i for i, node in enumerate(_heavy(step))}
    reads = {t.node: 1 << (len(heavy) + i) for i, t in enumerate(touches) if not t.writes}
    before = step.preceding(heavy | reads)
    used = union(before[node] for node in heavy)
    written = {t.resource for t in touches if t.writes}
    weights = {t.resource for t in touches if t.resource in written and reads.get(t.node, 0) & used}
    updates = [t.node for t in touches if t.writes and t.resource in weights]
    wanted = union(before[node] for node in updates) & union(heavy.values())
    if len(weights) < 2 or not wanted:
        return None
    late = {node: 1 << i for i, node in enumerate(n for n in step.order if before[n] & wanted == wanted)}
    common = step.preceding(late)
    passed = [node for node in late if all(common[update] & late[node] for update in updates)]
    return passed[-1] if passed else None


def _heavy(step: Step) -> list[int]:
    return [node for node in step.order if step.view.ops[node].startswith(_HEAVY_OPS)]
