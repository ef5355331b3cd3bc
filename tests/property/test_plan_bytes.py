"""One graph, one plan, one sequence of bytes, however its nodes are numbered."""

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.graphs import Job, random_job
from tfwave.cost.network import Network
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.order.registry import POLICY_NAMES
from tfwave.plan.io import load_plan, save_plan
from tfwave.plan.match import check_match
from tfwave.plan.plan import Plan
from tfwave.planner import PlanRequest, make_plan


def plan_of(job: Job, policy: str) -> Plan:
    view = GraphView.of(*job.partitions)
    return make_plan(view, find_transfers(view).data, Network(job.costs), PlanRequest(policy, seed=3))


def bytes_of(plan: Plan) -> list[bytes]:
    with tempfile.TemporaryDirectory() as place:
        files = [Path(place) / name for name in ("p.json", "p.pb")]
        for file in files:
            save_plan(plan, file)
            assert load_plan(file) == plan
        return [file.read_bytes() for file in files]


@pytest.mark.parametrize("policy", POLICY_NAMES)
@settings(max_examples=30, deadline=None, database=None)
@given(rng=st.randoms(use_true_random=False))
def test_renumbering_changes_no_byte(policy: str, rng: random.Random) -> None:
    job = random_job(rng)
    assume(find_transfers(GraphView.of(*job.partitions)).data)
    again = job.renumbered(rng)
    before = [p.SerializeToString(deterministic=True) for p in job.partitions]
    plan = plan_of(job, policy)
    assert bytes_of(plan) == bytes_of(plan_of(again, policy))
    assert [p.SerializeToString(deterministic=True) for p in job.partitions] == before
    view = GraphView.of(*again.partitions)
    check_match(plan, view, find_transfers(view))
