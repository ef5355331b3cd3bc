"""The number of waves of a model parallel step, from its capture to the pass."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import tfwave
from grappler_passes.tick_tock_partitions import TickTockPartitions
from tests.numerics.waves.partitioned import BATCH, WIDTH, batches, fed, partitioned
from tfwave.cli.app import main
from tfwave.errors import PassError
from tfwave.plan.io import load_plan

v1 = tf.compat.v1
pytestmark = pytest.mark.tensorflow

DEVICES, DOUBLE = 3, 8


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the graph of three layers on three devices, and a bundle of its steps."""
    folder, training = tmp_path_factory.mktemp("captured"), partitioned("momentum", DEVICES)
    (folder / "train.pb").write_bytes(training.graph)
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(v1.GraphDef.FromString(training.graph), name="")
        config = v1.ConfigProto(device_count={"CPU": DEVICES})
        with v1.Session(graph=graph, config=config) as session:
            session.run(training.init)
            (given,) = fed(training, batches(1))
            wanted = [*training.fetches, graph.get_operation_by_name(training.target)]
            tfwave.capture_run(session, wanted, feed_dict=given, out=str(folder / "bundle"))
    return folder


def waves(folder: Path, monkeypatch: pytest.MonkeyPatch, *options: object) -> int:
    """What the command exits with."""
    told = ["waves", folder / "bundle", "--graph", folder / "train.pb", *options]
    monkeypatch.setattr(sys, "argv", ["tfwave", *map(str, told)])
    with pytest.raises(SystemExit) as left:
        main()
    assert isinstance(left.value.code, int)
    return left.value.code


def test_the_number_goes_to_the_pass(
    captured: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever it is: it depends on how even the partitions ran."""
    plan = captured / "plan.json"
    options = ("--memory", "64MiB", "--compute-share", 1 / DEVICES, "--json", "-o", plan)
    code = waves(captured, monkeypatch, *options)
    told: Any = json.loads(capsys.readouterr().out)
    assert code == int(told["waves"] == 1)
    assert told["most"] == DEVICES
    assert [one["sent_bytes"] for one in told["partitions"]] == [BATCH * WIDTH * DOUBLE] * (DEVICES - 1) + [0]
    for one in told["partitions"]:
        assert one["gradient_bytes"] == (WIDTH + 1) * WIDTH * DOUBLE
        assert one["resident_bytes"] >= 2 * one["gradient_bytes"]
        assert one["forward_seconds"] > 0 < one["backward_seconds"]
    found = load_plan(plan)
    assert found.waves is not None
    assert (found.waves.count, found.waves.verdict) == (told["waves"], told["text"])
    item = partitioned("momentum", DEVICES).item
    by_plan, by_hand = TickTockPartitions(plan=found)(item), TickTockPartitions(told["waves"])(item)
    assert by_plan.item.graph == by_hand.item.graph
    with pytest.raises(PassError, match=f"waves is 4, and the plan says {told['waves']}: leave it out"):
        TickTockPartitions(4, plan=found)


def test_one_wave_is_an_answer_with_its_reason(
    captured: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One batch keeps all cores busy; or no device has room for a second."""
    assert waves(captured, monkeypatch, "--memory", "64MiB", "--compute-share", 1, "--json") == 1
    told: Any = json.loads(capsys.readouterr().out)
    slower = r"would slow the tick wave by \d+%"
    assert re.fullmatch(f"1 of 3 waves: 3 {slower}, 2 {slower}", told["text"])
    parts = ("resident_bytes", "kept_bytes", "scratch_bytes")
    alone = max(sum(one[part] for part in parts) for one in told["partitions"])
    limit = DEVICES * (alone + alone // 20)
    assert waves(captured, monkeypatch, "--memory", limit, "--compute-share", 0.01) == 1
    shown = capsys.readouterr().out
    assert re.search(r"1 of 3 waves: no more than 1 fit \S+ \S+ of a device", shown)
    assert "number of waves: 1" in shown
