"""The training steps of `limited_models` as programs for processes with limited pools: as they are, and fitted."""

from dataclasses import replace

from tfwave.graph.item import GraphItem
from tfwave.passes.text import parse_pipeline
from tfwave.plan.memory import Memory
from tfwave.plan.plan import Plan
from tfwave.proto.tensorflow_pb2 import GraphDef
from tools.bench.memory import fitted_task, limited_task, placed_task
from tools.bench.memory.limited import Program
from tools.bench.memory.limited_models import LOSS, RESET, TRAIN


def step_program(graph: GraphDef, module: str = limited_task.MODULE) -> Program:
    """The step as the graph has it, in a process of this module."""
    return Program(graph, (RESET,), (((f"{LOSS}:0",), (TRAIN,)),), module)


def fitted_program(graph: GraphDef, memory: Memory) -> Program:
    """The step as a plan has it, in a planned pool if that says where all lies."""
    plan = Plan(memory=memory)
    fitted = parse_pipeline("fit_memory", plan)(GraphItem(graph)).item.graph
    program = step_program(fitted, fitted_task.MODULE)
    return replace(program, module=placed_task.MODULE, plan=plan) if memory.places else program
