"""An order as text for TensorBoard."""

import re

from tests.bundles import small_bundle
from tests.unit.plan.test_plan import small_plan
from tfwave.planner.captured import plan_bundle
from tfwave.report.order_text import order_text


def test_a_channel_has_its_transfers_the_most_urgent_first() -> None:
    plan = plan_bundle(small_bundle(), "tac")
    (order,) = plan.orders
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", order_text(plan), re.MULTILINE)
    assert rows == [(str(rank), transfer.node) for rank, transfer in enumerate(order.transfers)]
    assert len({node for _, node in rows}) == 3


def test_it_says_what_to_expect_and_how_much_goes_where() -> None:
    text = order_text(plan_bundle(small_bundle(), "tic"))
    assert text.startswith(f"policy tic; {plan_bundle(small_bundle(), 'tic').predicted.verdict}\n")
    assert "\n**ps:0/CPU:0 -> worker:0/CPU:0**\n" in text
    assert "| 100 bytes |" in text


def test_without_times_and_sizes_nothing_is_promised() -> None:
    text = order_text(small_plan("tic"))
    assert text.startswith("policy tic; what to expect is not known\n")
    assert "| 0 | `recv4` | unknown |" in text
