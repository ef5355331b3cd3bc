"""Reduces among workers that are not equally fast, against a SimPy program of its own; and the command."""

import json
import random
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import pytest
import simpy

from tests.unit.conftest import Command
from tests.unit.reduce.straggling import Oracle
from tfwave.cost.analytic import LinkModel
from tfwave.errors import CostError
from tfwave.stragglers.forecast import Forecast, choose_terms, forecast, judge, ring_seconds
from tfwave.stragglers.simulate import Reduce, Rule, simulate
from tfwave.stragglers.times import LONGEST, SHORTEST, load_times

WAITS = [Rule(None, 0), Rule(None, 3), Rule(1, 1), Rule(2, 4), Rule(2, 1, 9.0), Rule(4, 3, 5.0)]


def at_once(_: int) -> float:
    """A reduce that takes no time."""
    return 0.0


def check_reduces(ours: list[Reduce], theirs: list[Reduce]) -> None:
    assert [each.gave for each in ours] == [each.gave for each in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert (one.begin, one.go, one.end) == pytest.approx((other.begin, other.go, other.end))


@pytest.mark.parametrize("rule", WAITS, ids=str)
@pytest.mark.parametrize("reduce_seconds", [0.0, 7.25])
def test_a_simulation_is_that_of_simpy(rule: Rule, reduce_seconds: float) -> None:
    for seed in range(5):
        chance = random.Random(seed)
        count = chance.randint(4, 9)
        steps = [[chance.uniform(10, 50 + 30 * i) for _ in range(600)] for i in range(count)]
        probed = [chance.sample(range(count), rule.probes or 0) for _ in range(600)]
        ours = simulate(
            rule, list(map(iter, steps)), iter(probed), reduce_seconds=reduce_seconds, until=1000.0
        )
        env = simpy.Environment()
        oracle = Oracle(env, rule, steps, reduce_seconds)
        env.run(env.process(oracle.reduce_all(probed[: len(ours)])))
        check_reduces(ours, oracle.reduces)


@pytest.mark.parametrize("workers", [4, 100])
@pytest.mark.parametrize("reduce_seconds", [0.0, 0.004, 0.03])
def test_without_stragglers_nothing_is_split(workers: int, reduce_seconds: float) -> None:
    times = {"a": (0.0200, 0.0203, 0.0207), "b": (0.0202, 0.0219)}
    assert not choose_terms(times).stragglers
    for each in forecast(times, workers, (1, 2, 4), lambda _: reduce_seconds):
        assert each.joined == 1.0


def test_steps_further_apart_than_the_grace_are_stragglers() -> None:
    assert choose_terms({"a": (1.0, 1.0), "b": (1.0, 1.2)}).stragglers


def _by_name(found: list[Forecast]) -> dict[str, Forecast]:
    return {each.name: each for each in found}


def test_with_stragglers_fewer_join_and_none_waits_for_the_slowest() -> None:
    chance = random.Random(0)
    times = {str(i): tuple(chance.uniform(0.01, 0.05) for _ in range(200)) for i in range(4)}
    found = _by_name(forecast(times, 64, (1, 2, 4), at_once))
    assert found["barrier"].joined == 1.0
    assert found["probes 4"].joined < found["probes 2"].joined < found["probes 1"].joined < 1
    assert found["probes 4"].wait_seconds < found["probes 1"].wait_seconds < found["barrier"].wait_seconds
    assert found["probes 2"].gradients_per_second > 1.3 * found["barrier"].gradients_per_second
    never_waiting = 64 / 0.03
    assert found["probes 2"].gradients_per_second < 1.05 * never_waiting


def test_the_last_reduce_counts_to_its_end() -> None:
    barrier = forecast({"a": (1.0,)}, 2, (1,), lambda _: 9.0)[0]
    assert barrier.gradients_per_second == pytest.approx(2 / 10)


def test_a_ring_passes_nearly_twice_the_gradients_in_chunks() -> None:
    link = LinkModel(0.001, 100.0)
    assert ring_seconds(1, 1000, link) == 0.0
    assert ring_seconds(4, 1000, link) == pytest.approx(2 * 3 / 4 * 1000 / 100 + 2 * 3 * 0.001)


def test_the_verdict_is_the_best_of_those_that_wait_less() -> None:
    def row(name: str, rate: float) -> Forecast:
        return Forecast(name, 4, 0.0, 1.0, rate)

    said = judge([row("barrier", 100.0), row("all", 103.0), row("probes 2", 140.0), row("probes 4", 120.0)])
    assert (said.workers, said.best, said.gain, said.pays) == (4, "probes 2", pytest.approx(1.4), True)
    assert judge([row("barrier", 100.0), row("all", 139.0), row("probes 2", 140.0)]).best == "all"
    assert not judge([row("barrier", 100.0), row("all", 104.0)]).pays


def test_no_more_are_probed_than_there_are() -> None:
    assert set(_by_name(forecast({"a": (1.0,)}, 2, (1, 2, 4), at_once))) == {
        "barrier",
        "all",
        "probes 1",
        "probes 2",
    }


def test_who_was_measured_and_is_not_simulated_changes_nothing() -> None:
    alike = {"a": (0.020, 0.021), "b": (0.020, 0.0205)}
    found = forecast({**alike, "c": (1.0,)}, 2, (1, 2), at_once)
    assert found == forecast(alike, 2, (1, 2), at_once)
    assert {each.joined for each in found} == {1}


def test_a_reduce_is_paid_for_at_a_barrier_and_hidden_otherwise() -> None:
    def steady() -> list[Iterator[float]]:
        return [repeat(10.0), repeat(10.0)]

    none = chain.from_iterable(repeat([[]]))
    stands = simulate(Rule(None, 0), steady(), none, reduce_seconds=5.0, until=60.0)
    goes_on = simulate(Rule(None, 1), steady(), none, reduce_seconds=5.0, until=60.0)
    assert [each.go for each in stands] == [10, 25, 40, 55]
    assert [each.go for each in goes_on] == [10, 20, 30, 40, 50, 60]


def test_steps_of_very_different_lengths_end() -> None:
    for each in forecast({"a": (SHORTEST,), "b": (LONGEST,)}, 2, (1,), at_once):
        assert 0 < each.joined <= 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot read step times"),
        ("[" * 100_000, "cannot read step times"),
        ("[]", "has no step times"),
        ("{}", "has no step times"),
        ('{"a": [1], "b": []}', "worker 'b'"),
        ('{"a": [1, 0]}', "worker 'a'"),
        ('{"a": [NaN]}', "worker 'a'"),
        ('{"a": [true]}', "worker 'a'"),
        ('{"a": [1' + "0" * 400 + "]}", "worker 'a'"),
        ('{"a": 3}', "worker 'a'"),
        ('{"a": [1e-10]}', "worker 'a'"),
        ('{"a": [1e7]}', "worker 'a'"),
    ],
)
def test_a_file_without_times_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "times.json"
    path.write_text(text)
    with pytest.raises(CostError, match=said):
        load_times(path)


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    path = tmp_path / "times.json"
    path.write_text('{"worker:0": [0.02, 0.03], "worker:1": [0.02, 0.09]}')
    return path


def test_the_command_prints_a_row_for_each_way_and_the_caution(tfwave: Command, measured: Path) -> None:
    ran = tfwave("stragglers", measured, "--workers", 2, "--workers", 8)
    assert (ran.code, ran.err) == (0, "")
    shown = " ".join(ran.out.split())
    for text in (
        "barrier",
        "probes 4",
        "joined",
        "gradients per second are not loss",
        "grace 2.50 ms",
        "2 workers: ",
        "8 workers: ",
    ):
        assert text in shown


def test_the_command_prints_json(tfwave: Command, measured: Path) -> None:
    ran = tfwave(
        "stragglers", measured, "--gradients", "1MB", "--bandwidth", "400mbit", "--latency", 0, "--json"
    )
    found = json.loads(ran.out)
    assert [each["name"] for each in found["forecasts"]] == [
        "barrier",
        "all",
        "probes 1",
        "probes 2",
        "2 groups",
    ]
    ended_in_turn = found["forecasts"][0]["gradients_per_second"]
    at_once = json.loads(tfwave("stragglers", measured, "--json").out)["forecasts"][0]["gradients_per_second"]
    assert 2 / ended_in_turn - 2 / at_once == pytest.approx(0.02, rel=0.2)
    assert found["verdicts"][0]["workers"] == 2
    assert found["terms"] == {"grace": pytest.approx(0.0025), "ahead": 4, "stragglers": True}


def test_the_command_shows_the_terms_of_those_that_are_simulated(tfwave: Command, tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    path.write_text('{"a": [0.02], "b": [0.02], "c": [1]}')
    assert "up to 1 gradients ahead: no stragglers" in tfwave("stragglers", path, "--workers", 2).out
    assert "up to 4 gradients ahead" in tfwave("stragglers", path, "--workers", 2, "--workers", 3).out


def test_the_command_says_where_nothing_is_gained(tfwave: Command, tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    path.write_text('{"a": [0.02, 0.0201], "b": [0.0201, 0.02]}')
    assert "no gain" in tfwave("stragglers", path).out


def test_the_command_refuses_what_is_no_file_of_times(tfwave: Command, tmp_path: Path) -> None:
    ran = tfwave("stragglers", tmp_path / "none.json")
    assert ran.code == 2
    assert "cannot read step times" in ran.err
