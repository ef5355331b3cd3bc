"""What the benchmark of waves in a limited pool runs, and how it searches, keeps and sums up what comes of it."""

import json
import math
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.unit.waves.test_tick_tock import trained
from tfwave.memory.slots import room
from tfwave.proto.tensorflow_pb2 import GraphDef
from tools.bench.memory.limited import Log, largest
from tools.bench.memory.tick_tock import kept_limits, over_gang
from tools.bench.memory.tick_tock_modes import (
    GANG,
    MB,
    REPLICAS,
    WAVES,
    Case,
    least_limit,
    limits_between,
    program,
)
from tools.bench.memory.tick_tock_trials import Trial, trial_of

GATE = "tick_tock/gates/1"


@pytest.mark.parametrize("top", [0, 1, 2, 17, 63, 99])
@pytest.mark.parametrize("start", [1, 20, 99])
def test_the_largest_place_is_found_in_few_trials(top: int, start: int) -> None:
    tried: list[int] = []

    def once(place: int) -> bool:
        tried.append(place)
        return place <= top

    assert largest(range(1, 100), start, once, lambda place: place <= top) == top
    assert len(tried) == len(set(tried)) <= 2 * math.ceil(math.log2(100))
    assert set(tried) <= set(range(1, 100))


def test_a_place_that_holds_only_once_is_none() -> None:
    assert largest(range(1, 50), 7, lambda place: place <= 20, lambda place: place <= 17) == 17
    assert largest(range(1, 50), 7, lambda place: place <= 20, lambda _: False) == 0


def test_what_always_holds_is_found_in_few_trials_below_what_held_once() -> None:
    tried: list[int] = []

    def always(place: int) -> bool:
        tried.append(place)
        return place <= 17

    assert largest(range(1, 500), 7, lambda place: place <= 400, always) == 17
    assert len(tried) == len(set(tried)) <= 2 * math.ceil(math.log2(500))


def test_the_log_forgets_a_line_that_was_cut_short(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    assert list(log.lines()) == []
    log.add({"a": 1})
    log.add({"a": 2})
    whole = log.path.read_text()
    log.path.write_text(whole + '{"a": 3')
    assert list(log.lines()) == [{"a": 1}, {"a": 2}]
    assert log.path.read_text() == whole


def test_a_trial_is_what_its_line_says() -> None:
    trial = Trial(Case("bert", WAVES, 8, 64 * MB, 0.3), 2, "ok", 5, (0.1, 0.2), (("0x1p+0", "0x1p+1"),))
    assert trial_of(json.loads(json.dumps(asdict(trial)))) == trial


def test_limits_are_whole_megabytes_with_the_margin() -> None:
    for peak in (1, 50 * MB, 50 * MB + 1, 977_777_777):
        limit = least_limit(peak)
        assert limit % MB == 0
        assert room(limit, 2) >= peak > room(limit - MB, 2)
    assert limits_between(10 * MB, 20 * MB, 3) == [10 * MB, 15 * MB, 20 * MB]
    assert limits_between(10 * MB, 12 * MB, 5) == [10 * MB, 11 * MB, 12 * MB]
    assert limits_between(10 * MB, 10 * MB, 5) == [10 * MB]


def gate_of(mode: str, offset: float | None) -> list[str]:
    graph = program(trained().graph, Case("model", mode, 2, MB, offset)).graph
    return next(list(node.input) for node in graph.node if node.name == GATE)


def test_gang_scheduling_runs_the_graph_as_it_is() -> None:
    graph = trained().graph
    run = program(graph, Case("model", GANG, 2, MB))
    assert run.graph == graph
    assert run.calls == ((("loss:0",), ("train",)),)


def test_waves_wait_for_each_other_and_replicas_do_not() -> None:
    assert gate_of(WAVES, 0.0) == ["^loss"]
    assert set(gate_of(WAVES, 1.0)) == {"^gradient0", "^gradient1"}
    assert gate_of(REPLICAS, None) == []
    run = program(trained().graph, Case("model", WAVES, 2, MB, 0.5))
    assert run.calls == ((("loss:0", "tick_tock/1/loss:0"), ("train", "tick_tock/1/train")),)


def test_replicas_average_over_the_call() -> None:
    ops = {node.name: node.op for node in replicas().node}
    assert ops["tick_tock/average/gradient0_0/sum"] == "AddN"
    assert not any(name.endswith("/kept") for name in ops)


def replicas() -> GraphDef:
    return program(trained().graph, Case("model", REPLICAS, 2, MB)).graph


def test_each_ways_batch_is_the_total() -> None:
    assert Case("model", GANG, 12, MB).each == 12
    assert Case("model", REPLICAS, 12, MB).each == 6
    assert Case("model", WAVES, 12, MB, 0.5).each == 6


def row(outcome: str = "ok", loss: str = "a", batch: int = 1) -> dict[str, object]:
    return {"model": "m", "batch_each": batch, "outcome": outcome, "of_limit": 0.91234, "losses": ((loss,),)}


def test_kept_limits_are_counted_and_losses_compared_by_batch() -> None:
    found = kept_limits([row(), row(), row(loss="b", batch=2), row("exhausted", "")])
    assert (found["trials"], found["kept"], found["share"]) == (4, 3, 0.75)
    assert found["of_limit"] == [0.912] * 3
    assert found["losses_equal"]
    assert [missed["outcome"] for missed in found["missed"]] == ["exhausted"]
    assert all("losses" not in one for one in found["all"])
    assert not kept_limits([row(), row(loss="b")])["losses_equal"]


def test_batches_are_compared_with_gang_scheduling_of_the_same_model() -> None:
    rows = [
        {"model": "a", "way": "auto", "batch": 30},
        {"model": "a", "way": "gang", "batch": 20},
        {"model": "b", "way": "auto", "batch": 30},
        {"model": "b", "way": "gang", "batch": 0},
    ]
    assert [row["over_gang"] for row in over_gang(rows)] == [1.5, 1.0, None, None]
