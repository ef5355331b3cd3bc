"""What a page says of waves that were given, planned or chosen."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.waves import rise_and_fall
from tfwave.plan.fingerprint import NO_GRAPH
from tfwave.plan.waves import Waves
from tfwave.report.page.fill import as_markdown, html
from tfwave.report.page.waves import RunningWaves, wave_facts
from tfwave.report.waves import WaveReport
from tfwave.runtime.waves.options import WaveOptions

MIB = 2**20
GIVEN = RunningWaves(WaveOptions(2, "batch", 0.25), 4, (MIB, 3 * MIB))
PLANNED = Waves(NO_GRAPH, 2, 0.25, 48 * MIB, 40 * MIB, verdict="two waves gain 5%")


def set_to(waves: RunningWaves) -> str:
    ((what, said, by),) = wave_facts(waves).settings.rows
    assert (what, by) == ("waves", "tfwave.distribute.waves, or tfwave.keras.TickTockCallback")
    return str(said)


def test_waves_in_numbers_are_told_with_their_copies() -> None:
    facts = wave_facts(GIVEN)
    worth, fits, to_set = facts.answers
    assert worth.text.startswith("Not known: nothing was compared")
    assert fits.text.startswith("Nothing limits the CPU's pool")
    assert to_set.text == "2 waves, offset 0.25, average batch."
    assert [(figure.value, figure.words) for figure in facts.figures] == [
        ("2", "waves on each of 4 replicas"),
        ("4 MiB", "are 2 variables that the further waves have of their own"),
    ]
    assert facts.sections == ()
    assert to_set.text in html(facts)
    assert "**4 MiB** are 2 variables" in as_markdown(facts)


@pytest.mark.parametrize(("needed", "good"), [(48, True), (49, False)])
def test_waves_of_a_plan_are_held_against_the_pool(needed: int, good: bool) -> None:
    planned = replace(PLANNED, needed_bytes=needed * MIB)
    facts = wave_facts(replace(GIVEN, replicas=1, limit=48 * MIB, planned=planned))
    worth, fits, _ = facts.answers
    assert worth.text == "Forecast, nothing was compared: two waves gain 5%."
    assert fits.text == f"The waves need up to {needed} MiB by the model, in a pool of 48 MiB."
    assert fits.good is good
    assert [figure.value for figure in facts.figures] == ["2", "4 MiB", f"{needed} MiB"]
    assert facts.figures[0].words == "waves a call"


def test_a_limit_alone_does_not_tell_whether_they_fit() -> None:
    fits = wave_facts(replace(GIVEN, limit=48 * MIB)).answers[1]
    assert fits.text.startswith("Not known: there is a pool of 48 MiB, and no step was measured")
    assert fits.good is None


def test_what_a_measured_step_holds_is_drawn_with_the_second_wave() -> None:
    memory = rise_and_fall(4, 3)
    chosen = replace(GIVEN, limit=50, planned=PLANNED, memory=memory, second_begins=2.5)
    (section,) = wave_facts(chosen).sections
    (view,) = section.chart["views"]
    assert section.name == "memory"
    assert (view["unit"], view["limit"]) == ("ms", 50)
    assert max(held for _, held in view["points"]) == memory.profile.peak
    assert view["marks"] == (
        {"name": "the second wave begins", "begin": 2500.0, "end": memory.seconds * 1e3},
    )
    (alone,) = wave_facts(replace(chosen, second_begins=None)).sections[0].chart["views"]
    assert alone["marks"] == ()


def test_other_ways_to_run_are_said() -> None:
    assert set_to(replace(GIVEN, options=WaveOptions(1))) == "no waves"
    assert set_to(replace(GIVEN, options=WaveOptions.parallel(3))) == "3 waves, across devices, average batch"


def test_without_a_directory_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    WaveReport(None).leave(GIVEN.options, None, 1, GIVEN.copies)
    assert list(tmp_path.iterdir()) == []
