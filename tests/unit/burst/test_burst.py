"""Burst plans: shards, networks, profiles, DeepPool's tables, sections."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from tests.property.burst_oracle import chain
from tests.unit.conftest import Command
from tfwave.burst.costs import LayerCosts
from tfwave.burst.job_limit import fastest_together
from tfwave.burst.network import Network
from tfwave.burst.packing import packings
from tfwave.burst.profile import Layer, Profile, read_profile
from tfwave.burst.released import read_released
from tfwave.burst.search import fastest
from tfwave.burst.section import device_counts, plan_layers
from tfwave.burst.shards import bounds, device_of, moved_share, overlaps
from tfwave.errors import CostError, MissingCost, PlanError, TfwaveError
from tfwave.plan.io import load_plan

TABLE, WIDE = (Path(__file__).with_name(f"A100_{model}.prof") for model in ("vgg", "wrn"))
NVSWITCH = Network(2.66e11, 40e-6)
SLOW = Network(1e6, 1e-3)


def layer(name: str, *reads: str, seconds: dict[int, float] | None = None, weights: float = 0) -> Layer:
    times = {1: 0.1, 2: 0.2, 4: 0.4, 8: 0.8} if seconds is None else seconds
    return Layer(name=name, reads=reads, output_bytes=1000, weight_bytes=weights, seconds=times)


def profile(*layers: Layer) -> Profile:
    return Profile(model="m", layers=layers)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 8, 1024])
def test_each_shard_has_a_device_of_its_own(count: int) -> None:
    assert sorted(device_of(shard, count) for shard in range(count)) == list(range(count))


@pytest.mark.parametrize("batch", [8, 11])
@pytest.mark.parametrize("before", [1, 2, 3, 8])
@pytest.mark.parametrize("after", [1, 2, 3, 8])
def test_shards_are_made_of_those_before_in_order(batch: int, before: int, after: int) -> None:
    samples = list(range(batch))
    held = [samples[begin:end] for begin, end in itertools.pairwise(bounds(batch, before))]
    wanted = [samples[begin:end] for begin, end in itertools.pairwise(bounds(batch, after))]
    assert max(map(len, wanted)) - min(map(len, wanted)) <= 1
    found: list[list[int]] = [[] for _ in wanted]
    for source, target, count in overlaps(batch, before, after):
        found[target] += [held[source].pop(0) for _ in range(count)]
    assert found == wanted


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [(1, 1, 0), (1, 2, 1 / 2), (2, 1, 1 / 2), (4, 8, 1 / 8), (8, 2, 3 / 8), (1, 3, 2 / 3), (2, 3, 1 / 3)],
)
def test_what_moves_is_what_a_device_does_not_hold(before: int, after: int, share: float) -> None:
    assert moved_share(before, after) == pytest.approx(share)


def test_a_network_that_cannot_be_is_refused() -> None:
    for bad in ((0, 0), (1, -1), (math.nan, 0), (1, math.nan)):
        with pytest.raises(PlanError, match="cannot be"):
            Network(*bad)


def test_a_transfer_costs_its_bytes_there_and_back() -> None:
    near, far = (kind(np.array([1e6, 0.0]), (1, 2)) for kind in (SLOW.near, SLOW.far))
    assert near[0, 0, 1] == near[0, 1, 0] == pytest.approx(2 * (1e-3 + 0.5))
    assert far[0, 1, 1] == pytest.approx(2 * (1e-3 + 0.5))
    assert far[0, 0, 0] == pytest.approx(2 * (1e-3 + 1))
    assert not near[1].any()
    assert not near[0].diagonal().any()
    assert SLOW.sums(np.array([1e6]), (1, 2, 4)).tolist() == [[0, 1e-3 + 1, 1e-3 + 1.5]]


def test_packings_leave_no_group_that_could_have_more() -> None:
    masks, widths, near = packings(2, (1, 2, 4), 4)
    ways = {
        (tuple(m), tuple(w), n)
        for m, w, n in zip(masks.tolist(), widths.tolist(), near.tolist(), strict=True)
    }
    assert ways == {((3, 0), (2, 0), 0), ((1, 2), (1, 1), 0), ((1, 2), (1, 1), 1)}


def test_a_time_between_two_batches_is_on_the_line_and_none_is_made_up_beyond() -> None:
    one = layer("a", seconds={2: 1.0, 4: 3.0})
    assert (one.seconds_of(2), one.seconds_of(3), one.seconds_of(4)) == (1, 2, 3)
    for samples in (1, 5):
        with pytest.raises(MissingCost, match=f"layer 'a' has no time of {samples} samples: .*2, 4"):
            one.seconds_of(samples)


@pytest.mark.parametrize(
    ("layers", "says"),
    [
        ((), "has no layers"),
        ((layer("a"), layer("a", "a")), "the layer 'a' twice"),
        ((layer("b", "a"), layer("a")), "'b' reads 'a', which is not before it"),
        ((layer("a", seconds={1: -1.0}),), "'a' takes -1.0 s for 1 samples"),
        ((layer("a", seconds={1: math.nan}),), "'a' takes nan s"),
        ((layer("a"), layer("b")), "first are a, b"),
        ((layer("a"), layer("b", "a"), layer("c", "a")), "last b, c"),
    ],
)
def test_a_profile_that_cannot_be_is_refused(layers: tuple[Layer, ...], says: str) -> None:
    with pytest.raises(TfwaveError, match=says):
        profile(*layers).costs(4, (1,), SLOW)


def test_costs_hold_the_rules_that_the_search_needs() -> None:
    nothing = np.zeros((1, 1, 1))
    for counts, edges, says in (
        ((2,), ((0, 1),), "must rise from 1"),
        ((1,), ((1, 0),), "reads those before it"),
    ):
        with pytest.raises(PlanError, match=says):
            LayerCosts(("a", "b"), counts, np.ones((2, 1)), edges, nothing, nothing)


def test_a_profile_reads_back(tmp_path: Path) -> None:
    known = profile(layer("a"), layer("b", "a"))
    known.write(tmp_path / "p.json")
    assert read_profile(tmp_path / "p.json") == known


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "profile '.*': .*JSON"),
        ('{"model": "m"}', "'layers'"),
        ('{"model": "m", "layers": [], "version": 9}', "has version 9"),
    ],
)
def test_a_file_that_is_no_profile_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(CostError, match=says):
        read_profile(tmp_path / "p.json")


def test_no_file_is_said() -> None:
    for read in (read_profile, read_released):
        with pytest.raises(CostError, match="cannot read profile 'gone'"):
            read(Path("gone"))


def test_a_released_table_is_read_with_its_last_runs() -> None:
    found = read_released(TABLE)
    assert len(found.layers) == 22
    first, last = found.layers[0], found.layers[-1]
    assert (first.name, first.output_bytes, first.weight_bytes) == (
        "conv2d_0",
        64 * 224 * 224 * 4,
        3 * 64 * 9 * 4,
    )
    assert last.weight_bytes == 4096 * 1000 * 4
    assert sorted(first.seconds) == [4, 8, 16, 32]


def test_the_last_run_of_a_batch_counts(tmp_path: Path) -> None:
    rows = [f'linear{{"in_features":8,"out_features":8}}[1]8  0.1  {us}  1\n' for us in (7, 9)]
    (tmp_path / "t.prof").write_text(f"{rows[0]}sum: 3\n{rows[1]}SUM(avg) 4\n")
    assert read_released(tmp_path / "t.prof").layers[0].seconds == {1: 10e-6}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nothing\n", "has no line of a layer"),
        (
            'linear{"in_features":8}[1]8 0.1 1 1\nx\nlinear{"in_features":9}[2]9 0.1 1 1\n',
            "other layers for batch 2",
        ),
        ("linear{x}[1]8 0.1 1 1\n", "no JSON in its braces"),
        (
            'conv2d{"out_channels":4}[1][3,8,8] 0.1 1 1\nconv2d{"out_channels":4}[1][3,8,8] 0.1 1 1\n',
            "of a model with branches: a conv2d of 4 channels is before a conv2d that reads 3",
        ),
    ],
)
def test_a_table_that_is_no_chain_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "t.prof").write_text(text)
    with pytest.raises(CostError, match=says):
        read_released(tmp_path / "t.prof")


@pytest.mark.parametrize("limit", [1.2, 1.5, 2, 3, 5, 8])
@pytest.mark.parametrize("table", [TABLE, WIDE])
def test_no_plan_of_the_released_search_is_faster_at_its_own_limit(table: Path, limit: float) -> None:
    costs = read_released(table).costs(32, (1, 2, 4, 8), NVSWITCH)
    theirs = as_released(costs, limit)
    seconds = np.array(
        [costs.own[n, k] + (costs.near[n - 1, theirs[n - 1], k] if n else 0) for n, k in enumerate(theirs)]
    )
    reached = float((seconds * np.array(costs.counts)[theirs] / costs.alone).max())
    assert fastest(costs, max(1, reached)).seconds <= seconds.sum() * (1 + 1e-9)


def as_released(costs: LayerCosts, limit: float) -> list[int]:
    """What DeepPool's released search does of a chain, without its exemption of short layers."""
    kinds = range(len(costs.counts))
    done, last = np.zeros(len(kinds)), np.zeros(len(kinds))
    back: list[list[int]] = []
    for here in range(len(costs.names)):
        rows = []
        for k in kinds:
            best, amp_of_best, row = math.inf, math.inf, (math.inf, math.inf, 0)
            for h in kinds:
                move = costs.near[here - 1, h, k] if here else 0.0
                amp = last[h] * costs.counts[h] / costs.alone[here - 1] if here else 1.0
                if done[h] + move < best and (amp < limit or amp < amp_of_best):
                    best, amp_of_best = done[h] + move, amp
                    row = (best + costs.own[here, k], move + costs.own[here, k], h)
            rows.append(row)
        done, last = (np.array([row[n] for row in rows]) for n in (0, 1))
        back.append([int(row[2]) for row in rows])
    plan = [int(done.argmin())]
    for befores in reversed(back[1:]):
        plan.append(befores[plan[-1]])
    return plan[::-1]


def test_counts_are_powers_of_two_and_all_devices() -> None:
    assert device_counts(6, 32) == (1, 2, 4, 6)
    assert device_counts(1024, 32) == (1, 2, 4, 8, 16, 32)
    with pytest.raises(PlanError, match="cannot be"):
        device_counts(0, 1)


def test_what_a_section_promises() -> None:
    wide = layer("wide", seconds={1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0})
    narrow = layer("narrow", "wide", seconds=dict.fromkeys((1, 2, 4, 8), 3.0), weights=5e6)
    found = plan_layers(profile(wide, narrow), 8, 8, SLOW, limit=2)
    assert [(x.name, x.count) for x in found.layers] == [("wide", 8), ("narrow", 1)]
    moved = 2 * (1e-3 + 8000 * 7 / 8 / 1e6)
    assert found.seconds == pytest.approx(1 + 3 + moved)
    assert found.one_device_seconds == 11
    assert found.device_seconds == pytest.approx(8 + 3 + moved)
    assert found.data_parallel_seconds == pytest.approx(1 + 3 + 1e-3 + 5 * 7 / 4)
    assert found.gap == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"counts": (16,)}, "cannot run on 16 devices"),
        ({"counts": (0,)}, "cannot run on 0 devices"),
        ({"limit": 0.5}, "a limit of 0.5 x cannot be kept"),
        ({"limit": 0.5, "limit_of": "job"}, "a limit of 0.5 x is none to keep"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(options: dict, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        plan_layers(profile(layer("a"), layer("b", "a")), 8, 8, SLOW, **options)


def test_a_limit_of_the_job_is_for_chains() -> None:
    forked = profile(layer("a"), layer("b", "a"), layer("c", "a", "b"))
    with pytest.raises(PlanError, match="'a' has several readers"):
        plan_layers(forked, 2, 8, SLOW, limit=2, limit_of="job")


def test_a_block_of_too_many_branches_is_refused() -> None:
    forks = [layer(f"b{n}", "a") for n in range(7)]
    wide = profile(layer("a"), *forks, layer("z", *(f.name for f in forks)))
    with pytest.raises(PlanError, match="7 branches leave 'a'"):
        plan_layers(wide, 2, 8, SLOW)


INTERLACED = profile(
    layer("input"),
    layer("encoder", "input"),
    layer("words", "input"),
    layer("decoder", "words", "encoder"),
    layer("last", "decoder", "encoder"),
)
INTERLACED_SAYS = (
    "'decoder' is on two branches that leave 'input', which meet nowhere before 'last', and the search takes "
    "branches that share no layer: make one layer of what lies between these two"
)


@pytest.mark.parametrize("limit", [None, 1.5])
def test_branches_that_share_a_layer_are_refused(limit: float | None) -> None:
    with pytest.raises(PlanError, match=INTERLACED_SAYS):
        plan_layers(INTERLACED, 2, 8, SLOW, limit=limit)


def test_branches_that_meet_before_all_do_share_the_devices_of_one() -> None:
    """As where a block of branches has an edge beside it."""
    met = profile(
        layer("a"), layer("b", "a"), layer("c", "a"), layer("join", "b", "c"), layer("sum", "join", "a")
    )
    plan = plan_layers(met, 2, 8, SLOW)
    assert {each.name for each in plan.layers} == {"a", "b", "c", "join", "sum"}
    assert plan.seconds <= plan.one_device_seconds


def test_the_command_refuses_branches_that_share_a_layer(tfwave: Command, tmp_path: Path) -> None:
    INTERLACED.write(tmp_path / "p.json")
    ran = tfwave("burst", "plan", tmp_path / "p.json", "--devices", 2, "--batch", 8)
    assert (ran.code, ran.out) == (2, "")
    assert INTERLACED_SAYS in " ".join(ran.err.split())


def test_one_layer_alone_is_planned() -> None:
    alone = profile(layer("a")).costs(8, (1, 2), SLOW)
    assert alone.edges == chain(1)
    assert fastest(alone, 2).count == fastest_together(alone, 2)[0].count == (2,)


def test_the_command_prints_and_writes_a_plan(tfwave: Command, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    options = ("--devices", 8, "--batch", 32, "--bandwidth", "2128gbit", "--latency", "40us")
    ran = tfwave("burst", "plan", TABLE, *options, "--amplification", 2, "-o", plan)
    assert ran.code == 0
    assert "22 layers on 8 devices, batch 32; predicted: 12.37 ms a step" in ran.out
    found = load_plan(plan).layers
    assert found is not None
    assert (found.limit, found.limit_of) == (2, "layer")
    assert "22 layers on 8 devices" in tfwave("inspect", "--plan", plan).out
    said = json.loads(
        tfwave("burst", "plan", TABLE, *options, "--per", "job", "--amplification", 1.5, "--json").out
    )
    assert said["device_seconds"] <= 1.5 * said["one_device_seconds"] * (1 + 1e-8)
    assert said["bound_seconds"] == pytest.approx(said["seconds"], rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--per", "step"), "--per step is not one of layer, job"),
        (("--counts", "2;3"), "--counts 2;3 is no list"),
        (("--counts", "9"), "cannot run on 9 devices"),
        (("--bandwidth", "0gbit"), "a network of 0 bytes/s"),
    ],
)
def test_the_command_refuses_in_one_line(tfwave: Command, arguments: tuple[str, ...], says: str) -> None:
    ran = tfwave("burst", "plan", TABLE, "--devices", 8, "--batch", 32, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert says in " ".join(ran.err.split())
