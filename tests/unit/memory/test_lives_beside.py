"""What a copy takes or holds has its place as long as it may need it, not only as long as it was traced to."""

from tfwave.graph.marks import FETCH_OP, STASH_OP
from tfwave.graph.view import GraphView
from tfwave.memory.pool.lives import Beside, traced_lives
from tfwave.memory.profile import MemoryProfile, OpMemory
from tfwave.memory.step import StepMemory, Tensor
from tfwave.offload.placed import copies_of
from tfwave.proto.tensorflow_pb2 import GraphDef

NODES = {
    "make": ("Const", []),
    "out": (STASH_OP, ["make"]),
    "wide": ("Const", ["^make"]),
    "waits": ("Const", ["^out", "^wide"]),
    "trigger": ("Const", ["^waits"]),
    "narrow": ("Const", ["^trigger"]),
    "back": (FETCH_OP, ["out", "^trigger"]),
    "use": ("Neg", ["back"]),
}
OPS = tuple(NODES)
LATE = OPS.index("back"), OPS.index("use")


def traced() -> StepMemory:
    """Op after op; the copy out was quick in this step, and the one back had to wait."""
    profile = MemoryProfile("cpu", [OpMemory(name, 256, 0, 0) for name in OPS], 0)
    tensors = (
        Tensor(("make:0",), 512, 0, 1, 1, (0, 1)),
        Tensor(("back:0",), 768, LATE[0], LATE[1], LATE[1], LATE),
    )
    begins = tuple(float(n) for n in range(len(OPS)))
    return StepMemory(profile, tensors, begins, tuple(begin + 0.5 for begin in begins))


def begin(name: str) -> int:
    return 2 * OPS.index(name)


def test_lives_of_copies_reach_as_far_as_they_may() -> None:
    graph = GraphDef()
    for name, (op, inputs) in NODES.items():
        graph.node.add(name=name, op=op, input=inputs)
    out, back = traced_lives(traced(), copies_of(GraphView.of(graph)))
    assert (out.op, out.born, out.dies) == ("make", begin("make"), begin("waits"))
    assert (back.op, back.born, back.dies) == ("back", begin("trigger") + 1, begin("use") + 1)


def test_what_runs_in_turn_lasts_as_it_was_traced() -> None:
    out, back = traced_lives(traced())
    assert (out.born, out.dies) == (begin("make"), begin("out") + 1)
    assert (back.born, back.dies) == (begin("back"), begin("use") + 1)
    elsewhere = Beside({"back": ["gone"]}, {"out": ["gone"]})
    assert traced_lives(traced(), elsewhere) == (out, back)
