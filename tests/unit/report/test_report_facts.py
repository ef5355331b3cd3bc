"""What a report gathers from runs, captures and plans: against figures by hand."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bundles import SIZES, small_bundle
from tests.graphs import SERVERS, Builder
from tests.unit.cli.test_fit_cli import MIB, training
from tests.unit.conftest import Command
from tests.unit.plan.test_plan import small_plan
from tests.unit.reports import PULLS, RANKS, SECONDS, run_on_disk, with_ops
from tfwave.bundle.bundle import Bundle, save_bundle
from tfwave.bundle.step_stats import op_runs
from tfwave.errors import BundleError, PlanError
from tfwave.plan.discipline import Discipline
from tfwave.plan.fingerprint import NO_GRAPH, graph_print
from tfwave.plan.groups import UNKNOWN_SHARE, GroupedJob, Groups, NodeGroup, PlannedJob, Turn
from tfwave.plan.io import load_plan, save_plan
from tfwave.plan.placement import Placement
from tfwave.plan.plan import Plan
from tfwave.plan.waves import Waves
from tfwave.planner.captured import plan_bundle
from tfwave.proto.tensorflow_pb2 import StepStats
from tfwave.report import iterations
from tfwave.report.conformance import HandOff
from tfwave.report.page.facts import Facts, Section
from tfwave.report.page.gather import gather
from tfwave.report.page.given import Given, read_given
from tfwave.report.page.memory import MOST_POINTS, thinned
from tfwave.report.page.order import MOST_POINTS as MOST_HAND_OFFS
from tfwave.report.page.order import order_section
from tfwave.report.page.split import split_of, splits
from tfwave.report.page.timeline import MOST_BARS, SIMULATED, timeline_section


def section(facts: Facts, name: str) -> Section:
    return next(s for s in facts.sections if s.name == name)


def names(facts: Facts) -> list[str]:
    return [s.name for s in facts.sections]


def of_run(place: Path, **changed: object) -> Facts:
    return gather(read_given([run_on_disk(place, **changed)]))  # type: ignore[arg-type]


def test_a_run_answers_the_three_questions_first(tmp_path: Path) -> None:
    facts = of_run(tmp_path)
    worth, kept, to_set = facts.answers
    assert worth.text.startswith("Yes: ordered steps take 40.00 ms, unordered ones 60.00 ms, 1.50 x")
    assert "bit-equal" in worth.text
    assert (worth.good, kept.good) == (True, True)
    assert "kept in each of 2 steps" in kept.text
    assert "policy tac, 3 transfers on 1 channels, by counter" in to_set.text
    assert [figure.value for figure in facts.figures[:2]] == ["1.50 x", "2 of 2"]
    assert len(facts.figures) == 4


@pytest.mark.parametrize(
    ("unordered", "ordered", "equal", "says", "good"),
    [
        ([5, 6, 7], [4, 4, 4], True, "Yes:", True),
        ([5, 6, 7], [4, 4, 4], False, "No, results differ: ", False),
        ([5, 6, 7], [8, 9, 9], True, "No: ", False),
        ([5, 6, 7], [5, 6, 7], True, "No clear difference", None),
        ([5, 6, 7], [5, 6, 7], False, "outputs are not equal", False),
        ([5, 6, 7, 8], [4, 6, 7, 8], True, "No clear difference", None),
        ([6], [5], True, "Yes:", True),
    ],
)
def test_a_difference_must_be_clear(  # noqa: PLR0917
    tmp_path: Path, unordered: list[float], ordered: list[float], equal: bool, says: str, good: bool | None
) -> None:
    seconds = {"unordered": [[s] for s in unordered], "ordered": [[s] for s in ordered]}
    worth = of_run(tmp_path, seconds=seconds, equal=equal).answers[0]
    assert says in worth.text
    assert worth.good is good


def test_an_order_that_was_broken_is_said(tmp_path: Path) -> None:
    facts = of_run(tmp_path, ranks=RANKS | {"ordered": [[0, 1, 2], [2, 0, 1]]})
    assert "broken in 1 of 2 steps" in facts.answers[1].text
    assert facts.answers[1].good is False
    steps = section(facts, "order").chart["steps"]
    found = [(s["mode"], s["number"], s["inversions"], s["broken"]) for s in steps]
    assert found == [
        ("unordered", 1, 3, 2),
        ("unordered", 2, 1, 1),
        ("ordered", 1, 0, 0),
        ("ordered", 2, 2, 2),
    ]
    assert section(facts, "order").chart["tensors"] == [["v1", "v2", "v3"]]


def test_a_priority_is_judged_across_steps() -> None:
    """Rank 0 of the second step was ready at 1 and left last: what left before it in both steps broke the rule."""
    log = [
        HandOff(7, PULLS, rank, "ORDERED", Discipline.PRIORITY, time, ready)
        for rank, time, ready in ((1, 5, 0), (2, 8, 0))
    ]
    log.append(HandOff(8, PULLS, 0, "ORDERED", Discipline.PRIORITY, 9, 1))
    found = order_section(Given(("by hand",), {}, hand_offs={"unordered": [], "ordered": log}))
    assert found is not None
    assert [(s["number"], s["inversions"], s["broken"]) for s in found.chart["steps"]] == [
        (1, None, 2),
        (2, None, 0),
    ]


def test_too_many_hand_offs_are_said() -> None:
    log = [HandOff(step, PULLS, rank, "LATE") for step in range(3) for rank in range(MOST_HAND_OFFS // 2)]
    log += [HandOff(3, PULLS, 1, "LATE"), HandOff(3, PULLS, 0, "LATE")]
    found = order_section(Given(("by hand",), {}, hand_offs={"unordered": [], "ordered": log}))
    assert found is not None
    assert found.table is not None
    assert [s["number"] for s in found.chart["steps"]] == [1, 4]
    assert "Of 4 steps the 2 with the most inversions are drawn" in found.text
    assert len(found.table.rows) == 4


def bars_of(found: Section | None) -> tuple[dict, dict]:
    """The bars of each mode by name, and the lanes."""
    assert found is not None
    chart = found.chart
    bars = {
        (chart["lanes"][bar[0]]["mode"], chart["names"][bar[4]]): dict(
            zip(("begin", "length", "name", "bytes", "rank", "wait"), bar[2:], strict=True)
        )
        for bar in chart["bars"]
    }
    return bars, {(lane["mode"], lane["name"]): lane["kind"] for lane in chart["lanes"]}


def test_bars_tell_bytes_ranks_and_waits(tmp_path: Path) -> None:
    """All three tensors are ready at once, and follow each other: latency 100 us, 100 MB/s."""
    given = read_given([run_on_disk(tmp_path)])
    bars, lanes = bars_of(timeline_section(given))
    assert lanes["ordered", "ps:0/CPU:0"] == "server"
    assert lanes["ordered", "worker:0/CPU:0"] == "worker"
    assert lanes["ordered", "ps:0/CPU:0 -> worker:0/CPU:0"] == "link"
    pulled = [bars["unordered", name] for name in ("v1", "v2", "v3")]
    assert [(b["bytes"], b["rank"]) for b in pulled] == [(SIZES["v1"], 0), (SIZES["v2"], 1), (SIZES["v3"], 2)]
    assert [b["wait"] for b in pulled] == [0, 101, 10_201]
    assert [b["begin"] for b in pulled] == [0, 101, 10_201]
    assert [b["length"] for b in pulled] == [101, 10_100, 20_100]
    assert bars["unordered", "grad"]["rank"] is None
    assert (bars["unordered", "a"]["begin"], bars["unordered", "a"]["length"]) == (5, 1000)


def test_a_capture_and_a_plan_show_the_step_as_planned(tmp_path: Path) -> None:
    save_bundle(small_bundle(), tmp_path / "b")
    save_plan(plan_bundle(small_bundle(), "reverse"), tmp_path / "p.json")
    given = read_given([tmp_path / "b", tmp_path / "p.json"])
    bars, _ = bars_of(timeline_section(given))
    planned = sorted(("v1", "v2", "v3"), key=lambda name: bars[SIMULATED, name]["begin"])
    assert [bars[SIMULATED, name]["rank"] for name in planned] == [0, 1, 2]
    assert bars["captured", planned[-1]]["begin"] < bars[SIMULATED, planned[-1]]["begin"]


def test_a_capture_whose_transfers_were_lost_is_shown_without_what_the_plan_makes_of_it(
    tfwave: Command, tmp_path: Path
) -> None:
    """As TensorFlow loses all of their events at times; its ops were traced nevertheless."""
    save_bundle(small_bundle(lost=frozenset(SIZES)), tmp_path / "b")
    save_plan(plan_bundle(small_bundle(), "reverse"), tmp_path / "p.json")
    assert tfwave("report", tmp_path / "b", tmp_path / "p.json", "-o", tmp_path / "page.html").code == 0
    found = timeline_section(read_given([tmp_path / "b", tmp_path / "p.json"]))
    bars, _ = bars_of(found)
    assert {mode for mode, _ in bars} == {"captured"}
    assert found is not None
    assert "What the plan makes of it is not known: no link is known for the channel /job:" in found.text
    assert "give one, or trace more runs" in found.text


def test_the_shortest_of_too_many_bars_are_left_out_and_said(tmp_path: Path) -> None:
    many = with_ops(small_bundle(), [f"op{i}" for i in range(MOST_BARS)])
    save_bundle(many, tmp_path / "b")
    found = timeline_section(read_given([tmp_path / "b"]))
    assert found is not None
    assert len(found.chart["bars"]) == MOST_BARS
    assert f"Of {MOST_BARS + 8:,} bars the {MOST_BARS:,} longest" in found.text
    assert "v3" in found.chart["names"]
    assert f"op{MOST_BARS - 1}" not in found.chart["names"]


def test_the_parts_of_a_step_add_up(tmp_path: Path) -> None:
    """Computes 10 ms from 0 on; v1 to v3 are on the way for 30.301 ms, in turn, and grad at the same time."""
    rows = section(of_run(tmp_path), "split").table
    assert rows is not None
    mode, worker, step, *parts = rows.rows[0]
    assert (mode, worker) == ("unordered", "worker:0/CPU:0")
    total = sum(float(str(part).removesuffix(" ms")) for part in parts[:4])
    assert total == pytest.approx(float(str(step).removesuffix(" ms")), abs=0.02)


SPANS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 9)).map(lambda s: (s[0], s[0] + s[1])), min_size=1
)


@settings(max_examples=100, deadline=None, database=None)
@given(runs=SPANS, sent=SPANS)
def test_the_split_is_that_of_each_unit_of_time(
    runs: list[tuple[int, int]], sent: list[tuple[int, int]]
) -> None:
    ends = [at for span in (*runs, *sent) for at in span]
    count = {(a, b): 0 for a in (False, True) for b in (False, True)}
    for unit in range(min(ends), max(ends)):
        count[any(b <= unit < e for b, e in runs), any(b <= unit < e for b, e in sent)] += 1
    found = split_of(runs, sent)
    assert (found.compute, found.both) == (count[True, False], count[True, True])
    assert (found.transfer, found.idle) == (count[False, True], count[False, False])
    assert found.overlap == pytest.approx(count[True, True] / (count[True, True] + count[False, True]))


def test_step_times_are_those_of_the_slowest_worker(tmp_path: Path) -> None:
    chart = section(of_run(tmp_path), "times").chart
    assert chart["modes"] == [
        {"mode": "unordered", "ms": [50, 60, 70]},
        {"mode": "ordered", "ms": [40, 40, 40]},
    ]


def test_sections_are_there_for_what_is_given(tmp_path: Path) -> None:
    assert names(of_run(tmp_path)) == ["timeline", "order", "times", "efficiency", "split", "plan"]
    save_bundle(small_bundle(), tmp_path / "alone")
    assert names(gather(read_given([tmp_path / "alone"]))) == ["timeline", "efficiency", "split"]
    facts = gather(read_given([tmp_path / "plan.json"]))
    assert names(facts) == ["plan"]
    assert [row[3] for row in section(facts, "plan").table.rows] == ["v1:0", "v2:0", "v3:0"]  # type: ignore[union-attr]
    (tmp_path / "handoffs.json").write_text('{"unordered": [], "ordered": []}')
    for gone in ("figures.json", "plan.json", "bundle/bundle.json", "ordered/bundle.json"):
        (tmp_path / gone).unlink()
    facts = gather(read_given([tmp_path]))
    assert names(facts) == []
    assert "No step ran under the plan" in facts.answers[1].text


def test_plans_are_put_together_and_say_what_to_set(tmp_path: Path) -> None:
    save_plan(Plan(placement=Placement(2, {"v1": 0, "v2": 1}, (10, 20), 15)), tmp_path / "a.json")
    graph = graph_print(small_bundle().view)
    save_plan(
        Plan(waves=Waves(graph, 2, 0.25, 1000, 900, verdict="tick-tock will help")), tmp_path / "b.json"
    )
    job = GroupedJob("j", (NodeGroup(("x", "y"), 0, 1, 4, 8),), 0, None, UNKNOWN_SHARE)
    groups = Groups(2000, (PlannedJob(job, graph),), ((Turn("j", 0),),), 8, 1.0, 1.5)
    save_plan(Plan(groups=groups), tmp_path / "c.json")
    facts = gather(read_given([tmp_path / name for name in ("a.json", "b.json", "c.json")]))
    assert [row[0] for row in facts.settings.rows] == ["waves", "jobs in one memory", "placement"]
    assert "tick-tock will help; the jobs together run at 1.50 x" in facts.answers[0].text
    rows = section(facts, "plan").table
    assert rows is not None
    assert [row[:4] for row in rows.rows] == [
        ("jobs", "j", 0, "group 0"),
        ("placement", "server 0", "", "v1"),
        ("placement", "server 1", "", "v2"),
    ]


def test_a_plan_without_times_promises_nothing(tmp_path: Path) -> None:
    save_plan(small_plan("tic"), tmp_path / "plan.json")
    facts = gather(read_given([tmp_path / "plan.json"]))
    assert facts.answers[0].text == "Not known: the plan was made without times, and nothing was measured."
    assert facts.figures == ()


def test_memory_is_shown_as_captured_and_as_planned(tfwave: Command, tmp_path: Path) -> None:
    save_bundle(training(8), tmp_path / "b")
    assert tfwave("fit", tmp_path / "b", "--memory", "34MiB", "-o", tmp_path / "p.json").code == 0
    plan = load_plan(tmp_path / "p.json").memory
    assert plan is not None
    facts = gather(read_given([tmp_path / "b", tmp_path / "p.json"]))
    captured, planned = section(facts, "memory").chart["views"]
    assert max(held for _, held in captured["points"]) == pytest.approx(40 * MIB, abs=100)
    held = max(held for _, held in planned["points"])
    assert held <= plan.peak_bytes <= held * (1 + 1 / 128) + 1000  # it is found in steps of a 128th
    assert captured["limit"] == planned["limit"] == 34 * MIB
    first = captured["bands"][0]
    assert (first["name"], first["bytes"], first["made_by"], first["read_by"]) == ("a:0", 8 * MIB, "a", "da")
    assert (first["begin"], first["end"]) == (0.01, 0.075)
    assert any("which comes back" in band["read_by"] for band in planned["bands"])


def test_groups_are_marked_where_their_ops_ran() -> None:
    bundle = training(8)
    ops = ("read", "x", "a", "b", "mask", "loss", "dloss", "db", "da", "g", "update")
    halves = tuple(NodeGroup(own, 0, 1, 4, 8) for own in (ops[:6], ops[6:]))
    job = PlannedJob(GroupedJob("j", halves, 0, None, UNKNOWN_SHARE), graph_print(bundle.view))
    larger = PlannedJob(GroupedJob("i", (NodeGroup(ops, 0, 1, 4, 8),), 0, None, UNKNOWN_SHARE), NO_GRAPH)
    slots = ((Turn("i", 0), Turn("j", 0)), (Turn("j", 1),))
    plan = Plan(groups=Groups(2**30, (larger, job), slots, 8, 1.0, 1.5))
    found = section(gather(Given(("b",), {"captured": bundle}, plan)), "memory").chart["views"][0]["marks"]
    assert list(found) == [
        {"name": "group 0", "begin": 0.0, "end": 0.045},
        {"name": "group 1", "begin": 0.05, "end": 0.095},
    ]


def test_the_second_wave_is_marked() -> None:
    bundle = training(8)
    waves = Waves(graph_print(bundle.view), 2, 0.0, 2**30, 900)
    found = section(gather(Given(("b",), {"captured": bundle}, Plan(waves=waves))), "memory").chart["views"][
        0
    ]
    (mark,) = found["marks"]
    assert mark["name"] == "the second wave begins"
    assert 0.02 < mark["begin"] < 0.06


def test_a_plan_for_another_job_is_refused(tmp_path: Path) -> None:
    save_bundle(training(8), tmp_path / "b")
    run_on_disk(tmp_path / "run")
    with pytest.raises(PlanError, match="another graph"):
        gather(read_given([tmp_path / "b", tmp_path / "run" / "plan.json"]))
    other, own = (
        PlannedJob(
            GroupedJob(name, (NodeGroup(("x",), 0, 1, 4, 8),), 0, None, UNKNOWN_SHARE),
            graph_print(bundle.view),
        )
        for name, bundle in (("j", small_bundle()), ("k", training(8)))
    )
    turns = ((Turn("j", 0), Turn("k", 0)),)
    save_plan(Plan(groups=Groups(2000, (other,), ((Turn("j", 0),),), 8, 1.0, 1.5)), tmp_path / "c.json")
    with pytest.raises(PlanError, match="another graph: the job 'j': the planned graph has"):
        gather(read_given([tmp_path / "b", tmp_path / "c.json"]))
    save_plan(Plan(groups=Groups(2000, (other, own), turns, 8, 1.0, 1.5)), tmp_path / "c.json")
    assert "memory" in names(gather(read_given([tmp_path / "b", tmp_path / "c.json"])))


@settings(max_examples=15, deadline=None, database=None)
@given(st.lists(st.integers(0, 1000), min_size=MOST_POINTS + 1, max_size=3 * MOST_POINTS))
def test_a_thinned_curve_keeps_its_ends_and_its_peak(levels: list[int]) -> None:
    points = [(i / 7, level) for i, level in enumerate(levels)]
    found = thinned(points)
    assert len(found) <= MOST_POINTS + 2
    assert (found[0], found[-1]) == (points[0], points[-1])
    assert set(found) <= set(points)
    for pick in (max, min):
        assert pick(level for _, level in found) == pick(levels)


def test_what_is_no_input_is_refused(tmp_path: Path) -> None:
    run = run_on_disk(tmp_path / "run")
    for paths, says in (
        ([run, run], "give it first, and without bundles"),
        ([run / "bundle"] * 3, "is a third capture"),
        ([run / "logs"], "cannot read plan"),
        ([tmp_path], "is not a run"),
    ):
        with pytest.raises((BundleError, PlanError), match=says):
            read_given(paths)
    for seconds in (
        {},
        SECONDS | {"ordered": []},
        SECONDS | {"ordered": [[]]},
        SECONDS | {"ordered": [[0.0]]},
    ):
        figures = {"network": "", "outputs_equal": True, "step_seconds": seconds}
        (run / "figures.json").write_text(json.dumps(figures))
        with pytest.raises(BundleError, match=r"figures\.json' is malformed: step_seconds"):
            read_given([run])
    with pytest.raises(BundleError, match="nothing to report on"):
        gather(Given((), {}))


def test_two_captures_are_one_without_and_one_under_the_order(tmp_path: Path) -> None:
    for name in ("one", "two"):
        save_bundle(small_bundle(), tmp_path / name)
    assert list(read_given([tmp_path / "one", tmp_path / "two"]).bundles) == ["unordered", "ordered"]


def of_workers(count: int) -> Bundle:
    """Workers that read one variable each, in two traced steps."""
    build, stats = Builder(), StepStats()
    build.const(SERVERS[0], "v")
    for number in range(count):
        worker = f"/job:worker/replica:0/task:{number}/device:CPU:0"
        build.op(worker, f"use{number}", [build.pair("v", SERVERS[0], worker)])
        event = stats.dev_stats.add(device=worker).node_stats.add(node_name=f"use{number}")
        event.all_start_micros, event.op_end_rel_micros = 1_000_000, number + 1
    return replace(small_bundle(), graphs=tuple(build.partitions.values()), steps=(stats, stats))


def test_traces_of_many_workers_are_read_once_and_not_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[StepStats]()

    def counted(stats: StepStats) -> Iterator[tuple[tuple[str, str], tuple[float, float]]]:
        read.append(stats)
        return op_runs(stats)

    monkeypatch.setattr(iterations, "op_runs", counted)
    bundle = of_workers(5)
    found = splits(bundle)
    assert [split.compute for split in found.values()] == pytest.approx([n / 1e6 for n in range(1, 6)])
    assert not iterations.traced_iterations(bundle)  # no transfer was traced
    assert len(read) == 2 * len(bundle.steps)
