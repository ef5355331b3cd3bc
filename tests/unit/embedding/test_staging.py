"""Staged steps before the run: what is counted, forecast, chosen and said; by hand, and beside what ran."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.staged import captured, whole
from tfwave.cli.app import app
from tfwave.cost.network import EXPOSED
from tfwave.errors import CostError, PlanError
from tfwave.plan.io import load_plan
from tfwave.staging.capture import Capture, CapturedTable, Part, packed, read_capture
from tfwave.staging.choice import Forecaster, plan_embeddings
from tfwave.staging.cores import CALL_CORE_SECONDS, CARRY_CORE_SECONDS, STEP_CORE_SECONDS
from tfwave.staging.counts import Counted, Load
from tfwave.staging.forecast import Links
from tools.bench.embeddings.embedding_chief import CARDINALITIES, zipf
from tools.bench.interleaved import ETHERNET_SHARE

RESULTS = Path(__file__).resolve().parents[3] / "tools" / "bench" / "results" / "embedding.json"
SERVER_SECONDS, CORE_SECONDS = 0.008, 0.026
DENSE_BYTES = tuple(4 * numbers for numbers in ((26 * 64 + 13) * 64, 64 * 32, 32))
"""Of the recorded steps: they are not in the record."""


def small(**times: float) -> Capture:
    """Two tables of rows of 16 and 8 bytes on two servers; batches of a few rows, half of them repeated."""
    tables = (whole("a", 100, 4), whole("b", 50, 2, server=1, slots=0))
    batches = [{"a": [k, k + 1, k + 1], "b": [7, k]} for k in range(4)]
    seconds = {"step": 0.04, "server": 0.01} | times
    return captured(tables, batches, (seconds["step"], seconds["server"]))


def test_the_rows_of_a_call_are_counted_by_hand() -> None:
    first, second = Counted(small()).loads(range(2), 0)
    assert first.asked == Load(16, 8, 4)  # rows 0 and 1 of a, and 0 and 7 of b, 4 bytes each
    assert (first.early, first.late) == (Load(2 * 16 + 2 * 8, 32, 4), Load(0, 0, 0))
    assert (first.first, first.rest) == (Load(16 + 8, 16, 2), Load(16 + 8, 16, 2))
    assert (second.early, second.late) == (Load(16 + 8, 16, 2), Load(16 + 8, 16, 2))
    assert (second.first.rows, second.rest.rows) == (0, 4)


def test_kept_rows_come_once_with_their_slots_and_gradients_leave_as_ever() -> None:
    counted = Counted(small())
    batches = counted.loads(range(4), 8)
    assert [own.new.rows for own in batches] == [1, 0, 0, 0]  # row 7 of b, which all batches have
    assert sum(own.late.rows for own in batches) == 3
    roomy = counted.loads(range(4), 10**6)
    assert [own.new.total for own in roomy] == [32 + 8, 32, 32, 0]
    assert all(own.late.rows == own.first.rows == 0 and own.rest.rows == 4 for own in roomy)
    assert counted.table_bytes == 100 * 4 * 4 * 2 + 50 * 2 * 4


def test_parts_are_counted_on_their_servers() -> None:
    halves = (Part(rows=6, columns=4, server=0), Part(rows=4, columns=4, server=1))
    by_rows = CapturedTable(name="a", layout="rows", parts=halves, slots=0)
    batches = [{"a": [0, 5, 6]}, {"a": [9]}]
    assert Counted(captured([by_rows], batches)).loads(range(2), 0)[0].early == Load(48, 32, 3)
    sides = (Part(rows=10, columns=1, server=0), Part(rows=10, columns=3, server=1))
    by_columns = CapturedTable(name="a", layout="columns", parts=sides, slots=0)
    own = Counted(captured([by_columns], batches)).loads(range(2), 0)[0]
    assert (own.early, own.asked) == (Load(48, 36, 3), Load(24, 12, 3))
    assert Counted(captured([by_columns], batches)).stock[0] == Load(48, 36, 3)


def test_a_step_by_itself_is_forecast_by_hand() -> None:
    """Rows of two servers come at once on one link: 16 bytes asked, 48 there and 48 back; three latencies."""
    capture = small()
    links = Links(bandwidth=1000, latency=0.5)
    assert Forecaster(capture, links).unique() == pytest.approx(0.112 + 3 * 0.5 + 0.04)
    stock = 0.04 + 3 * 0.5 + (5 * 4 + 2 * (3 * 16 + 2 * 8)) / 1000
    assert Forecaster(capture, links).stock() == pytest.approx(stock)


def test_two_staged_steps_are_forecast_by_hand() -> None:
    """Behind the first batch its repeated rows leave, and come back; the cold ones of the second came before."""
    capture = captured([whole("a", 10, 25)], [{"a": [0, 1]}, {"a": [1, 2]}], (2.0, 0.5))
    found = Forecaster(capture, Links(bandwidth=100))
    asked, row, work, server = 0.08, 1.0, 1.5, 0.25
    begun = asked + 2 * row
    repeated = begun + work + row + server + row
    exact = repeated + work + 2 * row + 2 * server
    assert found.staged(0, 0, 2).seconds == pytest.approx(exact / 2)
    together = begun + work + 2 * (row + server) + row + work + 2 * (row + server)
    assert found.staged(0, 0, 2, apart=False).seconds == pytest.approx(together / 2)
    stale = begun + 2 * row + work + 2 * row + 2 * server
    assert found.staged(1, 0, 2).seconds == pytest.approx(stale / 2)
    round_trip = 2 * row
    assert found.staged(0, 0, 2).floor == pytest.approx(
        (asked + 2 * row + 2 * work + round_trip + 2 * row) / 2
    )
    assert found.staged(1, 0, 2).floor == pytest.approx((asked + 2 * row + work + 4 * row) / 2)
    assert (found.repeated_share, found.wire_seconds) == (0.5, 2.0)


def test_variables_beside_the_tables_go_round_with_each_step() -> None:
    """They come first while servers are told of rows, and then while the repeated row's gradient leaves."""
    batches, seconds = [{"a": [0, 1]}, {"a": [1, 2]}], (2.0, 0.5)
    capture = captured([whole("a", 10, 25)], batches, seconds, dense_bytes=(90, 60))
    found = Forecaster(capture, Links(bandwidth=100))
    asked, row, dense, work, server = 2 * 0.08, 1.0, 1.5, 1.5, 0.25
    begun = dense + 2 * row
    repeated = begun + work + 2 * dense + row
    exact = repeated + work + dense + 2 * row + 2 * server
    assert found.staged(0, 0, 2).seconds == pytest.approx(exact / 2)
    back = begun + work + 2 * dense
    stale = back + work + dense + 2 * row + 2 * server
    assert found.staged(1, 0, 2).seconds == pytest.approx(stale / 2)
    assert found.staged(1, 0, 2).floor == pytest.approx((begun + 2 * (work + dense) + dense + 2 * row) / 2)
    assert found.staged(0, 0, 2).floor == pytest.approx(
        (begun + 2 * work + row + 2 * dense + dense + 2 * row) / 2
    )
    assert found.wire_seconds == dense + 2 * row
    plain = Forecaster(captured([whole("a", 10, 25)], batches, seconds), Links(bandwidth=100))
    assert found.stock() == pytest.approx(plain.stock() + 2 * dense)
    assert found.unique() == pytest.approx(plain.unique() + 2 * dense - asked / 2)


def test_variables_beside_the_tables_are_dealt_out_to_servers() -> None:
    capture = captured([whole("a", 9, 1), whole("b", 9, 1, server=1)], [{"a": [0], "b": [1]}] * 2)
    counted = Counted(capture.model_copy(update={"dense_bytes": (70, 1, 30, 2)}))
    assert counted.dense == Load(103, 100, 0)
    (own, *_) = counted.loads(range(2), 0)
    assert own.moved == 2 * 4 + 2 * (2 * 4 + 103)


def test_the_rest_of_the_gradients_leaves_at_word_that_the_first_have_come() -> None:
    """Row 5 is repeated; the gradients of five others then keep the link from those of the second batch."""
    capture = captured([whole("a", 10, 25)], [{"a": [0, 1, 2, 3, 4, 5]}, {"a": [5, 6]}], (2.0, 0.5))
    asked, row, work, server, latency = 6 * 0.04, 1.0, 1.5, 0.5 / 4, 0.5
    computed = asked + latency + 6 * row + latency + work
    told = computed + row + 2 * latency
    exact = told + (5 + 2) * row + latency + 2 * server
    found = Forecaster(capture, Links(100, latency)).staged(0, 0, 2)
    assert found.seconds == pytest.approx(exact / 2)


@pytest.mark.parametrize("staleness", [0, 1])
def test_servers_are_told_of_the_third_batch_when_the_rows_of_the_first_are_there(staleness: int) -> None:
    """Its rows leave behind that; they are many, and go both ways."""
    capture = captured([whole("a", 100, 25)], [{"a": [0]}, {"a": [1]}, {"a": [*range(10, 60)]}], (2.0, 0.5))
    asked, row, work, server = 0.04, 1.0, 1.5, 0.5 / (52 / 3)
    told = asked + row + 50 * asked
    # Behind that goes the gradient of the first, and stale rows behind its update.
    first = told + (row + server) * staleness
    exact = first + 50 * row + work + 50 * (row + server)
    assert Forecaster(capture, Links(bandwidth=100)).staged(staleness, 0, 3).seconds == pytest.approx(
        exact / 3
    )


@pytest.mark.parametrize("staleness", [0, 1])
def test_rows_leave_when_servers_have_been_told_of_them(staleness: int) -> None:
    """Of the second batch, whose rows are many: that takes longer than the first one's rows."""
    capture = captured([whole("a", 100, 25)], [{"a": [0]}, {"a": [*range(10, 60)]}], (2.0, 0.5))
    asked, row, work, server = 0.04, 1.0, 1.5, 0.5 / (51 / 2)
    exact = 51 * asked + 50 * row + work + 50 * (row + server)
    assert Forecaster(capture, Links(bandwidth=100)).staged(staleness, 0, 2).seconds == pytest.approx(
        exact / 2
    )


def test_before_the_first_push_a_batch_is_pulled_and_computed() -> None:
    """A row that all batches have is kept on the worker: it comes once, with its slot, and is pushed thrice."""
    capture = captured([whole("a", 10, 25)], [{"a": [0, 1]}, {"a": [1, 2]}, {"a": [1, 3]}], (2.0, 0.5))
    asked, pulled, work, pushed = 0.08, 3.0, 1.5, 6.0
    found = Forecaster(capture, Links(bandwidth=100))
    assert found.staged(0, 10**6, 3).floor == pytest.approx((asked + pulled + work + pushed) / 3)


def test_tasks_of_one_machine_share_its_cores() -> None:
    """A step alone keeps them busy for 0.5 s, and half as long with two; less than that it does not take."""
    added = STEP_CORE_SECONDS + CALL_CORE_SECONDS
    capture = small().model_copy(update={"core_seconds": 0.5 - added})
    links = Links(1e9)
    bytes_moved = 16 + 48 + 48
    one, two = (Forecaster(capture, links, cores).unique() for cores in (1, 2))
    apart = Forecaster(capture, links).unique()
    busy = 0.5 + CARRY_CORE_SECONDS * bytes_moved
    assert (one, two) == pytest.approx((busy + EXPOSED * apart, busy / 2 + EXPOSED * apart))
    stock = Forecaster(capture, links, 1).stock()
    assert stock == pytest.approx(0.5 - added + CARRY_CORE_SECONDS * (20 + 2 * 64) + EXPOSED * 0.04, rel=1e-5)
    slow = Links(10)
    wire = Forecaster(capture, slow).unique()
    assert Forecaster(capture, slow, 1).unique() == pytest.approx(wire + EXPOSED * busy)


def test_two_steps_share_what_their_call_takes_of_the_cores() -> None:
    batches = [{"a": [0, 1]}, {"a": [2, 3]}]
    capture = captured([whole("a", 100, 4)], batches, (1e-9, 0.0)).model_copy(update={"core_seconds": 1.0})
    found = Forecaster(capture, Links(1e9), cores=1)
    one, two = found.staged(0, 0, 1).seconds, found.staged(0, 0, 2).seconds
    assert one - two == pytest.approx(CALL_CORE_SECONDS / 2, rel=1e-3)


def test_each_workers_step_keeps_shared_cores_busy() -> None:
    """However many make steps beside each other, the cores make these one after the other."""
    mebibytes = captured([whole("a", 2, 2**20)], [{"a": [0]}] * 4).model_copy(update={"core_seconds": 1.0})
    busy = 1 + STEP_CORE_SECONDS + CALL_CORE_SECONDS + CARRY_CORE_SECONDS * (4 + 2 * 2**22)
    for workers in (1, 3):
        links = Links(1e12, workers=workers)
        apart = Forecaster(mebibytes, links).unique()
        assert Forecaster(mebibytes, links, 1).unique() == pytest.approx(busy + EXPOSED * apart)


def test_workers_share_the_servers() -> None:
    """One worker's link is the narrow one, of three workers that of a server."""
    times = Forecaster(small(), Links(1000, 0, 1)), Forecaster(small(), Links(1000, 0, 3))
    assert times[0].wire_seconds == pytest.approx(0.048)
    assert times[1].wire_seconds == pytest.approx(3 * 0.032)
    assert times[1].unique() < times[0].unique()


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, Any]]:
    """Of a DLRM-like model on one server and one worker."""
    results = [run["result"] for run in json.loads(RESULTS.read_text())["runs"]]
    job = {"model": "dlrm", "servers": 1, "workers": 1}
    return [result for result in results if job.items() <= result["settings"].items()]


@pytest.fixture(scope="module")
def capture_of_record(recorded: list[dict[str, Any]]) -> Capture:
    """The bench's own batches, and the time of its step in one process, at 10 Gbit/s."""
    (fast,) = [run for run in recorded if run["settings"]["rate"] == 1e10]
    asked = fast["settings"]
    rows = [min(cardinality, asked["most_rows"]) for cardinality in CARDINALITIES]
    batches: list[dict[str, Any]] = []
    for seed in range(asked["steps"]):
        random = np.random.default_rng(seed)
        batches.append({f"t{k}": zipf(random, count, asked["batch"]) for k, count in enumerate(rows)})
    tables = [whole(f"t{k}", count, asked["width"]) for k, count in enumerate(rows)]
    seconds = fast["compute_seconds"] + SERVER_SECONDS, SERVER_SECONDS
    found = captured(tables, batches, seconds, DENSE_BYTES)
    return found.model_copy(update={"core_seconds": CORE_SECONDS})


@pytest.mark.parametrize(("rate", "most"), [(3e8, 2), (1e9, 2), (1e10, 6)])
def test_forecast_gains_are_within_so_many_points_of_recorded_ones(
    rate: float, most: float, recorded: list[dict[str, Any]], capture_of_record: Capture
) -> None:
    """All tasks were on one machine of two cores. The seconds are those of another day for each link."""
    (run,) = [run for run in recorded if run["settings"]["rate"] == rate]
    found = Forecaster(capture_of_record, Links(rate / 8 * ETHERNET_SHARE), cores=2)
    assert len(found.counted.batches[0]) == run["rows"]
    forecast = {
        "unique": found.unique(),
        "staged": found.staged(0, 0, 16).seconds,
        "stale": found.staged(1, 0, 16).seconds,
    }
    seconds = {mode: own["median_seconds"] for mode, own in run["modes"].items()}
    errors = {
        mode: 100 * abs(each / found.stock() - seconds[mode] / seconds["stock"])
        for mode, each in forecast.items()
    }
    assert {mode: error for mode, error in errors.items() if error > most} == {}


def test_the_plan_of_the_record_gains_and_says_how_much(capture_of_record: Capture) -> None:
    plan = plan_embeddings(capture_of_record, Links(1e9 / 8))
    assert (plan.steps, plan.staleness, plan.hot_bytes) == (16, 0, 0)
    assert plan.priorities.pushes_apart
    assert plan.bound_seconds < plan.seconds < plan.unique_seconds < plan.stock_seconds
    assert plan.verdict.startswith("gain expected: 6.")


def test_where_the_worker_computes_no_gain_is_expected() -> None:
    plan = plan_embeddings(small(step=0.99), Links(1e9))
    assert plan.verdict.startswith(
        "no gain expected: the worker computes for 980.00 ms of a stock step of 990.0"
    )
    assert plan.steps == 1


def test_old_rows_and_kept_ones_are_taken_where_they_gain_only() -> None:
    slow = Links(1000)
    exact = plan_embeddings(small(), slow)
    assert (exact.staleness, exact.hot_bytes, exact.alpha) == (0, 0, 0)
    again = captured([whole("a", 100, 4, slots=0)], [{"a": [1, 2, 3]}] * 4)
    kept = plan_embeddings(again, slow, room=400)
    assert kept.hot_bytes == 50  # three rows of 16 bytes; less than three do not fit into less
    assert kept.alpha == kept.hot_bytes / (kept.hot_bytes + kept.table_bytes)
    assert plan_embeddings(small(step=0.5), slow, staleness=3).staleness == 1
    fast = plan_embeddings(small(step=0.04, server=0.0), Links(1e12), staleness=3, room=4000)
    assert (fast.staleness, fast.hot_bytes, fast.steps) == (0, 0, 1)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Links(0.0), "0 bytes/s"),
        (lambda: Links(1.0, -1.0), "-1 s latency"),
        (lambda: Links(1.0, 0.0, 0), "0 workers"),
        (lambda: plan_embeddings(small(), Links(1.0), staleness=-1), "-1 updates old"),
        (lambda: Forecaster(small().model_copy(update={"core_seconds": 1.0}), Links(1.0), 0), "0 cores"),
        (lambda: Forecaster(small(), Links(1.0)).staged(0, 0, 5), "4 batches were captured"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        make()


def edited(**changes: Any) -> dict[str, Any]:
    return json.loads(small().model_dump_json()) | changes


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (edited(version=2), "has version 2, this tfwave reads 1"),
        (edited(batches=[]), "batches"),
        (edited(step_seconds="NaN"), "step_seconds"),
        (edited(server_seconds=0.05), "servers take 0.05 s of steps of 0.04 s"),
        (edited(tables=[edited()["tables"][0]] * 2), "a table twice"),
        (
            edited(batches=[{"ids": {"a": 1}, "rows": {"a": packed([1])}}] * 2),
            "batch 0 .* no ids of the table 'b'",
        ),
    ],
)
def test_a_capture_that_cannot_be_is_refused(tmp_path: Path, document: dict[str, Any], says: str) -> None:
    (tmp_path / "bad.json").write_text(json.dumps(document))
    with pytest.raises(CostError, match=says) as caught:
        read_capture(tmp_path / "bad.json")
    assert "bad.json" in str(caught.value)


@pytest.mark.parametrize(
    "rows", [packed([1, 1]), packed([2, 1]), packed([-1]), packed([100]), packed(range(4)), "x"]
)
def test_rows_that_a_batch_cannot_have_are_refused(rows: str) -> None:
    document = edited()
    document["batches"][1]["rows"]["a"] = rows
    with pytest.raises(CostError, match="rows"):
        Capture.model_validate(document).check()


def test_the_command_forecasts_and_writes_a_plan(tmp_path: Path) -> None:
    file, plan = tmp_path / "capture.json", tmp_path / "plan.json"
    small().write(file)
    assert read_capture(file) == small()
    line = [
        "embeddings",
        str(file),
        "--bandwidth",
        "8kbit",
        "--latency",
        "0",
        "--room",
        "4KB",
        "-o",
        str(plan),
    ]
    said = CliRunner().invoke(app, line)
    assert said.exit_code == 0, said.output
    found = load_plan(plan).embeddings
    assert found == plan_embeddings(small(), Links(1000), room=4000)
    assert "50% of a batch's rows are in the next one, too" in said.output
    shown = CliRunner().invoke(app, ["inspect", "--plan", str(plan)]).output
    assert found
    assert f"{found.steps} steps a call, exact, repeated rows' gradients first; " in shown
    assert found.verdict in shown.replace("\n", " ")
    refused = CliRunner().invoke(app, [*line, "--cores", "2"])
    assert "capture it again" in str(refused.exception)
    own = "a worker's own take 3 times as long"
    told = [own in CliRunner().invoke(app, [*line, "--workers", count]).output for count in ("1", "3")]
    assert told == [False, True]
    facts = json.loads(CliRunner().invoke(app, [*line, "--json"]).output)
    assert facts["steps"]["planned"] == found.seconds
    assert facts["wire_seconds_each_way"] == pytest.approx(0.048)
    assert facts["plan"]["tables"][1] == {
        "name": "b",
        "rows": 50,
        "columns": 2,
        "layout": "whole",
        "servers": [1],
    }


def test_plans_are_the_same_however_tables_come() -> None:
    capture = small()
    turned = capture.model_copy(update={"tables": capture.tables[::-1]})
    plans = [plan_embeddings(own, Links(1000)) for own in (capture, turned)]
    assert plans[0].tables == plans[1].tables
    assert plans[0] == replace(plans[1], seconds=plans[0].seconds, bound_seconds=plans[0].bound_seconds)


def test_tables_are_dealt_out_to_servers_in_turn() -> None:
    dealt = small().dealt(3)
    assert [part.server for table in dealt.tables for part in table.parts] == [0, 1]
    assert [part.server for table in small().dealt(1).tables for part in table.parts] == [0, 0]
