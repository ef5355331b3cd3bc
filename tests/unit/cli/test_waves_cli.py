"""`tfwave waves`: what it says of tick-tock before a run, and what it refuses."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from grappler_passes.tick_tock import TickTock
from tests.memory_steps import DEVICE, Step, bundle_of, counted, graph
from tests.unit.conftest import Command, refused
from tests.unit.waves.test_wave_fit import chain_item
from tfwave.bundle.bundle import load_bundle, save_bundle
from tfwave.graph.load import load_graph
from tfwave.graph.step import step_of
from tfwave.memory.slots import room
from tfwave.passes.text import parse_pipeline
from tfwave.plan.io import load_plan

MB = 1_000_000
OPS = 10
"""Each way: so many take 1 MB, one after another, and as many more give it back; twice as many do nothing."""


def save(path: Path, core_seconds: float | None) -> Path:
    takes = [(f"a{i}", "Fill", ["c"]) for i in range(OPS)]
    gives = [(f"b{i}", "Sum", [f"a{OPS - 1 - i}"]) for i in range(OPS)]
    rest = [(f"d{i}", "NoOp", [f"^b{OPS - 1}"]) for i in range(2 * OPS)]
    step = Step()
    for i in range(OPS):
        end = 10 * (2 * OPS - i)
        step.run(f"a{i}", 10 * i, (MB, i + 1), lasts=10, allocated=[MB], freed=[(end, MB)])
    for place, (name, _, _) in enumerate([*gives, *rest], OPS):
        step.run(name, 10 * place, lasts=10)
    made = bundle_of([graph(("c", "Const", []), *takes, *gives, *rest)], step.stats)
    save_bundle(counted(made, core_seconds), path)
    return path


@pytest.fixture
def captured(tmp_path: Path) -> Path:
    """A step that rises to 10 MB, falls, goes on, and keeps 30 % of two cores busy."""
    return save(tmp_path / "captured", 0.06)


def test_a_memory_bound_step_gains(tfwave: Command, captured: Path) -> None:
    ran = tfwave("waves", captured, "--memory", "10.5MB", "--pace", "steady")
    assert (ran.code, ran.err) == (0, "")
    shown = " ".join(ran.out.split())
    for text in (
        "localhost:0/CPU:0: step 1 of 1, 0.40 ms needs 9.5 MiB of 10.0 MiB (95%), 0 bytes of it resident",
        "bound by memory, a batch 0.94 times as large fits",
        "keeps 30% of the compute units busy (counted): whatever runs beside it, no more than x3.33",
        "gain expected: x",
        "number of waves: 2 not counted, without the graph: the two copies of each gradient that waves keep "
        "no offset for tick_tock: nobody says what a step runs: give the loss and the train op with --fetch",
    ):
        assert text in shown


def test_no_gain_is_an_answer_with_its_reason(tfwave: Command, captured: Path) -> None:
    for arguments, why in (
        (
            ("--memory", "100MB", "--compute-share", 0.6),
            "not bound by memory: a batch 8.9 times as large fits",
        ),
        (("--memory", "10.5MB", "--compute-share", 1), "one wave keeps 100% of the compute units busy"),
        (("--memory", "10.5MB", "--sync-ms", 4, "--pace", "steady"), "the exchange of gradients takes 91%"),
    ):
        ran = tfwave("waves", captured, *arguments)
        assert (ran.code, ran.err) == (1, "")
        shown = " ".join(ran.out.split())
        assert "tick-tock will not help: x" in shown
        assert why in shown
        assert "number of waves: 1" in shown


def test_json_holds_the_figures_of_each_offset(tfwave: Command, captured: Path) -> None:
    ran = tfwave("waves", captured, "--memory", "10.5MB", "--pace", "steady", "--device", DEVICE, "--json")
    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    assert (document["gain_expected"], document["memory_bound"], document["waves"]) == (True, True, 2)
    assert (document["peak_bytes"], document["limit_bytes"]) == (10 * MB, 10_500_000)
    assert document["usable_bytes"] == {"one_wave": room(10_500_000, 1), "two_waves": room(10_500_000, 2)}
    assert (document["compute_share"], document["compute_share_counted"]) == (pytest.approx(0.3), True)
    assert document["speedup_ceiling"] == pytest.approx(1 / 0.3)
    peaks = {choice["offset"]: choice["peak_bytes"] for choice in document["offsets"]}
    assert len(peaks) == 19
    assert list(peaks.values()) == sorted(peaks.values(), reverse=True)
    assert (peaks[0.05], peaks[0.95]) == (20 * MB, 10 * MB)
    best = max(document["offsets"], key=lambda choice: choice["speedup"])
    assert (best["offset"], best["speedup"]) == (document["best_offset"], document["speedup"]["predicted"])
    assert document["text"].startswith("gain expected")
    assert (document["others_bytes"], document["largest_piece_bytes"]) == (0, MB)
    assert (document["gradient_bytes"], document["fitting_offset"], document["passes"]) == (None, None, None)
    assert document["fitting_offset_missing"].startswith("nobody says what a step runs")
    assert ran.out == tfwave("waves", captured, "--memory", 10_500_000, "--pace", "steady", "--json").out


def save_training(path: Path) -> Path:
    """Three layers of 1 MB each, which the backward pass gives back one by one; gradients of 1 kB."""
    item, names = chain_item(3)
    for node in item.graph.node:
        node.device = DEVICE
    step = Step()
    for place, name in enumerate(names):
        size, begin, end = 1000, 10 * place, 10 * len(names)
        if name.startswith("layer"):
            size, end = MB, 10 * names.index(name.replace("layer", "back")) + 5
        step.run(name, begin, (size, place + 1), lasts=10, allocated=[size], freed=[(end, size)])
    save_bundle(counted(bundle_of([item.graph], step.stats, fetches=item.fetches), 0.06), path)
    return path


def test_the_offset_that_fits_can_be_copied(
    tfwave: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind one of three ops of the backward pass: tick holds 2 MB from there on, and tock peaks at 3 MB."""
    captured, train = save_training(tmp_path / "captured"), tmp_path / "train one.pb"
    train.write_bytes(chain_item(3)[0].graph.SerializeToString())
    monkeypatch.chdir(tmp_path)
    document = json.loads(tfwave("waves", captured, "--memory", "6.8MB", "--json").out)
    assert document["fitting_offset"] == 1 / 3
    assert (document["passes"], document["fitting_offset_missing"]) == (f"tick_tock{{offset={1 / 3}}}", None)
    assert document["gradient_bytes"] == 3000
    ran = tfwave("waves", captured, "--memory", "6.8MB", "--graph", train)
    assert "counted: two copies of all gradients that waves keep, 2.9 KiB each" in ran.out
    program, *arguments = shlex.split(ran.out.splitlines()[-1])
    assert (program, arguments[arguments.index("--passes") + 1]) == ("tfwave", document["passes"])
    assert tfwave(*arguments).code == 0
    gates = [n for n in load_graph("WAVES.pb").graph.node if n.name == "tick_tock/gates/1"]
    assert [list(gate.input) for gate in gates] == [["^back2"]]


def test_a_plan_takes_the_offset_to_the_pass(tfwave: Command, tmp_path: Path) -> None:
    captured, train, other = (
        save_training(tmp_path / "captured"),
        tmp_path / "train.pb",
        tmp_path / "other.pb",
    )
    train.write_bytes(chain_item(3)[0].graph.SerializeToString())
    other.write_bytes(chain_item(4)[0].graph.SerializeToString())
    plan, waves, ends = tmp_path / "plan.json", tmp_path / "waves.pb", ("--fetch", "loss", "--fetch", "train")
    ran = tfwave("waves", captured, "--memory", "6.8MB", "--graph", train, *ends, "-o", plan)
    assert f"written to '{plan}'" in " ".join(ran.out.split())
    found = load_plan(plan).waves
    assert found is not None
    assert (found.count, found.offset, found.limit_bytes) == (2, 1 / 3, 6_800_000)
    assert 5 * MB < found.needed_bytes <= room(6_800_000, 2)
    assert found.verdict.startswith(("gain expected", "tick-tock will not help"))
    for passes, code, says in (
        ("tick_tock", 0, ""),
        ("tick_tock{waves=3}", 2, "tick_tock: waves is 3, and the plan says 2: leave it out"),
        ("tick_tock{offset=0.5}", 2, "tick_tock: offset is 0.5, and the plan says 0.333"),
    ):
        ran = tfwave("rewrite", train, *ends, "--plan", plan, "--passes", passes, "-o", waves)
        assert ran.code == code
        assert says in ran.err
    gates = [n for n in load_graph(waves).graph.node if n.name == "tick_tock/gates/1"]
    assert [list(gate.input) for gate in gates] == [["^back2"]]
    ran = tfwave("rewrite", other, *ends, "--plan", plan, "--passes", "tick_tock", "-o", tmp_path / "no.pb")
    assert (ran.code, "made for another graph" in ran.err) == (2, True)
    assert "The plan belongs to this graph: the waves." in tfwave("inspect", train, "--plan", plan).out
    assert "2 waves, each from 33% of the backward pass" in tfwave("inspect", "--plan", plan).out


def test_where_there_is_no_offset_there_is_no_plan(tfwave: Command, captured: Path, tmp_path: Path) -> None:
    ran = tfwave("waves", captured, "--memory", "10.5MB", "-o", tmp_path / "plan.json")
    assert ran.code == 2
    assert "there are no waves to plan: nobody says what a step runs" in ran.err


@pytest.mark.parametrize("offset", [0.0, 1.0, 0.1 + 0.2, 1 / 3, 1e-7, 5e-324])
def test_an_offset_as_text_is_the_same_number(offset: float) -> None:
    (read,) = parse_pipeline(str(TickTock(offset=offset))).passes
    assert isinstance(read, TickTock)
    assert read.offset == offset


def test_why_there_is_no_offset_is_said(tfwave: Command, captured: Path, tmp_path: Path) -> None:
    training = save_training(tmp_path / "training")
    whole = load_bundle(training)
    parts = tmp_path / "parts"
    save_bundle(replace(whole, graphs=(*whole.graphs, graph(("other", "NoOp", [])))), parts)
    for path, arguments, why in (
        (captured, ("--fetch", "b9"), "node 'a0': Fill takes 2 data inputs"),
        (parts, (), "the step ran in 2 parts, and tick_tock takes the whole graph: give it with --graph"),
        (
            training,
            ("--memory", "3.1MB"),
            "two waves hold 2.9 MiB at the least by the model, and of the limit of 3.0",
        ),
        (
            training,
            ("--fetch", "loss"),
            "and the other fetches need changes no variable: fetch the train op, too",
        ),
    ):
        ran = tfwave("waves", path, "--memory", "10.5MB", *arguments)
        last = ran.out.splitlines()[-1]
        assert (ran.code in (0, 1), ran.err, last.startswith("no offset for tick_tock: ")) == (True, "", True)
        assert why in last


def test_a_graph_that_is_given_must_be_of_a_training_step(
    tfwave: Command, captured: Path, tmp_path: Path
) -> None:
    (tmp_path / "plain.pb").write_bytes(graph(("c", "NoOp", [])).SerializeToString())
    for name, says in (("plain.pb", "changes no variable"), ("gone.pb", "gone.pb")):
        ran = tfwave("waves", captured, "--memory", "1GB", "--graph", tmp_path / name, "--fetch", "c")
        assert (ran.code, ran.out) == (2, "")
        assert says in ran.err


def test_a_graph_that_is_given_must_have_the_captured_step(tfwave: Command, tmp_path: Path) -> None:
    """Names alone, such as that of the loss, do not tell; where the step of the program is known, its nodes do."""
    captured = save_training(tmp_path / "captured")
    own = step_of(chain_item(3)[0].graph, ["loss", "train"])
    save_bundle(replace(load_bundle(captured), own=own), tmp_path / "known")
    for layers, says in ((2, "has no node 'back2' (AddN)"), (3, ""), (4, "has a node 'back3' (AddN)")):
        given = tmp_path / f"{layers}.pb"
        given.write_bytes(chain_item(layers)[0].graph.SerializeToString())
        ran = tfwave("waves", tmp_path / "known", "--memory", "6.8MB", "--graph", given)
        assert (ran.code == 2, says in ran.err) == (bool(says), True)
        assert tfwave("waves", captured, "--memory", "6.8MB", "--graph", given).code != 2


def test_how_busy_a_step_is_must_be_known(tfwave: Command, tmp_path: Path) -> None:
    unknown = save(tmp_path / "unknown", None)
    ran = tfwave("waves", unknown, "--memory", "10.5MB")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "tfwave: error: the bundle does not say how busy the cores were: give --compute-share, or capture it "
        "again\n"
    )
    ran = tfwave("waves", unknown, "--memory", "10.5MB", "--compute-share", 0.3)
    assert "30% of the compute units busy (given)" in " ".join(ran.out.split())


def test_what_it_cannot_do_is_refused_in_one_line(
    tfwave: Command, captured: Path, bundle: Path, tmp_path: Path
) -> None:
    for arguments, says in (
        ((tmp_path / "gone",), "is not a capture bundle"),
        ((bundle,), "tell nothing of memory: capture the job again"),
        ((captured, "--device", "/x"), "'/x', but of"),
        ((captured, "--compute-share", 2), "give a share in (0, 1]"),
        ((captured, "--sync-ms", -1), "the exchange of gradients"),
    ):
        refused(tfwave("waves", *arguments, "--memory", "1GB"), says)
    assert tfwave("waves", captured, "--memory", "some").code == 2
    assert tfwave("waves", captured, "--memory", "1GB", "--pace", "fast").code == 2


def test_help_has_examples(tfwave: Command) -> None:
    ran = tfwave("waves", "--help")
    assert ran.code == 0
    assert "Examples" in ran.out
    assert "tfwave waves captured --memory 512MiB --json" in ran.out
