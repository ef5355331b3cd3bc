"""The order in which stock TensorFlow sends: as seen, or any."""

from tests.graphs import SERVERS, WORKER
from tfwave.graph.names import Channel, TransferKey
from tfwave.graph.transfer import Transfer
from tfwave.sim.stock import stock_ranks

PULL = Channel(SERVERS[0], WORKER)
A, B, C = (Transfer(TransferKey(name, 0, PULL), name, f"edge_{name}", 0, 8) for name in "abc")


def test_steps_that_were_seen_are_gone_by() -> None:
    seen = [{A.key: 0.2, B.key: 0.1, C.key: 0.3}, {A.key: 0.3, B.key: 0.2, C.key: 0.1}]
    assert stock_ranks([A, B, C], seen) == [[1, 0, 2], [2, 1, 0]]


def test_what_a_trace_lost_comes_last() -> None:
    seen = [{A.key: 0.2, C.key: 0.1}, {A.key: 0.1, C.key: 0.2}, {B.key: 0.1}]
    assert stock_ranks([A, B, C], seen) == [[1, 2, 0], [0, 2, 1], [1, 0, 2]]


def test_a_step_of_which_a_trace_lost_all_tells_of_no_order() -> None:
    seen = [{A.key: 0.1, B.key: 0.2, C.key: 0.3}, {}, {A.key: 0.3, B.key: 0.2, C.key: 0.1}]
    assert stock_ranks([A, B, C], seen) == [[0, 1, 2], [2, 1, 0]]


def test_one_order_in_all_steps_was_kept_by_something_else() -> None:
    one = {A.key: 0.1, B.key: 0.2, C.key: 0.3}
    anyhow = stock_ranks([A, B, C])
    assert stock_ranks([A, B, C], [one, one]) == stock_ranks([A, B, C], [one]) == anyhow
    assert all(sorted(ranks) == [0, 1, 2] for ranks in anyhow)
    assert len({tuple(ranks) for ranks in anyhow}) > 1


def test_an_order_that_was_kept_is_none_of_stock_tensorflow_where_a_trace_lost_some_of_it() -> None:
    whole = {A.key: 0.1, B.key: 0.2, C.key: 0.3}
    lost = {B.key: 0.2, C.key: 0.3}
    assert stock_ranks([A, B, C], [whole, lost, whole, {}]) == stock_ranks([A, B, C])
