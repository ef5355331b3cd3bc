"""What a user gives as a plan: a plan, or the name of its file; of which one section is wanted."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from tfwave.errors import PlanError
from tfwave.plan.embeddings import Embeddings
from tfwave.plan.groups import Groups
from tfwave.plan.io import load_plan
from tfwave.plan.layers import Layers
from tfwave.plan.placement import Placement
from tfwave.plan.plan import Plan
from tfwave.plan.waves import Waves

GivenPlan = Plan | Path | str
_Section = TypeVar("_Section", Groups, Waves, Placement, Layers, Embeddings)

_LACKS: Mapping[type, str] = {
    Groups: "has no jobs that share a memory: make one that does with `tfwave colocate BUNDLE... -o FILE`",
    Waves: "makes no waves: make one that does with `tfwave waves BUNDLE --graph TRAIN.pb -o FILE`",
    Placement: "places no variables: make one that does with `tfwave balance GRAPH -o FILE`",
    Layers: "has no devices for layers: make one that does with `tfwave burst plan PROFILE -o FILE`",
    Embeddings: "stages no steps: make one that does with `tfwave embeddings CAPTURE -o FILE`",
}


def section_of(given: GivenPlan, kind: type[_Section]) -> _Section:
    """The section of a plan.

    Raises:
        PlanError: as `load_plan`, or the plan lacks it; says what makes one.
    """
    plan = _as_plan(given)
    for section in (plan.groups, plan.waves, plan.placement, plan.layers, plan.embeddings):
        if isinstance(section, kind):
            return section
    raise PlanError(f"the plan {_LACKS[kind]}")


def order_of(given: GivenPlan) -> Plan:
    """The plan, of which the order is wanted.

    Raises:
        PlanError: as `load_plan`, or it has none; says what makes one.
    """
    plan = _as_plan(given)
    if not plan.has_order:
        raise PlanError("the plan orders no transfers: make one that does with `tfwave plan BUNDLE -o FILE`")
    return plan


def _as_plan(given: GivenPlan) -> Plan:
    return given if isinstance(given, Plan) else load_plan(given)
