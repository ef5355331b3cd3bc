"""What an order costs where the hook does not keep it."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.graphs import SERVERS, WORKER, Builder, by_name
from tfwave.cost.analytic import LinkModel
from tfwave.cost.network import Network
from tfwave.graph.transfer import Transfer, find_transfers
from tfwave.graph.view import GraphView
from tfwave.plan.plan import Predicted
from tfwave.planner import PlanRequest, make_plan
from tfwave.planner.enforcers import ACK_CORE_SECONDS, ACK_SECONDS, RELAY_SECONDS

TENSORS = 8
BYTES = 100_000
HELD = RELAY_SECONDS + 1e-4
"""A proxy has one of these tensors for so long."""
SENT = 1e-4
CARD = LinkModel(0.0, BYTES / SENT)


def pulled(of_server: Mapping[str, int], pushes: int = 0) -> tuple[GraphView, tuple[Transfer, ...]]:
    """A worker pulls so many tensors of each server, uses each, and pushes as many as it is told."""
    build = Builder()
    used = [
        build.op(WORKER, f"use{s}_{i}", [build.pair(build.const(server, f"v{s}_{i}"), server, WORKER)])
        for s, (server, count) in enumerate(of_server.items())
        for i in range(count)
    ]
    for i in range(pushes):
        pushed = build.pair(build.op(WORKER, f"grad{i}", used), WORKER, SERVERS[0])
        build.op(SERVERS[0], f"apply{i}", [pushed])
    view = GraphView.of(*build.partitions.values())
    return view, tuple(replace(t, bytes=BYTES) for t in find_transfers(view).data)


def predicted(of_server: Mapping[str, int], machine_seconds: float = 0.0, pushes: int = 0) -> Predicted:
    view, transfers = pulled(of_server, pushes)
    costs = by_name(view, dict.fromkeys(view.names, 0.0), {t.node: SENT for t in transfers})
    network = Network(costs, CARD, machine_seconds=machine_seconds, cores=2 if machine_seconds else 0)
    return make_plan(view, transfers, network, PlanRequest("tic")).predicted


def test_small_transfers_wait_for_acknowledgements() -> None:
    """Of a window of three the first two leave behind the one before; each of the next waits for one of them."""
    told = predicted({SERVERS[0]: TENSORS})
    turns = (TENSORS - 1) // 3
    assert told.ordered_seconds == pytest.approx(TENSORS * SENT)
    assert told.ack_window_seconds == pytest.approx(turns * (ACK_SECONDS + SENT) + 2 * SENT)


def test_the_cores_work_for_acknowledgements() -> None:
    told, cores = predicted({SERVERS[0]: TENSORS}, 1.0), 1 + 0.2 * TENSORS * SENT
    assert told.ordered_seconds == pytest.approx(cores)
    assert told.ack_window_seconds == pytest.approx(cores + (TENSORS - 3) * ACK_CORE_SECONDS / 2)


def test_a_proxy_has_all_that_it_orders_before_it_sends() -> None:
    """Two servers have a proxy each: the busier is waited for; the worker's, too, passes on what it pushes."""
    assert predicted({SERVERS[0]: TENSORS}).proxy_seconds == pytest.approx(TENSORS * (SENT + HELD))
    servers = {SERVERS[0]: 6, SERVERS[1]: 7}
    assert predicted(servers).proxy_seconds == pytest.approx(13 * SENT + 7 * HELD)
    busy = predicted(servers, 1.0, pushes=1)
    assert busy.proxy_seconds == pytest.approx(busy.ordered_seconds + 7 * HELD)
    own = predicted({SERVERS[0]: 1, SERVERS[1]: 1}, pushes=9)
    assert own.proxy_seconds == pytest.approx(11 * SENT + HELD)


def test_nothing_is_said_of_times_that_are_no_seconds() -> None:
    view, transfers = pulled({SERVERS[0]: 2})
    costs = by_name(view, dict.fromkeys(view.names, 0.0), {t.node: 1.0 for t in transfers})
    told = make_plan(view, transfers, Network(costs), PlanRequest("tic")).predicted
    assert (told.ordered_seconds, told.ack_window_seconds, told.proxy_seconds) == (2, 0, 0)
