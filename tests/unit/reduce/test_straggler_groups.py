"""Groups of workers that meet at a parameter server: against a SimPy program of its own; and when they pay."""

import json
import random
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import simpy

from tests.unit.conftest import Command
from tests.unit.reduce.straggling import GroupOracle, Oracle
from tests.unit.reduce.test_stragglers import check_reduces
from tfwave.cost.analytic import LinkModel
from tfwave.stragglers.forecast import Forecast, exchange_seconds, forecast, judge, ring_seconds
from tfwave.stragglers.groups import CUTS, groupings, members
from tfwave.stragglers.meetings import BETWEEN, meet
from tfwave.stragglers.simulate import Ring, Rule
from tfwave.stragglers.times import Times

MORE = 5000
"""Steps and probes of a worker: more than there is time for."""


def at_once(_: int) -> float:
    """A reduce that takes no time."""
    return 0.0


def groups_of(found: list[Forecast]) -> Forecast:
    return found[-1]


def papers_times(base: float = 0.02, slower: float = 0.05, workers: int = 8) -> Times:
    """Sec. 5.4's two groups, with a base: delays of up to 50 ms, and of 50 to 100 ms in the second half."""
    chance = random.Random(0)
    lows = [slower * (2 * i >= workers) for i in range(workers)]
    return {
        str(i): tuple(base + low + chance.uniform(0, 0.05) for _ in range(50)) for i, low in enumerate(lows)
    }


@pytest.mark.parametrize("exchange", [0.5, 40.0, 400.0])
@pytest.mark.parametrize("reduce_seconds", [0.25, 7.25])
def test_meetings_are_those_of_simpy(exchange: float, reduce_seconds: float) -> None:
    until = 4000.0
    for seed in range(3):
        chance = random.Random(seed)
        rings, oracles = list[Ring](), list[GroupOracle]()
        env = simpy.Environment()
        server = simpy.Resource(env)
        for group in range(3):
            count = chance.randint(1, 4)
            rule = Rule(chance.randint(1, count), chance.choice([1, 4]), chance.choice([0.0, 5.0]))
            steps = [[chance.uniform(10, 30 + 40 * group) for _ in range(MORE)] for _ in range(count)]
            probed = [chance.sample(range(count), rule.probes or 0) for _ in range(MORE)]
            rings.append(Ring(rule, list(map(iter, steps)), iter(probed), reduce_seconds))
            oracle = GroupOracle(Oracle(env, rule, steps, reduce_seconds), probed, server, exchange)
            oracles.append(oracle)
        lives = [env.process(oracle.live(until)) for oracle in oracles]
        ours = meet(rings, exchange_seconds=exchange, until=until)
        env.run(simpy.AllOf(env, lives))
        env.run(until=env.now + 4 * exchange)  # leaders that are still away
        for ring, meetings, oracle in zip(rings, ours, oracles, strict=True):
            check_reduces(ring.done, oracle.ring.reduces)
            assert len(meetings) == len(oracle.meetings) > 2
            for one, other in zip(meetings, oracle.meetings, strict=True):
                assert (one.asked, one.ended) == pytest.approx((other.asked, other.ended))


def test_no_group_goes_on_for_long_without_the_others() -> None:
    """However busy the server is, what a group did is known to it but for so many reduces."""

    def ring() -> Ring:
        return Ring(Rule(1, 1), [iter([1.0] * MORE)], iter([[0]] * MORE), 0.5)

    rings = [ring(), ring()]
    for group, meetings in zip(rings, meet(rings, exchange_seconds=50.0, until=1000.0), strict=True):
        for one, other in pairwise(meetings):
            made = sum(one.asked < reduce.end <= other.asked for reduce in group.done)
            assert made == BETWEEN
            assert other.asked >= one.ended
        assert len(group.done) < 2 * BETWEEN * (len(meetings) + 1)


def test_groups_are_neighbours_in_speed_parted_at_the_widest_gaps() -> None:
    times = {"a": (0.020, 0.021), "b": (0.050, 0.052), "c": (0.022, 0.021), "d": (0.031, 0.030)}
    two, other, three = groupings(times)
    assert (two, other) == ((("a", "c", "d"), ("b",)), (("a", "c"), ("b", "d")))
    assert three == (("a", "c"), ("d",), ("b",))
    assert len(three) == CUTS + 1


def test_the_names_of_workers_do_not_change_their_groups() -> None:
    chance = random.Random(1)
    speeds = [chance.uniform(1, 9) for _ in range(12)]
    for _ in range(20):
        names = [f"w{i}" for i in range(len(speeds))]
        chance.shuffle(names)
        times = {name: (speed,) for name, speed in sorted(zip(names, speeds, strict=True))}
        found = [
            sorted(sorted(times[name][0] for name in each) for each in groups) for groups in groupings(times)
        ]
        plain = {f"{i:02}": (speed,) for i, speed in enumerate(speeds)}
        assert found == [
            sorted(sorted(plain[name][0] for name in each) for each in groups) for groups in groupings(plain)
        ]


def test_measured_workers_are_taken_in_turn() -> None:
    times: Times = {"a": (1.0,), "b": (5.0,), "c": (1.1,)}
    assert members((("a", "c"), ("b",)), times, 7) == [[0, 2, 3, 5, 6], [1, 4]]
    assert members((("a",), ("c",), ("b",)), times, 2) == [[0], [1]]


def test_workers_measured_alike_make_no_groups() -> None:
    found = forecast({"a": (1.0, 3.0), "b": (3.0, 1.0)}, 8, (1,), at_once)
    assert not any(each.groups for each in found)
    assert (judge(found).groups_gain, judge(found).groups_pay) == (0.0, False)


def test_a_group_pays_for_a_ring_of_its_own() -> None:
    asked = set[int]()

    def note(workers: int) -> float:
        asked.add(workers)
        return 0.0

    forecast({"a": (1.0,), "b": (5.0,), "c": (1.0,)}, 6, (1,), note)
    assert asked == {6, 4, 2}


def test_no_group_waits_for_another() -> None:
    times = {"a": (0.020, 0.021), "b": (0.050, 0.052), "c": (0.022, 0.021), "d": (0.051, 0.050)}
    found = groups_of(forecast(times, 8, (2,), at_once))
    assert found.groups == (("a", "c"), ("b", "d"))
    assert found.gradients_per_second == pytest.approx(4 / 0.021 + 4 / 0.051, rel=0.05)


def test_alike_workers_are_told_no_groups_where_the_papers_split_would_part_them() -> None:
    """Single iterations of 8 workers with exponential delays: most of the spread is more than the mean."""
    parted = 0
    for seed in range(40):
        chance = random.Random(seed)
        times = {str(i): (0.02 + chance.expovariate(1 / 0.025),) for i in range(8)}
        single = [measured for (measured,) in times.values()]
        parted += max(single) - min(single) > sum(single) / 8
        assert not judge(forecast(times, 8, (1, 2, 4), at_once)).groups_pay
    assert parted > 20


@pytest.mark.parametrize("workers", [8, 100])
@pytest.mark.parametrize("gradients", [1e5, 16e6])
def test_the_papers_own_groups_do_not_pay(workers: int, gradients: float) -> None:
    """A flat ring whose workers run ahead waits for nobody either."""
    link = LinkModel(50e-6, 1.25e8)
    ring = partial(ring_seconds, gradients=gradients, link=link)
    said = judge(forecast(papers_times(), workers, (1, 2, 4), ring, exchange_seconds(gradients, link)))
    assert said.pays
    assert 0 < said.groups_gain < 1.01
    assert not said.groups_pay


def test_groups_pay_where_some_are_slower_by_more_than_others_may_run_ahead() -> None:
    times = {"fast": (0.02, 0.021), "slow": (1.0, 1.05)}
    said = judge(forecast(times, 8, (1, 2), at_once))
    assert said.groups_pay
    assert said.groups_gain > 1.3
    assert said.best in {"probes 1", "probes 2"}


def test_a_server_that_is_slow_takes_from_groups_and_from_nobody_else() -> None:
    times = {"fast": (0.02, 0.021), "slow": (1.0, 1.05)}
    quick, slow = (forecast(times, 8, (1, 2), at_once, seconds) for seconds in (0.0, 2.0))
    assert quick[:-1] == slow[:-1]
    assert groups_of(slow).gradients_per_second < 0.5 * groups_of(quick).gradients_per_second
    assert (groups_of(slow).apart_seconds or 0) >= 2 * 2.0 > (groups_of(quick).apart_seconds or 9) / 3


def test_a_meeting_carries_the_gradients_there_and_back() -> None:
    assert exchange_seconds(1000, LinkModel(0.001, 100.0)) == pytest.approx(2 * 10.001)


def test_a_thousand_workers() -> None:
    times = {str(i): (0.02 * (1 + i % 3), 0.021 * (1 + i % 3)) for i in range(6)}
    found = groups_of(forecast(times, 1000, (2,), at_once))
    assert sorted(name for each in found.groups for name in each) == sorted(times)
    assert found.gradients_per_second == pytest.approx(
        sum(1000 / 3 / (0.0205 * i) for i in (1, 2, 3)), rel=0.05
    )


@pytest.fixture
def far_apart(tmp_path: Path) -> Path:
    path = tmp_path / "times.json"
    path.write_text('{"gpu": [0.02, 0.021], "cpu": [1.0, 1.05]}')
    return path


def test_the_command_says_whether_groups_pay_and_which(tfwave: Command, far_apart: Path) -> None:
    shown = " ".join(tfwave("stragglers", far_apart, "--workers", 8).out.split())
    assert "2 groups would make" in shown
    assert "fastest first: gpu | cpu" in shown
    near = " ".join(tfwave("stragglers", far_apart, "--workers", 8, "--gradients", "1GB").out.split())
    assert "no gain from groups" in near


def test_the_command_prints_groups_as_json(tfwave: Command, far_apart: Path) -> None:
    found = json.loads(tfwave("stragglers", far_apart, "--workers", 8, "--json").out)
    assert found["forecasts"][-1]["groups"] == [["gpu"], ["cpu"]]
    assert found["forecasts"][0]["groups"] == []
    assert found["verdicts"][0]["groups_pay"]
