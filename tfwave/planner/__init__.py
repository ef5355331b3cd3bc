"""From a graph and its costs to a plan: where policies, bounds and the simulator meet."""

from tfwave.planner.plan import PlanRequest as PlanRequest
from tfwave.planner.plan import make_plan as make_plan
