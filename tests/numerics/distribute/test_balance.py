"""Placements in TensorFlow 1: the stock setter follows them, a capture reads them back, and numbers stay equal."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tests.numerics.corpus import places
from tfwave.balance.chooser import ServerChooser
from tfwave.balance.load import server_load
from tfwave.balance.solve import balance
from tfwave.balance.variables import variables_of
from tfwave.bundle.costs import bundle_costs
from tfwave.capture.session import capture_run
from tfwave.cli.inputs import load_source
from tfwave.plan.placement import Placement

v1 = tf.compat.v1
X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 16)
SHAPES = {"w0": (16, 64), "b0": (64,), "w1": (64, 16), "b1": (16,)}
STEPS = 3


def sizes() -> dict[str, int]:
    return {name: 4 * int(np.prod(shape)) for name, shape in SHAPES.items()}


class Job:
    """Two layers, trained with momentum; `w1` is a reference variable."""

    def __init__(self, strategy: Any = None) -> None:
        self.places = places.cluster()
        setter = v1.train.replica_device_setter(
            ps_tasks=2, ps_device="/job:ps", worker_device=self.places.worker, ps_strategy=strategy
        )
        random = np.random.RandomState(5)
        self.graph = tf.Graph()
        with self.graph.as_default(), v1.device(setter):
            self.x = v1.placeholder(tf.float32, (None, 16))
            made = {
                name: v1.get_variable(
                    name, initializer=random.randn(*shape).astype("f") / 9, use_resource=name != "w1"
                )
                for name, shape in SHAPES.items()
            }
            h = tf.tanh(self.x @ made["w0"] + made["b0"])
            out = h @ made["w1"] + made["b1"]
            self.loss = tf.reduce_mean((out - 1.0) ** 2)
            self.step = v1.train.MomentumOptimizer(0.1, 0.9).minimize(self.loss)
            self.init = v1.global_variables_initializer()
        self.variables = {v.op.name: v.op for v in self.graph.get_collection("variables")}

    def servers(self) -> dict[str, int]:
        return {name: int(op.device.partition("task:")[2]) for name, op in self.variables.items()}

    def session(self) -> Any:
        v1.Session.reset(self.places.target)
        session = v1.Session(self.places.target, graph=self.graph)
        session.run(self.init)
        return session

    def losses(self) -> list[bytes]:
        with self.session() as session:
            return [session.run([self.loss, self.step], {self.x: X})[0].tobytes() for _ in range(STEPS)]

    def capture(self, out: Path) -> Any:
        with self.session() as session:
            return capture_run(session, [self.loss, self.step], {self.x: X}, out=out, steps=2, warmup=1)


def placed(**variables: int) -> ServerChooser:
    return ServerChooser(Placement(2, variables))


def test_the_stock_setter_follows_a_placement() -> None:
    job = Job(placed(w0=1, b0=1, w1=0, b1=0))
    slots = {"w0/Momentum": 1, "b0/Momentum": 1, "w1/Momentum": 0, "b1/Momentum": 0}
    assert job.servers() == {"w0": 1, "b0": 1, "w1": 0, "b1": 0} | slots
    assert job.loss.device == job.places.worker


def test_what_it_does_not_name_goes_where_least_is() -> None:
    assert Job(placed(w0=1)).servers().items() >= {"w0": 1, "b0": 0, "w1": 0, "b1": 1}.items()
    assert Job(placed()).servers().items() >= {"w0": 0, "b0": 1, "w1": 1, "b1": 0}.items()


def test_numbers_are_equal_wherever_variables_are() -> None:
    stock = Job()
    assert stock.servers().items() >= {"w0": 0, "b0": 1, "w1": 0, "b1": 1}.items()
    assert stock.losses() == Job(placed(w0=1, b0=1, w1=0, b1=0)).losses() == Job(placed()).losses()


def test_a_capture_tells_the_load_and_the_next_placement(tmp_path: Path) -> None:
    job = Job()
    bundle = job.capture(tmp_path / "bundle")
    moved = {
        server: 2 * sum(n for v, n in sizes().items() if job.servers()[v] == server) for server in (0, 1)
    }
    loads = server_load(bundle.view, bundle.transfers.data, bundle_costs(bundle))
    assert [load.pulled_bytes + load.pushed_bytes for load in loads] == [moved[0], moved[1]]
    assert loads[0].wire_seconds > 0
    variables = variables_of(bundle.view, bundle.transfers.data)
    assert {v.name: v.bytes for v in variables} == {name: 2 * size for name, size in sizes().items()}
    assert {v.name: v.followers for v in variables} == {name: (f"{name}/Momentum",) for name in SHAPES}
    found = balance(variables, 2)
    assert (found.bytes_now, max(found.bytes_after)) == ((moved[0], moved[1]), 2 * (4096 + 256))
    again = Job(ServerChooser(found.placement))
    assert again.servers() == found.placement.variables
    after = again.capture(tmp_path / "after")
    loads = server_load(after.view, after.transfers.data)
    assert tuple(load.bytes for load in loads) == found.bytes_after


def test_a_graph_alone_tells_what_is_pulled(tmp_path: Path) -> None:
    """Cut offline: whole variables are read, gradients are of unknown size."""
    job = Job()
    (tmp_path / "job.pb").write_bytes(job.graph.as_graph_def().SerializeToString())
    source = load_source(str(tmp_path / "job.pb"), [job.step.name])
    variables = variables_of(source.view, source.transfers.data)
    assert json.dumps({v.name: v.bytes for v in variables}) == json.dumps(dict(sorted(sizes().items())))
    needs = {v.name: v.need for v in variables}
    assert needs["w0"] < needs["b0"] < needs["w1"] < needs["b1"]
