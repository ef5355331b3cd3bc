"""The send hook under a parameter-server strategy: each function in its own plan's order."""

import random
import time
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from tests.cluster.runtime.function_chief import CPU, PIECES, SIZE, VARIABLES
from tests.cluster.runtime.functions import CHIEF, HOOKED, STOCK, WORKERS, FunctionCluster, running, start
from tests.waiting import wait_until
from tfwave.plan.discipline import Discipline
from tfwave.proto import control_pb2
from tfwave.report.conformance import HandOff, conformance, read_hand_offs

pytestmark = pytest.mark.tensorflow

PLANNED = ["train4", "train8", "evaluate", "looped"]
EACH = VARIABLES // 3
STEPS, PUSHED_STEPS = 10, 25
UNSENT = 128 << 10
"""What a limited socket holds."""

Plans = dict[str, list[tuple[str, str, list[str]]]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[FunctionCluster]:
    with running() as started:
        yield started


@pytest.fixture(scope="module")
def reads(cluster: FunctionCluster) -> dict[str, tuple[str, dict[str, str]]]:
    """By what the chief calls a function: TensorFlow's name of it, and the device of each read."""
    names = [*PLANNED, "unplanned", "unmarked", "failing"]
    found = {name: tuple(cluster.chief.ask("reads", name=name)) for name in names}
    assert len({function for function, _ in found.values()}) == len(names)
    assert found["train4"][1] == found["train8"][1] == found["evaluate"][1]
    return found


def _random_plans(reads: dict[str, tuple[str, dict[str, str]]], names: list[str], seed: int) -> Plans:
    """A random order for each function, server and worker."""
    shuffle = random.Random(seed).shuffle
    plans: Plans = {}
    for name in names:
        function, nodes = reads[name]
        plans[function] = []
        for server in HOOKED:
            for worker in WORKERS:
                edges = [f"edge_0_{node}" for node in sorted(nodes) if nodes[node] == server + CPU]
                shuffle(edges)
                plans[function].append((server + CPU, worker + CPU, edges))
    return plans


@pytest.fixture
def plans(cluster: FunctionCluster, reads: Any) -> Plans:
    made = _random_plans(reads, PLANNED, seed=1)
    _install(cluster, made)
    return made


def _install(cluster: FunctionCluster, plans: Plans) -> None:
    for server in cluster.ps[:2]:
        server.ask("install", plans=plans)


def _log_arrivals(cluster: FunctionCluster, *, on: bool) -> None:
    for worker in cluster.workers:
        worker.ask("log_arrivals", on=on)


def _steps(server: Any) -> list[tuple[str, list[int], set[str]]]:
    """(function, ranks in the order of hand-off, reasons) of each step."""
    log = server.ask("hand_offs")
    ranks: dict[tuple[str, int], list[int]] = defaultdict(list)
    reasons: dict[tuple[str, int], set[str]] = defaultdict(set)
    for h in log["hand_offs"]:
        ranks[h["step"], h["channel"]].append(h["rank"])
        reasons[h["step"], h["channel"]].add(h["reason"])
    assert len({step for step, _ in ranks}) == len(ranks)
    return [(log["channels"][key[1]]["function"], ranks[key], reasons[key]) for key in ranks]


def _counters(server: Any) -> dict[str, int]:
    return {name: int(value) for name, value in server.ask("counters").items()}


def _functions_of(steps: list[tuple[str, list[int], set[str]]]) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for function, _, _ in steps:
        counts[function] += 1
    return counts


def test_each_function_follows_its_own_plan(cluster: FunctionCluster, reads: Any, plans: Plans) -> None:
    results = cluster.chief.ask("run", names=[*PLANNED, "unplanned"], steps=STEPS, seed=1)
    assert len(results) == STEPS * (len(PLANNED) + 1)
    for server in cluster.ps[:2]:
        steps = _steps(server)
        assert all(r == list(range(len(r))) and len(r) >= EACH - 1 and w == {"ORDERED"} for _, r, w in steps)
        assert _functions_of(steps) == {reads[name][0]: STEPS for name in PLANNED}
        counters = _counters(server)
        assert counters["unplanned"] >= STEPS * EACH
        assert not any(counters[name] for name in ("live_steps", "held", "late", "released", "deadlines"))


def test_an_order_changes_no_result(cluster: FunctionCluster, reads: Any) -> None:
    results = set()
    for seed in (1, 2):
        _install(cluster, _random_plans(reads, PLANNED, seed))
        results |= set(cluster.chief.ask("run", names=["evaluate"], steps=STEPS, seed=1))
    assert len(results) == 1


def test_arrivals_are_logged_where_they_come(cluster: FunctionCluster, reads: Any, plans: Plans) -> None:
    _log_arrivals(cluster, on=True)
    cluster.chief.ask("run", names=["train4"], steps=STEPS, seed=1)
    _log_arrivals(cluster, on=False)
    cluster.chief.ask("run", names=["train4"], steps=2, seed=1)
    logs = [worker.ask("arrivals") for worker in cluster.workers]
    nodes = reads["train4"][1]
    sizes = {node: 4 * (SIZE + i) for i, node in enumerate(nodes)}
    steps: dict[int, dict[str, int]] = defaultdict(dict)
    for name, log in zip(WORKERS, logs, strict=True):
        assert all(a["arrived_nanos"] <= b["arrived_nanos"] for a, b in pairwise(log))
        for arrival in log:
            assert 0 < arrival["requested_nanos"] < arrival["arrived_nanos"] < time.monotonic_ns()
            assert arrival["channel"]["destination"] == name + CPU
            node = arrival["edge"].split("_", 2)[2]
            if node in nodes and arrival["bytes"]:
                assert arrival["channel"]["source"] == nodes[node]
                steps[arrival["step"]][node] = arrival["bytes"]
    assert len(steps) == STEPS
    assert all(found == sizes for found in steps.values())
    assert any(node in nodes and nodes[node] == STOCK + CPU for found in steps.values() for node in found)
    handed = {int(h["step"]) for h in cluster.ps[0].ask("hand_offs")["hand_offs"]}
    assert set(steps) < handed


def test_switched_off_each_function_is_logged_as_its_own(
    cluster: FunctionCluster, reads: Any, plans: Plans
) -> None:
    for server in cluster.ps[:2]:
        server.ask("configure", enabled=False)
    cluster.chief.ask("run", names=["train4", "evaluate"], steps=STEPS, seed=1)
    for server in cluster.ps[:2]:
        steps = _steps(server)
        assert all(sorted(ranks) == list(range(EACH)) and why == {"OFF"} for _, ranks, why in steps)
        assert _functions_of(steps) == {reads[name][0]: STEPS for name in ("train4", "evaluate")}
        server.ask("configure", enabled=True)


def test_plans_are_replaced_while_steps_run(cluster: FunctionCluster, reads: Any, plans: Plans) -> None:
    names = ["train4", "evaluate", "unplanned"]
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(cluster.chief.ask, "run", names=names, steps=40, seed=1)
        seed = 0
        while not job.done():
            seed += 1
            _install(cluster, _random_plans(reads, random.Random(seed).sample(PLANNED, 3), seed))
        assert len(job.result()) == 3 * 40
    assert seed > 1
    _install(cluster, plans)
    cluster.chief.ask("run", names=names, steps=2, seed=1)
    for server in cluster.ps[:2]:
        steps = _steps(server)
        assert len(steps) == 4
        assert all(ranks == list(range(EACH)) and why == {"ORDERED"} for _, ranks, why in steps)
        counters = _counters(server)
        assert not any(counters[name] for name in ("live_steps", "held", "deadlines"))


def test_a_failed_step_lets_go(cluster: FunctionCluster, reads: Any) -> None:
    plans = _random_plans(reads, ["failing"], seed=1)
    for orders in plans.values():
        for source, _, edges in orders:
            if source == HOOKED[0] + CPU:
                edges.insert(0, "edge_0_blocked")
    _install(cluster, plans)
    server = cluster.ps[0]
    server.ask("configure", deadline_seconds=100)
    _log_arrivals(cluster, on=True)  # what is aborted must be let go there, too
    before = _counters(server)
    assert "broken on purpose" in cluster.chief.ask("fail", name="failing")
    _log_arrivals(cluster, on=False)
    wait_until(lambda: _counters(server)["live_steps"] == 0)
    after = _counters(server)
    assert after["released"] - before["released"] == EACH
    assert (after["held"], after["deadlines"] - before["deadlines"]) == (0, 0)
    server.ask("configure", deadline_seconds=5)


def test_functions_are_not_marked_for_tasks_that_are_not_listed(cluster: FunctionCluster, reads: Any) -> None:
    for worker in cluster.workers:
        worker.ask("configure", hooked_tasks=[])
    _install(cluster, _random_plans(reads, ["unmarked"], seed=1))
    before = [_counters(server) for server in cluster.ps[:2]]
    cluster.chief.ask("run", names=["unmarked"], steps=STEPS, seed=1)
    for server, counters in zip(cluster.ps[:2], before, strict=True):
        assert not server.ask("hand_offs")["hand_offs"]
        assert _counters(server)["unplanned"] - counters["unplanned"] >= STEPS * EACH
    for worker in cluster.workers:
        worker.ask("configure", hooked_tasks=[*HOOKED, *WORKERS])


def test_outputs_of_a_node_have_names_of_their_own_and_wait_for_the_marker(cluster: FunctionCluster) -> None:
    ends = {"source": HOOKED[0], "destination": CHIEF}
    cut = cluster.chief.ask("cut", **ends)
    pieces = {"_Send": dict[str, list[str]](), "_Recv": dict[str, list[str]]()}
    for node in cut["nodes"]:
        if "_pieces" in (name := _wire_name(node)):
            pieces[node["op"]][name] = node.get("input", [])
    assert {name.rpartition(":")[2] for name in pieces["_Send"]} == {str(i) for i in range(PIECES)}
    assert set(pieces["_Recv"]) == set(pieces["_Send"])
    (marker,) = [node["name"] for node in cut["nodes"] if node["op"] == "TfwaveStep"]
    assert all(inputs[1:] == [f"^{marker}"] for inputs in pieces["_Send"].values())

    edges = [f"edge_0_pieces:{i}" for i in random.Random(1).sample(range(PIECES), PIECES)]
    server = cluster.ps[0]
    server.ask("install", plans={cut["name"]: [(HOOKED[0] + CPU, CHIEF + CPU, edges)]})
    assert cluster.chief.ask("cut", **ends)["value"] == cut["value"] == [2, 40, 600, 8000]
    assert _steps(server) == [(cut["name"], list(range(PIECES)), {"ORDERED"})]


def _wire_name(node: dict[str, Any]) -> str:
    return b64decode(node.get("attr", {}).get("tensor_name", {}).get("s", "")).decode()


def test_what_workers_push_in_a_function_is_ordered(cluster: FunctionCluster) -> None:
    function, _ = cluster.chief.ask("reads", name="pushed")
    updates = cluster.chief.ask("updates", name="pushed")
    assert len(updates) == VARIABLES
    for name, worker in zip(WORKERS, cluster.workers, strict=True):
        edges = {ps: [f"edge_0_{n}" for n in updates if updates[n] == ps + CPU] for ps in HOOKED}
        for names in edges.values():
            random.Random(1).shuffle(names)
        orders = [(name + CPU, ps + CPU, names) for ps, names in edges.items()]
        worker.ask("install", plans={function: orders}, window_bytes=64)
    cluster.chief.ask("run", names=["pushed"], steps=PUSHED_STEPS, seed=1)
    pushed: list[HandOff] = []
    for worker in cluster.workers:
        log = ParseDict(worker.ask("hand_offs"), control_pb2.HandOffs())
        assert {c.function for c in log.channels} == {function}
        pushed += read_hand_offs(log, lambda _, channel: str(channel))
        assert int(worker.ask("counters")["held"]) == 0
        served, others = worker.ask("unsent")
        assert UNSENT in served
        assert UNSENT not in others
        worker.ask("remove")
        assert UNSENT not in worker.ask("unsent")[0]
    planned = [node for node, device in updates.items() if device.removesuffix(CPU) in HOOKED]
    assert len(pushed) == PUSHED_STEPS * len(planned)
    assert conformance(pushed).exact
    assert {h.discipline for h in pushed} == {Discipline.PRIORITY}


def test_a_restarted_worker_is_ordered_again(cluster: FunctionCluster, plans: Plans) -> None:
    for server in cluster.ps[:2]:
        server.ask("configure", deadline_seconds=1)  # what the dead worker takes no more is let go
    before = _counters(cluster.ps[0])["ordered"]
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(cluster.chief.ask, "run", names=["train4", "evaluate"], steps=200, seed=1)
        wait_until(lambda: _counters(cluster.ps[0])["ordered"] > before)
        cluster.workers[1].kill()
        assert not job.done()
        cluster.workers[1] = start(cluster.spec, "worker", 1)
        assert len(job.result()) == 400
    cluster.workers[1].hear()
    for server in cluster.ps[:2]:
        wait_until(lambda server=server: _counters(server)["live_steps"] == 0)
        server.ask("configure", deadline_seconds=100)
    _install(cluster, plans)
    _run_until_both_workers_have_steps(cluster)
    for server in cluster.ps[:2]:
        assert all(r == list(range(EACH)) and why == {"ORDERED"} for _, r, why in _steps(server))
        counters = _counters(server)
        assert (counters["live_steps"], counters["held"]) == (0, 0)


def _run_until_both_workers_have_steps(cluster: FunctionCluster) -> None:
    end = time.monotonic() + 150
    while time.monotonic() < end:
        cluster.chief.ask("run", names=["train4", "evaluate"], steps=STEPS, seed=1)
        log = cluster.ps[0].ask("hand_offs")
        channels = {h["channel"] for h in log["hand_offs"]}
        if {log["channels"][c]["destination_device"] for c in channels} == {w + CPU for w in WORKERS}:
            return
    raise AssertionError("the restarted worker did not come back in time")
