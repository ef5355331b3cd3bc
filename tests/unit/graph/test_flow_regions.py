"""Branches and loops as wholes."""

from collections import defaultdict
from collections.abc import Sequence

from tfwave.graph.flow_regions import flow_regions
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import GraphDef


def regions(*nodes: tuple[str, str, Sequence[str]]) -> list[str]:
    """The regions of more than one node, by their nodes."""
    graph = GraphDef()
    for name, op, inputs in nodes:
        node = graph.node.add(name=name, op=op, input=inputs)
        if op == "Enter":
            node.attr["frame_name"].s = b"loop"
    view = GraphView.of(graph)
    found: dict[int, list[str]] = defaultdict(list)
    for node, region in enumerate(flow_regions(view)):
        found[region].append(view.names[node])
    return sorted(" ".join(sorted(names)) for names in found.values() if len(names) > 1)


BRANCH = (
    ("x", "Const", []),
    ("p", "Const", []),
    ("s", "Switch", ["x", "p"]),
    ("hot", "Neg", ["s:1"]),
    ("m", "Merge", ["s", "hot"]),
    ("y", "Neg", ["m"]),
)


def test_a_branch_goes_from_its_switches_to_its_merges() -> None:
    assert regions(*BRANCH) == ["hot m s"]


def test_branches_one_after_the_other_are_two() -> None:
    """Gradients of a branch are one that reads what the first gave out."""
    again = (("s2", "Switch", ["y", "p"]), ("m2", "Merge", ["s2", "s2:1"]))
    assert regions(*BRANCH, *again) == ["hot m s", "m2 s2"]


def test_a_shared_predicate_does_not_join_two_branches() -> None:
    """Both have constants that wait for one pivot; ``s`` leads into three regions, so it is in none."""
    pivot = (("sp", "Switch", ["p", "p"]), ("pivot", "Identity", ["sp:1"]))
    first = (("one", "Const", ["^pivot"]), ("a", "Add", ["s:1", "one"]), ("m3", "Merge", ["s", "a"]))
    second = (("two", "Const", ["^pivot"]), ("s2", "Switch", ["y", "p"]), ("b", "Add", ["s2:1", "two"]))
    assert regions(*BRANCH, *pivot, *first, *second) == [
        "a m3 one",
        "b s2 two",
        "hot m",
        "pivot sp",
    ]


def test_a_shared_constant_does_not_join_a_branch_and_its_gradient() -> None:
    pivot = (("sp", "Switch", ["p", "p"]), ("pivot", "Identity", ["sp:1"]), ("two", "Const", ["^pivot"]))
    first = (("a", "Mul", ["s:1", "two"]), ("m3", "Merge", ["s", "a"]), ("s", "Switch", ["x", "p"]))
    second = (("s2", "Switch", ["m3", "p"]), ("b", "Mul", ["s2:1", "two"]), ("m4", "Merge", ["s2", "b"]))
    ends = (("x", "Const", []), ("p", "Const", []))
    assert regions(*pivot, *first, *second, *ends) == ["a m3 s", "b m4 s2", "pivot sp"]


def test_a_branch_whose_writes_are_waited_for_is_one() -> None:
    """Its pivots lead to all in it, and that to the Merge of them."""
    pivots = (("sp", "Switch", ["p", "p"]), ("no", "Identity", ["sp"]), ("yes", "Identity", ["sp:1"]))
    writes = (
        ("read", "ReadVariableOp", ["x", "^yes"]),
        ("one", "Const", ["^yes"]),
        ("add", "AssignAddVariableOp", ["x", "one", "^read"]),
        ("add2", "AssignAddVariableOp", ["x", "read", "^add"]),
        ("done", "Merge", ["no", "yes", "^add", "^add2"]),
    )
    ends = (("x", "Const", []), ("p", "Const", []), ("after", "NoOp", ["^done"]))
    assert regions(*pivots, *writes, *ends) == ["add add2 done no one read sp yes"]


def test_parts_of_a_branch_one_within_the_other_are_one() -> None:
    """What ``half`` gives is written before and after ``read``, which shares no data with it."""
    around = (
        ("half", "Neg", ["s:1"]),
        ("write", "AssignVariableOp", ["v", "half"]),
        ("read", "ReadVariableOp", ["v", "^write"]),
        ("out", "Neg", ["read"]),
        ("write2", "AssignVariableOp", ["v", "half", "^read"]),
    )
    assert regions(*BRANCH[:3], ("v", "VarHandleOp", []), *around) == ["half out read s write write2"]


def test_a_loop_goes_from_its_enters_to_its_exits() -> None:
    loop = (
        ("e", "Enter", ["x"]),
        ("lm", "Merge", ["e", "n"]),
        ("c", "LoopCond", ["lm"]),
        ("ls", "Switch", ["lm", "c"]),
        ("body", "Neg", ["ls:1"]),
        ("n", "NextIteration", ["body"]),
        ("out", "Exit", ["ls"]),
        ("z", "Neg", ["out"]),
    )
    assert regions(("x", "Const", []), *loop) == ["body c e lm ls n out"]
