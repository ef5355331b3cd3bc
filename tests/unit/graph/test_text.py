"""The canonical form: blind to order, and to nothing else."""

import random
import struct

import pytest
from google.protobuf.message import DecodeError

from tests.graphs import SERVERS, WORKER, Builder, random_job
from tfwave.errors import TfwaveError
from tfwave.graph.diff import diff
from tfwave.graph.text import canonical, canonical_bytes, canonical_text
from tfwave.graph.values import attr_text
from tfwave.proto.tensorflow_pb2 import (
    DT_BFLOAT16,
    DT_BOOL,
    DT_FLOAT,
    DT_INT64,
    DT_RESOURCE,
    DT_STRING,
    AttrValue,
    FunctionDef,
    GraphDef,
    TensorProto,
    TensorShapeProto,
)

GOLDEN = """\
(versions) = producer: 1882
(gradient of f) = g
a = Const() @/job:worker/replica:0/task:0/device:CPU:0
  dtype = DT_FLOAT
  value = DT_FLOAT [] float_val {1.0}
b = AddN(a, a) ^c ^d @/job:worker/replica:0/task:0/device:CPU:0
  N = 2
  T = DT_FLOAT
c = NoOp()
d = NoOp()
  (type) = type_id: TFT_ANY
function f
  (signature) = name: "f" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT }
  (attr _noinline) = true
  (argument 0 attr _user_specified_name) = 'x'
  (return y) = twice:sum:0
  (control return z) = first
  first = NoOp()
  twice = AddN(x, x) ^first
function g
  (signature) = name: "g"
"""


def golden_graph() -> GraphDef:
    build = Builder()
    build.op(WORKER, "b", ["a", "a", "^d", "^c"])
    build.const(WORKER, "a")
    graph = build.partitions[WORKER]
    graph.node.add(name="d", op="NoOp").experimental_type.type_id = 2
    graph.node.add(name="c", op="NoOp")
    graph.versions.producer = 1882
    graph.library.function.add().signature.name = "g"
    function = graph.library.function.add()
    function.signature.name = "f"
    function.signature.input_arg.add(name="x", type=DT_FLOAT)
    function.signature.output_arg.add(name="y", type=DT_FLOAT)
    function.node_def.add(name="twice", op="AddN", input=["x", "x", "^first"])
    function.node_def.add(name="first", op="NoOp")
    function.ret["y"] = "twice:sum:0"
    function.control_ret["z"] = "first"
    function.attr["_noinline"].b = True
    function.arg_attr[0].attr["_user_specified_name"].s = b"x"
    graph.library.gradient.add(function_name="f", gradient_func="g")
    return graph


def reordered(graph: GraphDef, rng: random.Random) -> GraphDef:
    """The same graph, with all that has no order in another one."""
    copy = GraphDef()
    copy.CopyFrom(graph)
    bodies = [copy.node, *[function.node_def for function in copy.library.function]]
    for nodes in bodies:
        nodes.sort(key=lambda _: rng.random())
        for node in nodes:
            data = [i for i in node.input if not i.startswith("^")]
            controls = [i for i in node.input if i.startswith("^")]
            rng.shuffle(controls)
            node.input[:] = data + controls
    copy.library.function.sort(key=lambda _: rng.random())
    return copy


def test_the_text_of_a_graph() -> None:
    assert canonical_text(golden_graph()) == GOLDEN


def test_the_input_is_left_as_it_is() -> None:
    graph = golden_graph()
    before = graph.SerializeToString()
    canonical(graph)
    canonical_text(graph)
    assert graph.SerializeToString() == before


@pytest.mark.parametrize("seed", range(20))
def test_order_is_not_seen(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_job(rng).partitions[0]
    graph.library.CopyFrom(golden_graph().library)
    other = reordered(graph, rng)
    assert canonical_text(other) == canonical_text(graph)
    assert canonical_bytes(other) == canonical_bytes(graph)
    assert canonical(canonical(other)) == canonical(graph)
    assert diff(graph, other).equal


def edits() -> dict[str, GraphDef]:
    """The golden graph with one thing changed, by what that is."""
    graphs = {name: golden_graph() for name in EDITS}
    for name, graph in graphs.items():
        exec(EDITS[name], {"graph": graph, "f": graph.library.function[1]})
    return graphs


EDITS = {
    "name": "graph.node[3].name = 'e'",
    "op": "graph.node[0].op = 'Add'",
    "device": "graph.node[0].device = ''",
    "data inputs": "graph.node[0].input[0] = 'a:1'",
    "a control input": "del graph.node[0].input[3]",
    "a control input for a data input": "graph.node[0].input[1] = '^a'",
    "attr": "graph.node[0].attr['N'].i = 3",
    "attr removed": "del graph.node[0].attr['N']",
    "attr unset": "graph.node[0].attr['N'].Clear()",
    "type": "graph.node[2].experimental_type.type_id = 4",
    "debug info": "graph.node[2].experimental_debug_info.original_node_names.append('x')",
    "node removed": "del graph.node[3]",
    "versions": "graph.versions.min_consumer = 12",
    "version": "graph.version = 1",
    "graph debug info": "graph.debug_info.files.append('model.py')",
    "gradient": "graph.library.gradient[0].gradient_func = 'f'",
    "registered gradient": "graph.library.registered_gradients.add(gradient_func='f')",
    "function removed": "del graph.library.function[0]",
    "signature": "f.signature.is_stateful = True",
    "function attr": "f.attr['_noinline'].b = False",
    "argument attr": "f.arg_attr[0].attr['_user_specified_name'].s = b'y'",
    "argument resource": "f.resource_arg_unique_id[0] = 0",
    "return": "f.ret['y'] = 'x'",
    "control return": "f.control_ret['z'] = 'twice'",
    "body": "f.node_def[1].op = 'Other'",
}


@pytest.mark.parametrize("name", EDITS)
def test_all_else_is_seen(name: str) -> None:
    """By text, bytes and difference alike."""
    graph, other = golden_graph(), edits()[name]
    assert canonical_text(other) != canonical_text(graph)
    assert canonical_bytes(other) != canonical_bytes(graph)
    assert not diff(graph, other).equal


def test_no_field_of_a_graph_is_forgotten() -> None:
    """Those below are what the text shows: a new field must be added there."""
    shown = {
        GraphDef: {"node", "library", "version", "versions", "debug_info"},
        FunctionDef: {
            "signature", "node_def", "ret", "attr", "control_ret", "arg_attr", "resource_arg_unique_id",
        },
    }  # fmt: skip
    for message, fields in shown.items():
        assert set(message.DESCRIPTOR.fields_by_name) == fields
    library = GraphDef.DESCRIPTOR.fields_by_name["library"].message_type
    assert set(library.fields_by_name) == {"function", "gradient", "registered_gradients"}
    node = GraphDef.DESCRIPTOR.fields_by_name["node"].message_type
    known = {"name", "op", "input", "device", "attr", "experimental_type", "experimental_debug_info"}
    assert set(node.fields_by_name) == known


def tensor(dtype: int, *dims: int, **values: object) -> AttrValue:
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=d) for d in dims])
    return AttrValue(tensor=TensorProto(dtype=dtype, tensor_shape=shape, **values))


def listed(**values: object) -> AttrValue:
    return AttrValue(list=AttrValue.ListValue(**values))


def func(**attrs: AttrValue) -> AttrValue:
    value = AttrValue()
    value.func.name = "f"
    for name, attr in attrs.items():
        value.func.attr[name].CopyFrom(attr)
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (AttrValue(), "unset"),
        (AttrValue(i=-3), "-3"),
        (AttrValue(b=False), "false"),
        (AttrValue(f=0.1), "0.1"),
        (AttrValue(f=-0.0), "-0.0"),
        (AttrValue(f=float("inf")), "inf"),
        (AttrValue(f=1e20), "1e+20"),
        (AttrValue(s=b"loc:@v"), "'loc:@v'"),
        (AttrValue(s=b"it's\n\xff"), r'''"it's\n\xff"'''),
        (AttrValue(type=DT_FLOAT), "DT_FLOAT"),
        (AttrValue(type=9999), "9999"),
        (AttrValue(placeholder="T"), "$T"),
        (AttrValue(shape=TensorShapeProto()), "[]"),
        (AttrValue(shape=TensorShapeProto(unknown_rank=True)), "[...]"),
        (AttrValue(shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=-1, name="n")])), "[?:n]"),
        (listed(), "[]"),
        (listed(i=[1, 2]), "[1, 2]"),
        (listed(f=[1, 2]), "[1.0, 2.0]"),
        (listed(type=[DT_FLOAT, DT_STRING], s=[b"x"]), "['x', DT_FLOAT, DT_STRING]"),
        (func(), "f{}"),
        (func(b=AttrValue(i=1), a=func()), "f{a = f{}, b = 1}"),
        (tensor(DT_FLOAT, 2, float_val=[0.1, 3]), "DT_FLOAT [2] float_val {0.1, 3.0}"),
        (tensor(DT_FLOAT, 2), "DT_FLOAT [2] {}"),
        (tensor(DT_FLOAT, 2, tensor_content=struct.pack("<2f", 0.1, 3)), "DT_FLOAT [2] {0.1, 3.0}"),
        (tensor(DT_INT64, 1, tensor_content=struct.pack("<q", -5)), "DT_INT64 [1] {-5}"),
        (tensor(DT_BOOL, bool_val=[True]), "DT_BOOL [] bool_val {true}"),
        (tensor(DT_STRING, 2, string_val=[b"a", b"\0"]), r"DT_STRING [2] string_val {'a', '\x00'}"),
    ],
)  # fmt: skip
def test_the_text_of_a_value(value: AttrValue, text: str) -> None:
    assert attr_text(value) == text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (tensor(DT_FLOAT, 99, float_val=[0.5] * 99), tensor(DT_FLOAT, 99, float_val=[0.5] * 98 + [0.6])),
        (tensor(DT_FLOAT, 99, tensor_content=bytes(396)), tensor(DT_FLOAT, 99, tensor_content=bytes(395) + b"x")),
        (tensor(DT_BFLOAT16, 1, tensor_content=b"\0\0"), tensor(DT_BFLOAT16, 1, tensor_content=b"\0\1")),
        (tensor(DT_FLOAT, 1, tensor_content=b"\0\0\0"), tensor(DT_FLOAT, 1, tensor_content=b"\0\0\1")),
        (tensor(DT_FLOAT, 1, float_val=[1], version_number=1), tensor(DT_FLOAT, 1, float_val=[1])),
        (
            tensor(DT_RESOURCE, resource_handle_val=[{"name": "a"}]),
            tensor(DT_RESOURCE, resource_handle_val=[{"name": "b"}]),
        ),
        (AttrValue(s=b"x" * 999), AttrValue(s=b"x" * 998 + b"y")),
    ],
)  # fmt: skip
def test_large_contents_are_a_digest_in_one_short_line(one: AttrValue, other: AttrValue) -> None:
    assert attr_text(one) != attr_text(other)
    assert attr_text(one) == attr_text(AttrValue.FromString(one.SerializeToString()))
    assert "sha256:" in attr_text(one)
    assert max(len(attr_text(one)), len(attr_text(other))) < 80
    assert "\n" not in attr_text(one)


def test_partitions_have_a_text() -> None:
    build = Builder()
    build.pair(build.const(SERVERS[0], "v"), SERVERS[0], WORKER)
    assert canonical_text(build.partitions[WORKER]).splitlines()[0] == f"recv1 = _Recv() @{WORKER}"


def test_malformed_graphs_raise_nothing_but_errors_of_ours() -> None:
    rng = random.Random(0)
    data = canonical_bytes(golden_graph())
    for _ in range(300):
        broken = bytearray(data)
        broken[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            graph = GraphDef.FromString(bytes(broken))
        except DecodeError:
            continue
        try:
            assert canonical_text(graph) == canonical_text(canonical(graph))
            diff(graph, golden_graph())
        except TfwaveError:
            continue
