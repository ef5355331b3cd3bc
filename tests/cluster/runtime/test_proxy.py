"""What the proxy does besides: a worker behind one, functions of a strategy, and the addresses that it takes."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf

from tests.cluster.cluster import Cluster, enforced
from tests.cluster.job import run_chief
from tests.cluster.model import build, by_step, plan_of, sends
from tfwave.errors import EnforcerError
from tfwave.runtime.control.client import ControlClient
from tfwave.runtime.proxy.behind import BehindProxy

pytestmark = pytest.mark.tensorflow

ORDERED = 0
STEPS = 10


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with enforced("proxy") as started:
        yield started


def test_pushes_of_a_worker_behind_a_proxy_follow_the_plan(cluster: Cluster) -> None:
    model = build(cluster, 0, [0], "w0")
    pushes = sends(model.partitions([model.loss, model.train]))
    plan = plan_of(pushes, 8, "/job:worker/replica:0/task:0")
    with ControlClient(cluster.workers[0].control[0]) as worker:
        worker.install(plan)
        model.step(STEPS)
        steps = by_step(worker.hand_offs())
        worker.remove()
    (order,) = plan.orders
    assert len(steps) == STEPS
    assert all(r == list(range(len(order.transfers))) and why == {ORDERED} for r, why in steps)
    model.session.close()


def test_a_function_under_parameter_server_strategy(cluster: Cluster) -> None:
    request = {"cluster": cluster.spec, "control": cluster.ps[0].control[0]}
    said = run_chief("tests.cluster.runtime.proxy_chief", json.dumps(request))
    assert said["losses"][0] == said["losses"][1] == said["losses"][2]
    assert len(set(said["losses"][0])) == 8
    steps = [[list(range(9)), [ORDERED]]] * 8
    assert said["orders"] == [{"of_a_function": [named], "steps": steps} for named in (False, True)]


def test_an_address_in_use_is_named(cluster: Cluster) -> None:
    taken = cluster.spec["ps"][0]

    def definition(address: str, port: int = 0) -> Any:
        spec = tf.train.ClusterSpec({"ps": [address]})
        return tf.train.ServerDef(cluster=spec.as_cluster_def(), job_name="ps", task_index=0, port=port)

    with pytest.raises(EnforcerError, match=taken):
        BehindProxy(definition(taken))
    port = int(taken.rpartition(":")[2])
    with pytest.raises(EnforcerError, match=f"port {port}"):
        BehindProxy(definition("127.0.0.1:1", port))
    other = definition(taken)
    other.task_index = 7
    with pytest.raises(EnforcerError, match="no task 7 of job 'ps'"):
        BehindProxy(other)
    with pytest.raises(EnforcerError, match="'nowhere'"):
        BehindProxy(definition("nowhere"))
