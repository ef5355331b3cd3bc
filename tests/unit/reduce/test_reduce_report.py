"""What reduces were like for each worker, added up by hand, and the page that says so."""

import re
from pathlib import Path

import pytest

import tfwave.report.page
from tfwave.proto.reduce_pb2 import Tick
from tfwave.reduce.held import Local
from tfwave.reduce.options import Options
from tfwave.reduce.page import MOST_POINTS, reduce_facts
from tfwave.reduce.record import RECENT_REDUCES, RECENT_STEPS, ReduceRecord
from tfwave.reduce.update import ReduceFigures
from tfwave.report.page.facts import Facts, Section
from tfwave.report.page.fill import as_markdown, html

OPTIONS = Options(rank=1, workers=3, coordinator="127.0.0.1:1", probes=2)


def tick(rank: int, gave: int = 1, waited: float = 0.0, *steps: float) -> Tick:
    return Tick(rank=rank, gave=gave, waited_seconds=waited, step_seconds=steps)


def record(local: Local = "linear") -> ReduceRecord:
    """All join; then worker 2 is late; then it gives two gradients, and last is worker 0."""
    made = ReduceRecord(local)
    made.note(1, [tick(2, 1, 0.01, 0.09), tick(0, 1, 0.03, 0.02), tick(1, 1, 0.05, 0.01)])
    made.note(2, [tick(0, 1, 0.01, 0.02), tick(1, 1, 0.02, 0.03), tick(2, 0, 0.0)])
    made.note(3, [tick(0, 1, 0.0, 0.06), tick(1, 1, 0.02, 0.03), tick(2, 2, 0.04, 0.08, 0.1)])
    return made


def facts(made: ReduceRecord, **figures: float) -> Facts:
    return reduce_facts(OPTIONS, ReduceFigures(**figures), made.seen())  # type: ignore[arg-type]


def section(found: Facts, name: str) -> Section:
    return next(s for s in found.sections if s.name == name)


@pytest.mark.parametrize(("local", "weights"), [("linear", [3, 3, 2]), ("sum", [3, 3, 3])])
def test_each_workers_part_is_added_up(local: Local, weights: list[int]) -> None:
    seen = record(local).seen()
    first, second, third = seen.workers
    assert [worker.rank for worker in seen.workers] == [0, 1, 2]
    assert [(w.reduces, w.joined, w.last, w.made) for w in seen.workers] == [
        (3, 3, 2, 3),
        (3, 3, 0, 3),
        (3, 2, 1, 3),
    ]
    assert [w.step for w in seen.workers] == [0.02, 0.03, 0.09]
    assert [seen.share(w) for w in seen.workers] == [weight / sum(weights) for weight in weights]
    assert third.kept_waiting == pytest.approx(0.04)
    assert first.kept_waiting == pytest.approx(0.01 + 0.04)
    assert (second.mean_wait, second.longest_wait) == (pytest.approx(0.03), 0.05)
    assert third.mean_wait == pytest.approx(0.025)
    assert seen.complete == 2


def test_one_worker_keeps_nobody_waiting() -> None:
    made = ReduceRecord("linear")
    made.note(1, [tick(0, 1, 0.02)])
    made.note(2, [tick(0, 1, 0.02), tick(1, 0)])
    (alone, late) = made.seen().workers
    assert (alone.last, alone.kept_waiting, alone.step) == (0, 0.0, None)
    assert (late.joined, late.mean_wait, made.seen().share(late)) == (0, 0.0, 0.0)
    found = facts(made, reduces=2)
    assert (found.answers[0].text, found.answers[0].good) == ("Nobody.", True)
    assert [s.name for s in found.sections] == ["reduces", "ticks"]


def test_what_was_seen_stays_as_it_was() -> None:
    made = record()
    before = made.seen()
    made.note(4, [tick(0, 1, 0.0, 0.5)])
    assert (before.workers[0].reduces, list(before.workers[0].steps)) == (3, [0.02, 0.02, 0.06])
    assert len(before.recent) == 3


def test_a_long_training_keeps_the_newest() -> None:
    made = ReduceRecord("linear")
    for number in range(RECENT_REDUCES + 1):
        made.note(number, [tick(0, 1, 0.0, *([1.0] * 100 if number else [9.0] * RECENT_STEPS))])
    seen = made.seen()
    assert seen.workers[0].made == RECENT_STEPS + 100 * RECENT_REDUCES
    assert set(seen.workers[0].steps) == {1.0}
    assert len(seen.workers[0].steps) == RECENT_STEPS
    assert [number for number, _ in seen.recent] == list(range(1, RECENT_REDUCES + 1))
    (curve,) = section(facts(made, reduces=1), "times").chart["modes"]
    assert len(curve["ms"]) == MOST_POINTS


def test_the_page_says_who_is_waited_for_first() -> None:
    found = facts(record(), reduces=3, joined=8 / 9, dropped=1, broken=2)
    who, joined, to_set = found.answers
    assert who.text == (
        "Worker 0 most: it came last in 2 of the 3 reduces that it joined, 25.00 ms after the first one (mean)."
    )
    assert joined.text == "2 of 3 reduces had a gradient of every worker; in the mean 89% of them joined."
    assert (who.good, joined.good) == (None, None)
    assert to_set.text == "probes 2, local linear, staleness 32."
    assert [figure.value for figure in found.figures] == ["3", "89%", "50.00 ms", "1"]
    assert facts(record(), reduces=2).answers[1].good is True


def test_its_tables_have_each_worker_and_each_reduce() -> None:
    found = facts(record(), reduces=3)
    parts, ticks = section(found, "reduces").table, section(found, "ticks").table
    assert parts is not None
    assert ticks is not None
    assert parts.rows[2] == (2, 3, "90.00 ms", 3, 2, "25.0%", 1, "40.00 ms", "25.00 ms", "40.00 ms")
    assert {len(row) for row in parts.rows} == {len(parts.columns)}
    assert list(ticks.rows[:3]) == [(3, 0, 1, "0.00 ms"), (3, 1, 1, "20.00 ms"), (3, 2, 2, "40.00 ms")]
    assert ticks.rows[5] == (2, 2, 0, "late")
    assert section(found, "times").chart["modes"][2] == {"mode": "worker 2", "ms": [80.0, 90.0, 100.0]}


def test_the_page_draws_each_section_and_the_markdown_has_the_same() -> None:
    found = facts(record(), reduces=3)
    script = (Path(tfwave.report.page.__file__).parent / "templates" / "start.js").read_text()
    drawn = set(re.findall(r"^  (\w+): ", script, re.MULTILINE))
    assert {s.name for s in found.sections} <= drawn
    page, text = html(found), as_markdown(found).replace("\\", "")
    for answer in found.answers:
        assert answer.text in page
        assert answer.text in text
    assert "| 2 | 3 | 90.00 ms | 3 | 2 | 25.0% | 1 |" in text
