"""Node groups and slots of random steps, against the tensors themselves, stepped through one by one."""

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graphs import WORKER, Job, random_job
from tests.grouped import KnownStep, job_step, known_step, random_jobs
from tfwave.errors import PlanError
from tfwave.graph.view import GraphView
from tfwave.memory.colocation import WORTH, colocate
from tfwave.memory.groups import levelled, node_groups
from tfwave.memory.pairing import algorithm_one
from tfwave.memory.profile import MemoryProfile, OpMemory
from tfwave.memory.schedule import modelled_peak, modelled_seconds
from tfwave.memory.slots import ALONE_MARGIN, SHARED_MARGIN, can_finish, fits, room, staggered_slots
from tfwave.plan.groups import GroupedJob, NodeGroup, Slot, nothing_done
from tfwave.proto.tensorflow_pb2 import GraphDef

PER_BLOCK = 30

checked = settings(max_examples=50, deadline=None, database=None)
RANDOM = st.randoms(use_true_random=False)


def grouped_step(rng: random.Random) -> tuple[KnownStep, list[str], tuple[NodeGroup, ...]]:
    """A step, the order in which it was profiled, and its groups."""
    known = known_step(rng)
    order = known.random_order(rng)
    profile = known.profiled(order)
    return known, order, node_groups(GraphView.of(known.graph), profile, rng.choice((1, 5, 40, 200)))


def slots_alone(job: GroupedJob) -> tuple[Slot, ...]:
    return algorithm_one([job], 0)


@checked
@given(rng=RANDOM)
def test_each_op_is_in_one_group_and_groups_run_in_their_order(rng: random.Random) -> None:
    known, order, groups = grouped_step(rng)
    assert sorted(name for group in groups for name in group.ops) == sorted(order)
    where = {name: number for number, group in enumerate(groups) for name in group.ops}
    assert all(where[source] <= where[target] for source, target in known.edges.edges)
    assert [(g.first_level, g.last_level) for g in groups] == sorted(
        (g.first_level, g.last_level) for g in groups
    )


@checked
@given(rng=RANDOM)
def test_no_path_leaves_a_group_and_comes_back(rng: random.Random) -> None:
    known, _, groups = grouped_step(rng)
    where = {name: number for number, group in enumerate(groups) for name in group.ops}
    quotient = nx.DiGraph((where[s], where[t]) for s, t in known.edges.edges if where[s] != where[t])
    assert nx.is_directed_acyclic_graph(quotient)


@checked
@given(rng=RANDOM)
def test_groups_hold_no_less_than_the_tensors_do(rng: random.Random) -> None:
    """Group by group, each in the order of the profile, the ops are profiled anew: then frees come when they do."""
    known, order, groups = grouped_step(rng)
    where = {name: number for number, group in enumerate(groups) for name in group.ops}
    by_group = known.profiled(sorted(order, key=lambda name: where[name]))
    held = modelled = 0
    for number, group in enumerate(groups):
        ops = [op for op in by_group.ops if where[op.node] == number]
        highest = MemoryProfile("", ops, held).peak
        held += sum(op.takes - op.gives for op in ops)
        assert highest <= modelled + group.transient
        modelled += group.net
        assert held <= modelled
    assert modelled == held == 0


@checked
@given(rng=RANDOM)
def test_the_order_in_which_it_was_profiled_is_exact(rng: random.Random) -> None:
    """Profiled in the groups' own order, they hold what the profile does."""
    known, _, groups = grouped_step(rng)
    profile = known.profiled([name for group in groups for name in group.ops])
    again = node_groups(GraphView.of(known.graph), profile, 20)
    job = GroupedJob("job", again, 0)
    assert job.peak == profile.peak
    assert modelled_peak([job], slots_alone(job)) == profile.peak


@checked
@given(rng=RANDOM)
def test_a_step_in_one_group_holds_what_was_profiled(rng: random.Random) -> None:
    known = known_step(rng)
    profile = known.profiled(known.random_order(rng))
    (group,) = levelled(GraphView.of(known.graph), profile).whole
    assert (group.net, group.transient) == (0, profile.peak)


@checked
@given(rng=RANDOM)
def test_renumbering_changes_no_groups(rng: random.Random) -> None:
    known = known_step(rng)
    profile = known.profiled(known.random_order(rng))
    (other,) = Job((known.graph,), {}, {}).renumbered(rng).partitions
    assert node_groups(GraphView.of(known.graph), profile, 5) == node_groups(GraphView.of(other), profile, 5)


@checked
@given(rng=RANDOM)
def test_a_joined_view_has_the_groups_of_the_profiled_device(rng: random.Random) -> None:
    job = random_job(rng)
    known = known_step(rng)
    profile = known.profiled(known.random_order(rng))
    elsewhere = [p for p in job.partitions if p.node[0].device != known.graph.node[0].device]
    groups = node_groups(GraphView.of(known.graph, *elsewhere), profile, 5)
    assert sorted(n for g in groups for n in g.ops) == sorted(op.node for op in profile.ops)


def with_loop(graph: GraphDef, rng: random.Random) -> frozenset[str]:
    """Add a while loop that reads one or two tensors, and a reader of what it gives out; the loop's nodes."""
    tensors = [node.name for node in graph.node if node.op not in ("NoOp", "_Send")]
    enters = [f"loop/enter{number}" for number in range(rng.choice((1, 2)))]
    nodes = [(name, "Enter", [rng.choice(tensors)]) for name in enters]
    nodes += [("loop/merge", "Merge", [enters[0], "loop/next"]), ("loop/exit", "Exit", ["loop/merge"])]
    nodes += [
        ("loop/body", "AddN", ["loop/merge", *enters[1:]]),
        ("loop/next", "NextIteration", ["loop/body"]),
    ]
    for name, op, inputs in [*nodes, ("read", "Identity", ["loop/exit"])]:
        node = graph.node.add(name=name, op=op, input=inputs, device=graph.node[0].device)
        if op == "Enter":
            node.attr["frame_name"].s = b"loop"
    return frozenset(name for name, _, _ in nodes)


@checked
@given(rng=RANDOM)
def test_no_loop_is_cut_and_all_comes_before_what_reads_it(rng: random.Random) -> None:
    graph = known_step(rng).graph
    loop = with_loop(graph, rng)
    ops = [OpMemory(node.name, rng.randint(0, 9), 0, rng.randint(0, 9)) for node in graph.node]
    groups = node_groups(GraphView.of(graph), MemoryProfile(WORKER, ops, 0), rng.choice((1, 5, 20)))
    where = {name: number for number, group in enumerate(groups) for name in group.ops}
    assert len({where[name] for name in loop}) == 1
    assert sorted(where) == sorted(node.name for node in graph.node)
    for node in graph.node:
        assert all(where[text.lstrip("^").split(":")[0]] <= where[node.name] for text in node.input)


def stepped_peaks(jobs: Sequence[GroupedJob], slots: Sequence[Slot]) -> list[int]:
    """Of each slot: each of its jobs is before its group, at its highest or behind it, whatever the others are."""
    held = {job.name: job.resident for job in jobs}
    peaks: list[int] = []
    for slot in slots:
        states = [_states(held[turn.job], _group(jobs, turn.job, turn.group)) for turn in slot]
        still = sum(size for name, size in held.items() if name not in {turn.job for turn in slot})
        peaks.append(max(still + sum(state) for state in product(*states)))
        for turn in slot:
            held[turn.job] += _group(jobs, turn.job, turn.group).net
    return peaks


def stepped_peak(jobs: Sequence[GroupedJob], slots: Sequence[Slot]) -> int:
    return max([sum(job.resident for job in jobs), *stepped_peaks(jobs, slots)])


def _states(held: int, group: NodeGroup) -> tuple[int, int, int]:
    return held, held + group.transient, held + group.net


def _group(jobs: Sequence[GroupedJob], name: str, number: int) -> NodeGroup:
    return next(job for job in jobs if job.name == name).groups[number]


def check_invariants(jobs: Sequence[GroupedJob], slots: Sequence[Slot]) -> None:
    """Each group once, a job's groups at rising places, no slot without one."""
    for job in jobs:
        turns = [
            (turn.group, place) for place, slot in enumerate(slots) for turn in slot if turn.job == job.name
        ]
        assert [number for number, _ in turns] == list(range(len(job.groups)))
        places = [place for _, place in turns]
        assert sorted(set(places)) == places
    assert all(slots)
    assert {turn.job for slot in slots for turn in slot} <= {job.name for job in jobs}


def check_acyclic(jobs: Sequence[GroupedJob], slots: Sequence[Slot]) -> None:
    """No group waits for itself: neither for the one before it in its job, nor for those of the slot before."""
    waits: nx.DiGraph = nx.DiGraph()
    for job in jobs:
        nx.add_path(waits, [(job.name, number) for number in range(len(job.groups))])
    for place in range(1, len(slots)):
        waits.add_edges_from(product(_names(slots[place - 1]), _names(slots[place])))
    assert nx.is_directed_acyclic_graph(waits)


def _names(slot: Slot) -> list[tuple[str, int]]:
    return [(turn.job, turn.group) for turn in slot]


@checked
@given(rng=RANDOM, count=st.integers(1, 4), limit=st.integers(0, 120))
def test_algorithm_one_holds_its_invariants(rng: random.Random, count: int, limit: int) -> None:
    jobs = random_jobs(rng, count)
    slots = algorithm_one(jobs, limit)
    check_invariants(jobs, slots)
    check_acyclic(jobs, slots)
    assert all(len(slot) <= 2 for slot in slots)
    assert modelled_peak(jobs, slots) == stepped_peak(jobs, slots)
    assert algorithm_one(rng.sample(jobs, count), limit) == slots


@checked
@given(rng=RANDOM, count=st.integers(1, 4), offset=st.integers(0, 13))
def test_waves_hold_their_invariants_in_the_least_room(rng: random.Random, count: int, offset: int) -> None:
    """In just the room that the jobs take in turn they all come to their end."""
    jobs = random_jobs(rng, count)
    limit = next(limit for limit in range(1000) if in_turn_fits(jobs, limit)) + rng.choice((0, 5, 20, 100))
    slots = staggered_slots(jobs, offset, limit)
    check_invariants(jobs, slots)
    check_acyclic(jobs, slots)
    for slot, peak in zip(slots, stepped_peaks(jobs, slots), strict=True):
        assert peak <= usable(jobs, slot, limit)


def in_turn_fits(jobs: Sequence[GroupedJob], limit: int) -> bool:
    slots = [slot for job in jobs for slot in slots_alone(job)]
    peaks = stepped_peaks(jobs, slots)
    return all(peak <= usable(jobs, slot, limit) for slot, peak in zip(slots, peaks, strict=True))


def usable(jobs: Sequence[GroupedJob], slot: Slot, limit: int) -> float:
    """More of the limit for one job, where no step is cut; else less, and without the largest piece."""
    if len(slot) == 1 and all(len(job.groups) <= 1 for job in jobs):
        return limit * (1 - ALONE_MARGIN)
    return limit * (1 - SHARED_MARGIN) - max(group.piece for job in jobs for group in job.groups)


def test_waves_are_no_slower_than_algorithm_one() -> None:
    """Where its slots keep to the room as well, with the same groups, and either job first."""
    compared = 0
    for i in range(150):
        jobs = random_jobs(random.Random(f"two {i}"), 2)
        limit = round(1.5 * stepped_peak(jobs, [slot for job in jobs for slot in slots_alone(job)]))
        slots = algorithm_one(jobs, room(limit, 2))
        orders = [order for order in (jobs, jobs[::-1]) if can_finish(order, nothing_done(order), limit)]
        if orders and fits(jobs, slots, limit):
            found = [staggered_slots(order, offset, limit) for order in orders for offset in range(13)]
            assert min(modelled_seconds(jobs, s) for s in found) <= modelled_seconds(jobs, slots) + 1e-9
            compared += 1
    assert compared > 50


@pytest.mark.parametrize("block", range(4))
def test_plans_of_random_steps(block: int) -> None:
    """Under the limit, no slower than in turn, no faster than the longest job or two units allow; or refused."""
    refused: list[str] = []
    overlapped = 0
    for i in range(PER_BLOCK):
        rng = random.Random(f"colocation {block}/{i}")
        steps = [job_step(rng, f"job{number}") for number in range(rng.choice((1, 2, 2, 3)))]
        largest = max(step.profile.peak for step in steps)
        try:
            found = colocate(steps, round(largest * rng.choice((0.9, 1.3, 2, 3, 5, 8))))
        except PlanError as error:
            refused.append(str(error))
            continue
        check_invariants(found.jobs, found.slots)
        check_acyclic(found.jobs, found.slots)
        assert stepped_peak(found.jobs, found.slots) == found.peak_bytes <= found.limit_bytes
        alone = [job.seconds for job in found.jobs]
        assert max(*alone, sum(alone) / 2) - 1e-9 <= found.seconds <= sum(alone) + 1e-9
        overlapped += not found.is_in_turn
    assert overlapped > PER_BLOCK / 6
    assert 0 < len(refused) < PER_BLOCK / 2
    assert all("peaks at" in reason for reason in refused)


@settings(max_examples=25, deadline=None, database=None)
@given(rng=RANDOM, share=st.sampled_from([0.0, 0.3, 1.0, 2.0]))
def test_no_job_is_slowed_by_more_than_it_allows(rng: random.Random, share: float) -> None:
    """Where the plan that ignores the share keeps to it, it is the plan; where not, there is none.

    But one in turn may give way to what was hardly worth it.
    """
    free, other = job_step(rng, "a"), job_step(rng, "b")
    found = colocate([free, other], 10**6)
    first = next(job for job in found.jobs if job.name == "a")
    jobs, most = [replace(free, slowed_at_most=share), other], first.seconds * (1 + share) + 1e-6
    if found.seconds <= most:
        assert colocate(jobs, 10**6).slots == found.slots
        return
    refused = suppress(PlanError) if found.is_in_turn else pytest.raises(PlanError, match="'a' come")
    with refused:
        instead = colocate(jobs, 10**6)
        assert (1 - WORTH) * found.seconds - 1e-6 <= instead.seconds <= most
