"""The order of a plan as Markdown, as TensorBoard shows texts."""

from collections.abc import Iterator

from tfwave.cost.uniform import is_timed
from tfwave.graph.names import short_channel
from tfwave.plan.plan import Plan
from tfwave.sizes import in_words_if_known


def order_text(plan: Plan) -> str:
    """What to expect, then of each channel its transfers, the most urgent first."""
    return "\n".join(_lines(plan))


def _lines(plan: Plan) -> Iterator[str]:
    verdict = plan.predicted.verdict if is_timed(plan.costs) else "what to expect is not known"
    yield f"policy {plan.policy}; {verdict}"
    for order in plan.orders:
        yield f"\n**{short_channel(str(order.channel))}**\n\n| rank | transfer | bytes |\n|---|---|---|"
        ranked = sorted(order.transfers, key=lambda transfer: transfer.rank)
        yield from (f"| {t.rank} | `{t.node}` | {in_words_if_known(t.bytes)} |" for t in ranked)
