"""Cost models and their errors."""

import json
import math
from pathlib import Path

import pytest

from tests.graphs import SERVERS, WORKER, Builder
from tfwave.cost.analytic import AnalyticCosts, LinkModel, fit
from tfwave.cost.estimate import EstimateMissing
from tfwave.cost.file import FileCosts, load_costs
from tfwave.cost.model import CostSource, vetted
from tfwave.cost.trace import TimeOracle
from tfwave.cost.uniform import UniformCosts
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
    assert UniformCosts().op_seconds(view, node(view, "a")) == 0
    assert UniformCosts().transfer_seconds(transfers[0]) == 1
    assert UniformCosts().source == CostSource("uniform", "uniform")


def test_a_file_gives_costs_by_node(tmp_path: Path) -> None:
    view, transfers = small_view()
    text = json.dumps({"ops": {"a": 0.5, "b": 2, "recv1": 9}, "transfers": {"recv1": 0.25, "recv2": 0}})
    costs = load_costs(written(tmp_path, text))
    assert [costs.op_seconds(view, node(view, n)) for n in ("a", "b", "recv1", "done")] == [0.5, 2, 0, 0]
    assert [costs.transfer_seconds(t) for t in transfers] == [0.25, 0]
    assert costs.source == CostSource("file", "file", "costs.json")


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
        load_costs(written(tmp_path, text))
    message = str(error.value)
    assert "costs.json" in message
    assert says in message
    assert "\n" not in message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CostError, match=r"none\.json"):
        load_costs(tmp_path / "none.json")


def test_what_a_file_lacks_is_missing_by_name() -> None:
    view, transfers = small_view()
    costs = FileCosts({}, {})
    with pytest.raises(MissingCost, match="node 'a'"):
        costs.op_seconds(view, node(view, "a"))
    with pytest.raises(MissingCost, match="'recv1'"):
        costs.transfer_seconds(transfers[0])


def test_the_oracle_takes_the_fastest_run() -> None:
    view, transfers = small_view()
    oracle = TimeOracle(
        {(WORKER, "a"): [3, 1, 2], (CHANNEL_SOURCE, "b"): [1], (WORKER, "done"): []},
        {transfers[0].key: [5, 4]},
    )
    assert oracle.op_seconds(view, node(view, "a")) == 1
    assert oracle.op_seconds(view, node(view, "done")) == 0
    assert oracle.op_seconds(view, node(view, "recv1")) == 0
    assert oracle.transfer_seconds(transfers[0]) == 4
    assert oracle.source == CostSource("measured", "measured", "minimum of 3 runs")
    with pytest.raises(MissingCost, match="node 'b'"):
        oracle.op_seconds(view, node(view, "b"))
    with pytest.raises(MissingCost, match="'recv2'"):
        oracle.transfer_seconds(transfers[1])


@pytest.mark.parametrize("runs", [[1.0, math.nan], [-1.0], [math.inf]])
def test_the_oracle_refuses_what_is_no_time(runs: list[float]) -> None:
    view, transfers = small_view()
    oracle = TimeOracle({(WORKER, "a"): runs}, {transfers[0].key: runs})
    with pytest.raises(CostError, match="'a'"):
        oracle.op_seconds(view, node(view, "a"))
    with pytest.raises(CostError, match="v1"):
        oracle.transfer_seconds(transfers[0])


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


def test_analytic_costs_come_from_sizes() -> None:
    view, transfers = small_view()
    link = LinkModel(1, 10)
    one = AnalyticCosts(FileCosts({"a": 7}, {}), link)
    assert one.op_seconds(view, node(view, "a")) == 7
    assert one.transfer_seconds(sized(transfers[0], 20)) == 3
    assert one.source == CostSource("file", "estimated")
    by_channel = AnalyticCosts(UniformCosts(), {transfers[0].channel: link})
    assert by_channel.transfer_seconds(sized(transfers[0], 20)) == 3
    with pytest.raises(MissingCost, match="size"):
        one.transfer_seconds(transfers[0])
    with pytest.raises(MissingCost, match=r"/job:ps.* -> /job:worker"):
        AnalyticCosts(UniformCosts(), {}).transfer_seconds(sized(transfers[0], 20))


def test_estimates_are_counted_and_said() -> None:
    view, transfers = small_view()
    costs = EstimateMissing(
        FileCosts({"a": 7}, {"recv1": 2}, CostSource("measured", "file", "x")), view, transfers
    )
    assert costs.op_seconds(view, node(view, "a")) == 7
    assert costs.op_seconds(view, node(view, "b")) == 7
    assert costs.transfer_seconds(transfers[1]) == 2
    assert (costs.estimated_ops, costs.estimated_transfers) == (1, 1)
    assert costs.source == CostSource("estimated", "estimated", "x; estimated 1 ops and 1 of 2 transfers")


def test_estimates_follow_the_link_where_sizes_are_known() -> None:
    view, transfers = small_view()
    both = [sized(transfers[0], 100), sized(transfers[1], 300)]
    assert EstimateMissing(FileCosts({}, {"recv1": 2}), view, both).transfer_seconds(
        both[1]
    ) == pytest.approx(6)
    given = EstimateMissing(FileCosts({}, {}), view, both, LinkModel(1, 100))
    assert given.transfer_seconds(both[1]) == 4


def test_nothing_missing_leaves_the_source_alone() -> None:
    view, transfers = small_view()
    costs = EstimateMissing(UniformCosts(), view, transfers)
    assert costs.source == UniformCosts().source


def test_an_op_type_never_seen_costs_nothing_and_a_transfer_still_raises() -> None:
    view, transfers = small_view()
    costs = EstimateMissing(FileCosts({}, {}), view, transfers)
    assert costs.op_seconds(view, node(view, "a")) == 0
    with pytest.raises(MissingCost, match="'recv1'"):
        costs.transfer_seconds(transfers[0])
