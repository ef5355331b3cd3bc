"""Cost models and their errors."""

import json
import math
import re
from pathlib import Path

import pytest

from tests.graphs import SERVERS, WORKER, Builder, by_name
from tfwave.cost.analytic import LinkModel, fit, over_links
from tfwave.cost.estimate import estimated
from tfwave.cost.file import load_costs
from tfwave.cost.model import CostSource, vetted
from tfwave.cost.table import Costs
from tfwave.cost.trace import measured_costs
from tfwave.cost.uniform import UNIFORM, uniform_costs
from tfwave.errors import CostError, MissingCost
from tfwave.graph.transfer import Transfer, find_transfers
from tfwave.graph.view import GraphView

CHANNEL_SOURCE = SERVERS[0]


def small_view() -> tuple[GraphView, tuple[Transfer, ...]]:
    """recv1 -> a -> b -> done, recv2 -> b."""
    build = Builder()
    build.op(WORKER, "a", [build.pair("v1", CHANNEL_SOURCE, WORKER, send=False)])
    build.op(WORKER, "b", ["a", build.pair("v2", CHANNEL_SOURCE, WORKER, send=False)])
    build.op(WORKER, "done", ["^b"])
    view = GraphView.of(build.partitions[WORKER])
    return view, find_transfers(view).data


def node(view: GraphView, name: str) -> int:
    return view.names.index(name)


def sized(transfer: Transfer, size: int) -> Transfer:
    return Transfer(transfer.key, transfer.node, transfer.edge, transfer.recv, size)


def written(path: Path, text: str) -> Path:
    file = path / "costs.json"
    file.write_text(text)
    return file


@pytest.mark.parametrize("seconds", [-1.0, -1e-9, math.nan, math.inf, -math.inf])
def test_no_cost_is_negative_or_without_end(seconds: float) -> None:
    with pytest.raises(CostError, match="'conv1'"):
        vetted(seconds, "conv1")


def test_uniform_is_one_second_for_a_transfer_and_none_for_an_op() -> None:
    view, transfers = small_view()
    costs = uniform_costs(view)
    assert costs.op_seconds(node(view, "a")) == 0
    assert costs.transfer_seconds(transfers[0]) == 1
    assert costs.source == UNIFORM == CostSource("uniform", "uniform")


def test_a_file_gives_costs_by_node(tmp_path: Path) -> None:
    view, transfers = small_view()
    text = json.dumps({"ops": {"a": 0.5, "b": 2, "recv1": 9}, "transfers": {"recv1": 0.25, "recv2": 0}})
    costs = load_costs(written(tmp_path, text), view)
    assert [costs.op_seconds(node(view, n)) for n in ("a", "b", "recv1", "done")] == [0.5, 2, 0, 0]
    assert [costs.transfer_seconds(t) for t in transfers] == [0.25, 0]
    assert costs.source == CostSource("file", "file", "costs.json")


def test_names_in_a_file_that_are_of_nothing_are_told_with_the_costs_and_where_one_is_missing(
    tmp_path: Path,
) -> None:
    """An op's name counts nothing for a transfer, and a file of a whole graph may have more than a view."""
    view, transfers = small_view()
    text = json.dumps({"ops": {"a": 0.5, "server": 2}, "transfers": {"recv1": 1, "recv2": 1, "b": 1}})
    costs = load_costs(written(tmp_path, text), view)
    detail = "costs.json; 2 of its names are of no op or transfer here, such as 'b'"
    assert costs.source == CostSource("file", "file", detail)
    with pytest.raises(
        MissingCost, match=f"node 'b'.*: give one, .* \\(costs are of {re.escape(detail)}\\)$"
    ):
        costs.op_seconds(node(view, "b"))
    assert costs.transfer_seconds(transfers[0]) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "Invalid JSON"),
        ("[]", "object"),
        ('{"ops": {}}', "'transfers': Field required"),
        ('{"ops": {}, "transfers": {}, "links": 1}', "'links'"),
        ('{"ops": {"a": "1"}, "transfers": {}}', "'ops' -> 'a'"),
        ('{"ops": {"a": true}, "transfers": {}}', "'ops' -> 'a'"),
        ('{"ops": {"a": null}, "transfers": {}}', "'ops' -> 'a'"),
        ('{"ops": {}, "transfers": {"recv1": []}}', "'transfers' -> 'recv1'"),
        ('{"ops": {"a": -1}, "transfers": {}}', "'a' is -1.0 s"),
        ('{"ops": {"a": NaN}, "transfers": {}}', "'a'"),
        ('{"ops": {}, "transfers": {"recv1": 1e999}}', "'recv1'"),
    ],
)
def test_a_faulty_file_is_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(CostError) as error:
        load_costs(written(tmp_path, text), small_view()[0])
    message = str(error.value)
    assert "costs.json" in message
    assert says in message
    assert "\n" not in message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CostError, match=r"none\.json"):
        load_costs(tmp_path / "none.json", small_view()[0])


def test_what_a_table_lacks_is_missing_by_name() -> None:
    view, transfers = small_view()
    costs = by_name(view, {}, {})
    with pytest.raises(MissingCost, match="node 'a'"):
        costs.op_seconds(node(view, "a"))
    with pytest.raises(MissingCost, match="'recv1'"):
        costs.transfer_seconds(transfers[0])


def test_a_name_counts_in_each_partition_that_has_it() -> None:
    build = Builder()
    for device in (WORKER, CHANNEL_SOURCE):
        build.op(device, "twice", [])
    view = GraphView.of(*build.partitions.values())
    costs = by_name(view, {"twice": 3}, {})
    assert [costs.op_seconds(i) for i, name in enumerate(view.names) if name == "twice"] == [3, 3]


def test_measured_costs_are_those_of_the_fastest_run() -> None:
    view, transfers = small_view()
    costs = measured_costs(
        view,
        transfers,
        {(WORKER, "a"): [3, 1, 2], (CHANNEL_SOURCE, "b"): [1], (WORKER, "done"): [], (WORKER, "recv1"): [9]},
        {transfers[0].key: [5, 4]},
    )
    assert [costs.op_seconds(node(view, name)) for name in ("a", "done", "recv1")] == [1, 0, 0]
    assert costs.transfer_seconds(transfers[0]) == 4
    assert costs.source == CostSource("measured", "measured", "minimum of 3 runs")
    with pytest.raises(MissingCost, match="node 'b'"):
        costs.op_seconds(node(view, "b"))
    with pytest.raises(MissingCost, match="'recv2'"):
        costs.transfer_seconds(transfers[1])


@pytest.mark.parametrize("runs", [[1.0, math.nan], [-1.0], [math.inf]])
def test_what_is_no_time_is_not_measured(runs: list[float]) -> None:
    view, transfers = small_view()
    with pytest.raises(CostError, match="'a'"):
        measured_costs(view, transfers, {(WORKER, "a"): runs}, {})
    with pytest.raises(CostError, match="v1"):
        measured_costs(view, transfers, {}, {transfers[0].key: runs})


def test_filling_keeps_what_is_known() -> None:
    view, transfers = small_view()
    a, b = node(view, "a"), node(view, "b")
    first, second = (t.recv for t in transfers)
    costs = by_name(view, {"a": 7}, {"recv1": 2})
    filled = costs.fill({a: 1, b: 3}, {first: 9, second: 4})
    assert [filled.op_seconds(n) for n in (a, b)] == [7, 3]
    assert [filled.transfer_seconds(t) for t in transfers] == [2, 4]
    assert filled.source == costs.source
    with pytest.raises(MissingCost, match="node 'b'"):
        costs.op_seconds(b)


def test_scaled_ops_are_estimates() -> None:
    view, transfers = small_view()
    costs = by_name(view, {"a": 7}, {"recv1": 2})
    scaled = costs.scale(3, [node(view, "a"), node(view, "b")])
    assert scaled.op_seconds(node(view, "a")) == 21
    assert scaled.transfer_seconds(transfers[0]) == 2
    assert scaled.source == CostSource("estimated", "file")
    with pytest.raises(MissingCost, match="node 'b'"):
        scaled.op_seconds(node(view, "b"))
    assert costs.scale(3, []).op_seconds(node(view, "a")) == 7
    assert costs.scale(1, [node(view, "a")]).source == costs.source


def test_copies_cost_what_their_origins_do() -> None:
    view, transfers = small_view()
    a, b, recv = node(view, "a"), node(view, "b"), transfers[0].recv
    costs = by_name(view, {"a": 7}, {"recv1": 2})
    build = Builder()
    for name in ("one", "two", "three"):
        build.op(WORKER, name, [])
    build.pair("v1", CHANNEL_SOURCE, WORKER, send=False)
    other = GraphView.of(build.partitions[WORKER])
    copies = costs.restrict(other, [a, b, a, recv])
    (arrived,) = find_transfers(other).data
    assert [copies.op_seconds(n) for n in (0, 2)] == [7, 7]
    assert copies.transfer_seconds(arrived) == 2
    assert copies.source == costs.source
    with pytest.raises(MissingCost, match="node 'two'"):
        copies.op_seconds(1)
    sizeless = over_links(costs, transfers, {transfers[0].channel: LinkModel(1, 10)})
    with pytest.raises(MissingCost, match="size of the transfer that 'recv1'"):
        sizeless.restrict(other, [a, b, a, recv]).transfer_seconds(arrived)


def test_a_fit_finds_latency_and_bandwidth() -> None:
    link = fit([(size, 1e-3 + size / 1e6) for size in (10, 2000, 30000, 500)])
    assert link.latency_seconds == pytest.approx(1e-3)
    assert link.bytes_per_second == pytest.approx(1e6)
    assert link.relative_error == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("samples", "latency", "bandwidth", "error"),
    [
        pytest.param([(100, 2.0)], 0, 50, 0, id="one sample"),
        pytest.param([(100, 2.0), (100, 3.0)], 0, 40, 0.2, id="one size"),
        pytest.param([(0, 2.0), (0, 4.0)], 3, math.inf, 1 / 3, id="no bytes"),
        pytest.param([(1, 4.0), (3, 2.0)], 3, math.inf, 1 / 3, id="larger is faster"),
        pytest.param([(1, 0.0), (2, 2.0)], 0, 5 / 4, None, id="latency below zero"),
        pytest.param([(5, 0.0), (7, 0.0)], 0, math.inf, 0, id="no time at all"),
    ],
)
def test_a_fit_stays_sane(
    samples: list[tuple[int, float]], latency: float, bandwidth: float, error: float | None
) -> None:
    link = fit(samples)
    assert link.latency_seconds == pytest.approx(latency)
    assert link.bytes_per_second == pytest.approx(bandwidth)
    assert error is None or link.relative_error == pytest.approx(error)


@pytest.mark.parametrize("samples", [[], [(1, -1.0)], [(1, math.nan)], [(-1, 1.0)]])
def test_a_fit_to_nothing_or_to_nonsense_is_refused(samples: list[tuple[int, float]]) -> None:
    with pytest.raises(CostError):
        fit(samples)


@pytest.mark.parametrize(("latency", "bandwidth"), [(-1, 1), (math.nan, 1), (0, 0), (0, -1), (0, math.nan)])
def test_a_link_is_refused_that_is_none(latency: float, bandwidth: float) -> None:
    with pytest.raises(CostError):
        LinkModel(latency, bandwidth)


def test_over_a_link_size_makes_the_cost() -> None:
    view, transfers = small_view()
    link = {transfers[0].channel: LinkModel(1, 10)}
    whole, unknown = sized(transfers[0], 20), transfers[1]
    costs = over_links(by_name(view, {"a": 7}, {"recv2": 5}), [whole, unknown], link)
    assert costs.op_seconds(node(view, "a")) == 7
    assert costs.transfer_seconds(whole) == 3
    assert costs.source == CostSource("file", "estimated")
    with pytest.raises(MissingCost, match="size"):
        costs.transfer_seconds(unknown)
    with pytest.raises(MissingCost, match=r"/job:ps.* -> /job:worker"):
        over_links(uniform_costs(view), [whole], {}).transfer_seconds(whole)


def test_estimates_are_counted_and_said() -> None:
    view, transfers = small_view()
    known = Costs.named(view, {"a": 7}, {"recv1": 2}, CostSource("measured", "file", "x"))
    costs = estimated(known, transfers)
    assert costs.op_seconds(node(view, "a")) == 7
    assert costs.op_seconds(node(view, "b")) == 7
    assert costs.transfer_seconds(transfers[1]) == 2
    assert costs.source == CostSource("estimated", "estimated", "x; estimated 1 ops and 1 of 2 transfers")
    whole = estimated(by_name(view, {"a": 7, "b": 1}, {"recv1": 2}), transfers)
    assert whole.source == CostSource("file", "estimated", "estimated 0 ops and 1 of 2 transfers")


def test_estimates_follow_the_link_where_sizes_are_known() -> None:
    view, transfers = small_view()
    both = [sized(transfers[0], 100), sized(transfers[1], 300)]
    costs = estimated(by_name(view, {}, {"recv1": 2}), both)
    assert costs.transfer_seconds(both[1]) == pytest.approx(6)


def test_nothing_missing_leaves_the_source_alone() -> None:
    view, transfers = small_view()
    assert estimated(uniform_costs(view), transfers).source == UNIFORM


def test_an_op_type_never_seen_costs_nothing_and_a_transfer_still_raises() -> None:
    view, transfers = small_view()
    costs = estimated(by_name(view, {}, {}), transfers)
    assert costs.op_seconds(node(view, "a")) == 0
    with pytest.raises(MissingCost, match="'recv1'"):
        costs.transfer_seconds(transfers[0])
