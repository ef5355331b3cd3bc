"""Which nodes get at what: known by handles, by names and by what variants were made of, or refused."""

from collections.abc import Sequence

import pytest

from grappler_passes.cross_step import CrossStep
from tests.rewrites import check_rewrite
from tests.steps import FLOAT, Builder, layers
from tests.unit.graph.test_functions import func
from tfwave.errors import GraphError
from tfwave.graph import access
from tfwave.graph.access import PROCESS, Resource, resource_of
from tfwave.graph.item import GraphItem
from tfwave.graph.ops import OpTable
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import (
    DT_FLOAT,
    DT_INT32,
    DT_RESOURCE,
    DT_VARIANT,
    AttrValue,
    FunctionDef,
    NodeDef,
    TensorShapeProto,
)
from tfwave.rewrite.resources import ResourceSurvey

INT = AttrValue(type=DT_INT32)


def text(value: str) -> AttrValue:
    return AttrValue(s=value.encode())


def kinds(*types: int) -> AttrValue:
    return AttrValue(list=AttrValue.ListValue(type=types))


def number(value: int) -> AttrValue:
    return AttrValue(i=value)


GIVEN = {
    "output_types": kinds(DT_FLOAT),
    "output_shapes": AttrValue(list=AttrValue.ListValue(shape=[TensorShapeProto()])),
}
QUEUED = {"component_types": kinds(DT_FLOAT)}
NOTHING = AttrValue(list=AttrValue.ListValue())


def touched(build: Builder, name: str, custom: Sequence[str] = ()) -> dict[Resource, bool]:
    """What a node touches, and whether it changes it."""
    item = GraphItem(build.graph, custom_ops=frozenset(custom))
    view = GraphView.of(build.graph)
    return {t.resource: t.writes for t in ResourceSurvey(item, view).touches([view.names.index(name)])}


def variable(name: str) -> Resource:
    return ("VarHandleOp", "", name)


def function(build: Builder, name: str, *nodes: NodeDef, takes: int = DT_RESOURCE) -> None:
    made = FunctionDef(node_def=nodes)
    made.signature.name = name
    made.signature.is_stateful = True
    made.signature.input_arg.add(name="given", type=takes)
    build.graph.library.function.append(made)


READ = NodeDef(name="read", op="ReadVariableOp", input=["given"], attr={"dtype": FLOAT})
PYTHON = NodeDef(
    name="python", op="PyFunc", attr={"token": text("t"), "Tin": NOTHING, "Tout": kinds(DT_FLOAT)}
)


def mapped(build: Builder, body: NodeDef) -> None:
    """``data``: a dataset whose function `body` is given the handle ``w0``."""
    function(build, "map", body)
    build.node(
        "numbers", "TensorDataset", "x", Toutput_types=kinds(DT_FLOAT), output_shapes=GIVEN["output_shapes"]
    )
    build.node("data", "MapDataset", "numbers", "w0", f=func("map"), Targuments=kinds(DT_RESOURCE), **GIVEN)


@pytest.mark.parametrize(
    ("node", "found"),
    [
        (NodeDef(name="n", op="VarHandleOp"), ("VarHandleOp", "", "")),
        (NodeDef(name="n", op="VarHandleOp", attr={"shared_name": text("s")}), ("VarHandleOp", "", "s")),
        (NodeDef(name="n", op="HashTableV2", attr={"container": text("c")}), ("HashTable", "c", "n")),
        (NodeDef(name="n", op="MutableHashTableOfTensorsV2"), ("HashTable", "", "n")),
        (
            NodeDef(name="n", op="OneShotIterator", attr={"container": text("localhost")}),
            ("Iterator", "", "n"),
        ),
        (NodeDef(name="n", op="MutexV2", attr={"shared_name": text("s")}), ("MutexV2", "", "s")),
    ],
)
def test_a_resource_is_what_tensorflow_finds_by_its_name(node: NodeDef, found: Resource) -> None:
    assert resource_of(node) == found


def test_the_ops_that_are_listed_are_tensorflows_and_do_what_is_said() -> None:
    table = OpTable()
    signatures = {
        op: table.signature(NodeDef(op=op))
        for listed in (
            access.VARIABLE_OPS,
            access.READING_OPS,
            access.STATELESS_OPS,
            access.FILE_READING_OPS,
            access.KEEPING_OPS,
            access.IN_PLACE_OPS,
        )
        for op in listed
    }
    assert all(access.takes_handle(signatures[op]) for op in access.READING_OPS)
    assert all(access.works_on_reference(signatures[op]) for op in access.REFERENCE_OPS)
    assert all(signatures[op].is_stateful for op in access.STATELESS_OPS | access.KEEPING_OPS)
    assert not any(signatures[op].is_stateful for op in access.FILE_READING_OPS | access.IN_PLACE_OPS)


@pytest.mark.parametrize(
    ("op", "attrs", "writes"),
    [
        ("ReadVariableXlaSplitND", {"T": FLOAT, "N": number(1)}, False),
        ("VariableShape", {}, False),
        ("ResourceCountUpTo", {"T": INT, "limit": number(3)}, True),
        ("DestroyResourceOp", {}, True),
        ("EagerPyFunc", {"token": text("t"), "Tin": kinds(DT_RESOURCE), "Tout": NOTHING}, True),
    ],
)
def test_what_takes_a_handle_changes_what_is_behind_it_unless_it_is_known_to_read(
    op: str, attrs: dict[str, AttrValue], writes: bool
) -> None:
    build = layers(1)
    build.node("node", op, "w0", **attrs)
    assert touched(build, "node")[variable("w0")] == writes


def test_an_op_of_ones_own_changes_all_that_it_takes_and_the_process() -> None:
    build = layers(1)
    build.node("own", "Own", "w0")
    assert touched(build, "own", ["Own"]) == {variable("w0"): True, PROCESS: True}


@pytest.mark.parametrize(
    ("op", "attrs", "writes"),
    [
        ("ReadFile", {}, False),
        ("Timestamp", {}, True),
        ("Stage", {"dtypes": kinds(DT_FLOAT)}, True),
        ("UnbatchGrad", {"T": FLOAT}, True),
        ("TextLineDataset", {}, False),
        ("GetSessionHandleV2", {"T": FLOAT}, True),
    ],
)
def test_what_is_found_without_a_handle_is_the_process(
    op: str, attrs: dict[str, AttrValue], writes: bool
) -> None:
    build = layers(1)
    count = len(OpTable().signature(NodeDef(op=op)).input_arg)
    build.node("node", op, *["x"] * count, **attrs)
    assert touched(build, "node") == {PROCESS: writes}


@pytest.mark.parametrize(
    ("body", "also"), [(READ, {variable("w0"): False}), (PYTHON, {PROCESS: True, variable("w0"): False})]
)
def test_an_iterator_touches_what_its_dataset_does(body: NodeDef, also: dict[Resource, bool]) -> None:
    build = layers(1)
    mapped(build, body)
    build.node("iterator", "IteratorV2", shared_name=text("it"), container=text(""), **GIVEN)
    build.node("make", "MakeIterator", "data", "iterator")
    build.node("again", "Iterator", shared_name=text("it"), container=text(""), **GIVEN)
    build.node("next", "IteratorGetNext", "again", **GIVEN)
    assert touched(build, "next") == {("Iterator", "", "it"): True} | also


def test_a_dataset_that_is_run_in_the_step_touches_what_its_functions_do() -> None:
    build = layers(1)
    mapped(build, READ)
    build.node("passed", "Identity", "data", T=AttrValue(type=DT_VARIANT))
    build.node("one", "DatasetToSingleElement", "passed", **GIVEN)
    assert touched(build, "one") == {PROCESS: True, variable("w0"): False}


def test_a_variant_that_goes_round_a_loop_is_what_it_was_made_with() -> None:
    build = layers(1)
    mapped(build, READ)
    variant, frame = AttrValue(type=DT_VARIANT), {"frame_name": text("f")}
    build.node("p", "Placeholder", dtype=variant)
    build.node("enter", "Enter", "p", T=variant, **frame)
    build.node("merge", "Merge", "enter", "next", T=variant, N=number(2))
    build.node("inside", "Enter", "data", T=variant, **frame)
    build.node("joined", "ConcatenateDataset", "merge", "inside", **GIVEN)
    build.node("next", "NextIteration", "joined", T=variant)
    build.node("run", "DatasetToSingleElement", "merge", **GIVEN)
    assert touched(build, "run") == {PROCESS: True, variable("w0"): False}


def test_what_a_call_gives_is_no_dataset_if_none_is_made_there() -> None:
    build = layers(1)
    function(build, "forward", READ)
    variants = {"Tin": kinds(DT_RESOURCE), "Tout": kinds(DT_VARIANT)}
    build.graph.library.function[0].signature.output_arg.add(name="list", type=DT_VARIANT)
    build.node("forward_call", "StatefulPartitionedCall", "w0", f=func("forward"), **variants)
    build.node("length", "TensorListLength", "forward_call")
    assert touched(build, "length") == {}
    dataset = NodeDef(name="d", op="RangeDataset", input=["s", "s", "s"], attr=GIVEN)
    build.graph.library.function[0].node_def.append(dataset)
    assert touched(build, "length") == {variable("w0"): False}


def test_a_lock_is_held_until_it_is_given_back() -> None:
    build = layers(1)
    build.node("mutex", "MutexV2", shared_name=text("m"))
    build.node("lock", "MutexLock", "mutex")
    build.node("back", "ConsumeMutexLock", "lock")
    mutex = {("MutexV2", "", "m"): True}
    assert touched(build, "lock") == mutex
    assert touched(build, "back") == mutex | {PROCESS: True}


def test_an_iterator_that_a_function_finds_by_a_string_may_be_any() -> None:
    build = layers(1)
    function(build, "f", NodeDef(name="found", op="IteratorFromStringHandleV2", input=["given"]), takes=7)
    build.node("iterator", "IteratorV2", shared_name=text("it"), container=text(""), **GIVEN)
    build.node("name", "IteratorToStringHandle", "iterator")
    build.node("call", "StatefulPartitionedCall", "name", f=func("f"), Tin=kinds(7), Tout=NOTHING)
    assert touched(build, "call").keys() == touched(build, "name").keys() == {("Iterator", "", "")}


@pytest.mark.parametrize("op", ["While", "StatelessWhile"])
def test_a_loop_hands_on_the_handles_that_it_takes(op: str) -> None:
    build = layers(2)
    function(build, "f", READ)
    both = kinds(DT_FLOAT, DT_RESOURCE, DT_RESOURCE)
    build.node("loop", op, "x", "w1", "w0", T=both, cond=func("f"), body=func("f"))
    build.node("shape", "VariableShape", "loop:2")
    assert touched(build, "shape") == {variable("w0"): False}


GIVERS = {
    "Select": ["c", "w0", "w0"],
    "Pack": ["w0"],
    "TensorListGetItem": ["list", "i", "s"],
    "_VarHandlesOp": [],
    "GetSessionHandleV2": ["x"],
    "StatefulPartitionedCall": ["w0"],
}


@pytest.mark.parametrize("op", GIVERS)
def test_a_handle_of_unknown_origin_is_refused(op: str) -> None:
    build = layers(1)
    handles = AttrValue(type=DT_RESOURCE)
    for name, kind in (("c", 10), ("i", DT_INT32), ("s", DT_INT32), ("list", DT_VARIANT)):
        build.node(name, "Placeholder", dtype=AttrValue(type=kind))
    function(build, "f", READ)
    build.graph.library.function[0].signature.output_arg.add(name="handle", type=DT_RESOURCE)
    attrs = {"T": handles, "N": number(1), "element_dtype": handles, "f": func("f")}
    lists = {"Tin": kinds(DT_RESOURCE), "Tout": kinds(DT_RESOURCE)}
    attrs |= lists if "Call" in op else {"T": FLOAT} if "Session" in op else {}
    build.node("giver", op, *GIVERS[op], **attrs)
    build.node("bad", "ReadVariableOp", "giver", dtype=FLOAT)
    with pytest.raises(
        GraphError, match=f"'bad' takes a handle from 'giver' .{op}., which does not say whose"
    ):
        CrossStep(2)(build.item("bad", "train"))


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("RecordInput", "'bad' (RecordInput) remembers by itself where it is"),
        ("InplaceAdd", "'bad' (InplaceAdd) changes what it takes where it lies"),
    ],
)
@pytest.mark.parametrize("called", [False, True])
def test_what_a_kernel_keeps_and_what_changes_in_place_is_refused(
    op: str, message: str, called: bool
) -> None:
    build = layers(1)
    inputs = ["x", "i", "x"] if op == "InplaceAdd" else []
    attrs = {"T": FLOAT} if inputs else {"file_pattern": text("f")}
    build.node("i", "Placeholder", dtype=INT)
    if called:
        function(build, "f", NodeDef(name="bad", op=op, attr=attrs))
        build.node("call", "StatefulPartitionedCall", "w0", f=func("f"), Tin=kinds(DT_RESOURCE), Tout=NOTHING)
        message = f"'call' calls {message}"
    else:
        build.node("bad", op, *inputs, **attrs)
    with pytest.raises(GraphError) as caught:
        CrossStep(2)(build.item("call" if called else "bad", "train"))
    assert message in str(caught.value)


def test_what_is_kept_by_the_name_of_a_node_stays_one_where_defaults_are_left_out() -> None:
    build = layers(1)
    build.node("add", "AddSparseToTensorsMap", "x", "x", "x", T=FLOAT)
    copies = check_rewrite(CrossStep(2), build.item("add:0", "train")).item.graph.node
    copy = next(node for node in copies if node.name == "cross_step/1/add")
    assert copy.attr["shared_name"].s == b"add"
