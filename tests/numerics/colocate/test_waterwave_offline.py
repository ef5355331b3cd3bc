"""Jobs whose graphs are merged, planned from captures and given barriers: the same bits as alone, and no more."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from grappler_passes.counter_barrier import CounterBarrier
from tests.numerics.memory.memory_models import build
from tests.rewrites import check_rewrite, graph_bytes
from tfwave.bundle.bundle import load_bundle
from tfwave.capture.session import capture_run
from tfwave.colocate.advice import Advice
from tfwave.colocate.profile import captured_step
from tfwave.graph.container import open_container
from tfwave.graph.item import GraphItem
from tfwave.graph.load import parse_graph
from tfwave.graph.merge import merge
from tfwave.memory.colocation import Colocation
from tfwave.memory.groups import levelled
from tfwave.memory.slots import staggered_slots
from tfwave.plan.plan import Plan

pytestmark = pytest.mark.tensorflow

v1 = tf.compat.v1
STEPS = 3
ROOM = 1 << 40
JOBS = {"images": "resnet", "words": "lstm", "words-2": "lstm"}
"""Names of jobs and their models, which have variables of the same names."""


def saved(value: float, place: Path) -> GraphItem:
    """A SavedModel of a function of a variable, whose value is in its checkpoint alone."""
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        fed = v1.placeholder(tf.float32, [], name="x")
        variable = v1.get_variable("v", initializer=0.0, use_resource=True)
        out = tf.add(fed, tf.function(lambda x: x * variable)(fed), name="y")
        session.run(variable.initializer)
        session.run(variable.assign(value))
        v1.saved_model.simple_save(session, str(place), {"x": fed}, {"y": out})
    ((_, item),) = open_container(str(place)).items()
    return item


def test_saved_models_restore_each_its_own_variables(tmp_path: Path) -> None:
    """Both call theirs 'v', and a function that reads it by one name."""
    places = {"a": tmp_path / "a", "b": tmp_path / "b"}
    merged = merge({name: saved(value, places[name]) for name, value in (("a", 2.0), ("b", 5.0))})
    assert merged.fetches == ("a/y:0", "b/y:0")
    with session_of(imported(merged)) as session:
        for name, place in places.items():
            session.run(
                f"{name}/save/restore_all", {f"{name}/save/Const:0": str(place / "variables/variables")}
            )
        assert session.run(list(merged.fetches), {"a/x:0": 1.0, "b/x:0": 10.0}) == [3.0, 60.0]


@dataclass(frozen=True)
class Trained:
    """A job by itself: its graph, what a step fetches, and all that it computed; its capture is in a directory."""

    graph: bytes
    fetches: tuple[str, ...]
    weight: str
    values: list[bytes]


def session_of(graph: Any, *, grappler: bool = True) -> Any:
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = not grappler
    return v1.Session(graph=graph, config=config)


def train(
    session: Any, losses: Sequence[str], updates: Sequence[str], weights: Sequence[str]
) -> list[list[bytes]]:
    """Of each job, its losses and at last a variable."""
    found = [session.run([list(losses), list(updates)])[0] for _ in range(STEPS)]
    found.append(session.run(list(weights)))
    return [[np.asarray(values[job]).tobytes() for values in found] for job in range(len(losses))]


def trained(model: str, out: Path) -> Trained:
    with tf.Graph().as_default() as graph:
        loss, update = build(model, 1).fetches
        weight = v1.global_variables()[0].read_value().name
        tf.group(v1.global_variables_initializer(), name="init")
    with session_of(graph) as session:
        session.run("init")
        values = train(session, [loss.name], [update.name], [weight])[0]
        capture_run(session, [loss, update], out=out, steps=1, warmup=1)
    return Trained(graph.as_graph_def().SerializeToString(), (loss.name, update.name), weight, values)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Trained], Path]:
    place = tmp_path_factory.mktemp("captures")
    models = {model: trained(model, place / model) for model in dict.fromkeys(JOBS.values())}
    return {job: models[model] for job, model in JOBS.items()}, place


@pytest.fixture(scope="module")
def plan(alone: tuple[dict[str, Trained], Path]) -> Plan:
    """Each step in parts of an eighth of its rise, and each job two slots behind the one before it."""
    bundles = {model: load_bundle(alone[1] / model) for model in dict.fromkeys(JOBS.values())}
    steps = [captured_step(job, bundles[model]) for job, model in JOBS.items()]
    levels = [levelled(step.view, step.profile, step.costs) for step in steps]
    cuts = [level.cut(sum(group.transient for group in level.whole) // 8) for level in levels]
    jobs = tuple(step.in_groups(groups) for step, groups in zip(steps, cuts, strict=True))
    found = Advice(tuple(steps), ROOM, 0, Colocation(jobs, staggered_slots(jobs, 2, ROOM), ROOM)).groups
    assert found is not None
    assert min(map(len, cuts)) > 2
    return Plan(groups=found)


@pytest.fixture(scope="module")
def calm(alone: tuple[dict[str, Trained], Path], plan: Plan) -> GraphItem:
    items = {job: GraphItem(parse_graph(one.graph, job)) for job, one in alone[0].items()}
    return check_rewrite(CounterBarrier(plan=plan), merge(items)).item


def imported(item: GraphItem) -> Any:
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(v1.GraphDef.FromString(graph_bytes(item)), name="")
    return graph


@pytest.mark.parametrize("grappler", [True, False])
def test_jobs_compute_what_they_compute_alone(
    alone: tuple[dict[str, Trained], Path], calm: GraphItem, grappler: bool
) -> None:
    losses, updates, weights = (
        [f"{job}/{name}" for (job, _), name in zip(alone[0].items(), names, strict=True)]
        for names in zip(*((*one.fetches, one.weight) for one in alone[0].values()), strict=True)
    )
    with session_of(imported(calm), grappler=grappler) as session:
        for job in JOBS:
            session.run(f"{job}/init")
        found = train(session, losses, updates, weights)
    if grappler:
        assert found == [one.values for one in alone[0].values()]
    assert found[1] == found[2]


def test_an_initialiser_touches_no_other_job(alone: tuple[dict[str, Trained], Path], calm: GraphItem) -> None:
    weights = [f"{job}/{one.weight}" for job, one in alone[0].items()]
    steps = [f"{job}/{name}" for job, one in alone[0].items() for name in one.fetches]
    with session_of(imported(calm)) as session:
        for job in JOBS:
            session.run(f"{job}/init")
        session.run(steps)
        before = session.run(weights)
        session.run("words/init")
        after = session.run(weights)
    assert [np.array_equal(*pair) for pair in zip(before, after, strict=True)] == [True, False, True]
