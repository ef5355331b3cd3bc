"""The bench `matrix.py`: its pieces, what binds, forecasts beside rows; and that its table and table1's show."""

from dataclasses import replace

import pytest

from tests.plans import plan_by_hand
from tests.unit.tools.shown import assert_shown
from tfwave.graph.names import Channel
from tfwave.plan.plan import Plan, Predicted
from tools.bench.record import RECORDS
from tools.bench.transfers.matrix import KEPT, POLICIES, Binding, against, beside
from tools.bench.transfers.matrix_pieces import CLUSTERS, IMAGES, MODES, MOST_SECONDS, RATES, Piece, pieces
from tools.bench.transfers.table1 import TABLE

CHANNEL = Channel("/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:0/device:CPU:0")
LINK_BINDS = Binding(link=1.0, carried=1.05, cores=0.5, floor=1.05, floor_name="busiest resource")


def plan(unordered: float, gain: float) -> Plan:
    kept = Predicted(unordered_seconds=unordered, gain=gain, ack_window_seconds=1.7, proxy_seconds=2.5)
    return replace(plan_by_hand({CHANNEL: ["e"]}), predicted=kept)


@pytest.mark.parametrize(
    ("binding", "name"),
    [
        (LINK_BINDS, "link"),
        (Binding(1.0, 1.2, 0.5, 1.2, "busiest resource"), "gRPC"),
        (Binding(1.0, 1.05, 1.3, 1.3, "busiest resource"), "cores"),
        (Binding(1.0, 1.05, 0.5, 1.5, "a path"), "a path"),
    ],
)
def test_what_binds_is_what_takes_longest(binding: Binding, name: str) -> None:
    assert binding.name == name


def test_each_row_has_the_forecast_of_the_order_that_it_keeps() -> None:
    plans = {policy: plan(2.0, gain) for policy, gain in zip(POLICIES, (0.1, 0.2, 0.3, 0.0), strict=True)}
    rows = against({mode: [[2.0, 2.0]] for mode in MODES}, plans, LINK_BINDS)
    found = {mode: row["forecast_seconds"] for mode, row in rows.items()}
    assert found == pytest.approx(
        {
            "stock": 2.0,
            "hook off": 2.0,
            "tic": 1.8,
            "tac": 1.6,
            "search": 1.4,
            "reverse": 2.0,
            "ack window": 1.7,
            "proxy": 2.5,
        }
    )
    assert rows[KEPT]["error"] == pytest.approx(-0.2)
    assert rows["stock"]["over_wire"] == 2.0


def test_a_step_alone_has_no_deviation() -> None:
    rows = against({mode: [[2.0]] for mode in MODES}, {p: plan(2.0, 0.1) for p in POLICIES}, LINK_BINDS)
    assert {row["stdev_seconds"] for row in rows.values()} == {None}
    assert (
        against({"stock": [[1.0, 3.0]]}, {KEPT: plan(2.0, 0.0)}, LINK_BINDS)["stock"]["stdev_seconds"]
        == 2**0.5
    )


def test_the_pieces_are_the_table_two_others_and_the_likes_in_ten_minutes_each() -> None:
    found = list(pieces())
    assert {piece.model for piece in found} == set(IMAGES) >= {*TABLE, "BERTLike", "DLRMLike"}
    assert {piece.rate for piece in found} == set(RATES)
    assert {(piece.servers, piece.workers) for piece in found} == set(CLUSTERS)
    assert all(piece.least_seconds <= MOST_SECONDS for piece in found)
    assert Piece("VGG16", False, 0.2e9, 1, 2) not in found
    assert [piece.command for piece in found] == list(RECORDS["matrix"])
    assert len({" ".join(command) for command in RECORDS["matrix"]}) == len(found)


def test_a_training_over_one_server_takes_its_bytes_twice_and_for_each_worker() -> None:
    one = Piece("ResNet50", False, 1e9, 2, 2).least_seconds
    assert Piece("ResNet50", True, 1e9, 2, 2).least_seconds == pytest.approx(2 * one)
    assert Piece("ResNet50", False, 1e9, 1, 2).least_seconds == pytest.approx(2 * one)
    assert Piece("ResNet50", False, 2e9, 2, 2).least_seconds == pytest.approx(one / 2)


def test_short_steps_are_measured_in_more_blocks() -> None:
    slow, fast = Piece("ResNet50", False, 1e9, 2, 2), Piece("ResNet50", False, 4e9, 2, 2)
    assert fast.least_seconds == pytest.approx(slow.least_seconds / 2)
    assert fast.command[-2:] == ["--repeats", "4"]
    assert "--repeats" not in slow.command


def test_the_table_says_the_mean_error_in_points() -> None:
    settings = {"model": "DLRMLike", "train": False, "rate": 1e9, "servers": 1, "workers": 2}
    common = {"median_seconds": 1.0, "stdev_seconds": 0.1, "blocks_seconds": [1.0], "over_wire": 1.0}
    common["paired_ratio_to_stock"] = 1.0
    rows = {
        mode: common | beside(1.0, seconds, LINK_BINDS) for mode, seconds in (("stock", 1.04), ("tac", 0.92))
    }
    page = assert_shown("matrix", {"settings": settings, "modes": rows})
    assert "| link |" in page
    assert "Mean error of 2 rows: 6.0 points, at most 8.0." in page


def test_how_much_efficiency_tells_is_on_the_page() -> None:
    settings = {"model": "InceptionV2", "train": False, "workers": 1, "rate": 1e9, "traced": 25}
    of_mode = {"mean_seconds": 1.0, "images_per_second": 4.0, "gain": 0.1}
    of_mode |= {"efficiency": 0.9, "straggler": 0.1, "exact": 3}
    told: dict[str, object] = {"explained": 0.9375, "explained_normalized": 0.96875}
    told["predicted"] = {"tac": {"gain": 0.125}}
    modes = {"unordered": of_mode, "tac": of_mode | {"mean_seconds": 0.75}}
    page = assert_shown("table1", {"settings": settings, **told, "modes": modes})
    assert "| InceptionV2 | False | 1 | 1 Gbit/s | 25 | 0.938 | 0.969 |" in page
    assert "| 12.5% | 25.0% | -12.5 |" in page
    assert any("--traced" in command for command in RECORDS["table1"])
