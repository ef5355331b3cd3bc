"""Lowering without TensorFlow: small functions written by hand, and what is refused."""

import pytest
from google.protobuf import text_format

from tfwave.errors import GraphError
from tfwave.graph.functions.body import instantiate
from tfwave.graph.functions.devices import filled_in
from tfwave.graph.functions.lower import lower
from tfwave.graph.item import GraphItem
from tfwave.graph.ops import OpTable
from tfwave.graph.verify import verify
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, DT_INT32, AttrValue, FunctionDef, GraphDef, NodeDef

LIBRARY = """
library {
  function {
    signature { name: "add_one" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT }
      control_output: "said" }
    node_def { name: "one" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } }
    node_def { name: "sum" op: "AddV2" input: "x" input: "one:output:0" device: "/cpu:1"
      attr { key: "T" value { type: DT_FLOAT } } }
    node_def { name: "say" op: "NoOp" input: "^sum" }
    ret { key: "y" value: "sum:z:0" }
    control_ret { key: "said" value: "say" }
  }
  function {
    signature { name: "same" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } }
    ret { key: "y" value: "x" }
  }
  function {
    signature { name: "small" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_BOOL } }
    node_def { name: "less" op: "Less" input: "x" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
    ret { key: "y" value: "less:z:0" }
  }
  function {
    signature { name: "forever" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } }
    node_def { name: "again" op: "forever" input: "x" }
    ret { key: "y" value: "again:y:0" }
  }
}
"""
FLOAT = AttrValue(type=DT_FLOAT)
FLOATS = AttrValue(list=AttrValue.ListValue(type=[DT_FLOAT]))
MARK = {"_lower_using_switch_merge": AttrValue(b=True)}


def graph_of(*nodes: NodeDef) -> GraphItem:
    """A placeholder `x` of floats, one `p` of booleans, the library, and the nodes."""
    graph = text_format.Parse(LIBRARY, GraphDef())
    for name, kind in (("x", DT_FLOAT), ("p", 10)):
        graph.node.add(name=name, op="Placeholder", attr={"dtype": AttrValue(type=kind)})
    graph.node.extend(nodes)
    return GraphItem(graph)


def func(name: str) -> AttrValue:
    value = AttrValue()
    value.func.name = name
    return value


def call(function: str = "add_one", *inputs: str, device: str = "") -> NodeDef:
    attrs = {"f": func(function), "Tin": FLOATS, "Tout": FLOATS}
    return NodeDef(name="call", op="PartitionedCall", input=inputs or ["x"], attr=attrs, device=device)


def loop(cond: str = "small", body: str = "add_one", **attrs: AttrValue) -> NodeDef:
    attrs = {"cond": func(cond), "body": func(body), "T": FLOATS} | MARK | attrs
    return NodeDef(name="loop", op="While", input=["x"], attr=attrs)


def branch(then_branch: str = "add_one", else_branch: str = "same", **attrs: AttrValue) -> NodeDef:
    own = {"then_branch": func(then_branch), "else_branch": func(else_branch), "Tin": FLOATS, "Tout": FLOATS}
    types = {"Tcond": AttrValue(type=10)}
    return NodeDef(name="if", op="If", input=["p", "x"], attr=own | types | MARK | attrs)


def identity(source: str, name: str = "reader") -> NodeDef:
    return NodeDef(name=name, op="Identity", input=[source], attr={"T": FLOAT})


def inputs_of(item: GraphItem) -> dict[str, list[str]]:
    return {node.name: [*node.input] for node in item.graph.node}


def test_a_call_becomes_the_body_between_identities() -> None:
    lowered = lower(graph_of(call(device="/job:a"), identity("call:0")), inline_calls=True)
    assert inputs_of(lowered) == {
        "x": [],
        "p": [],
        "reader": ["Func/call/output/_1"],
        "Func/call/input/_0": ["x"],
        "call/one": [],
        "call/sum": ["Func/call/input/_0", "call/one"],
        "call/say": ["^call/sum"],
        "Func/call/output/_1": ["call/sum"],
        "Func/call/output_control_node/_2": ["^call/say"],
        "call": ["Func/call/output/_1", "^Func/call/output_control_node/_2"],
    }
    devices = {node.name: node.device for node in lowered.graph.node}
    assert devices["call/one"] == "/job:a"
    assert devices["call/sum"] == "/job:a/device:CPU:1"


def test_calls_of_a_session_graph_stay() -> None:
    item = graph_of(call())
    assert lower(item) is item


def test_calls_in_a_function_body_are_inlined() -> None:
    item = graph_of(call(), NodeDef(name="r", op="_Retval", input=["call"], attr={"T": FLOAT}))
    lowered = inputs_of(lower(item))
    assert lowered["call"] == ["^Func/call/output_control_node/_2"], "no longer fetchable"
    assert lowered["r"] == ["Func/call/output/_1"]


def test_a_loop_becomes_a_frame() -> None:
    lowered = lower(graph_of(loop(), identity("loop", "reader")))
    nodes = inputs_of(lowered)
    assert nodes["loop/merge/_3"] == ["loop/enter/_2", "loop/next_iteration/_9"]
    assert nodes["loop/x_switch/_5"] == ["loop/merge/_3", "loop/LoopCond/_4"]
    assert nodes["reader"] == ["loop/exit/_7"]
    assert nodes["loop"] == ["loop/exit/_7"]
    verify(lowered)


def test_branches_become_switches_and_merges() -> None:
    lowered = lower(graph_of(branch(), identity("if")))
    nodes = inputs_of(lowered)
    assert nodes["if/x/_5"] == ["x", "p"]
    assert nodes["reader"] == ["if/output/_6"]
    assert nodes["if/output/_6"] == ["Func/if/then/_0/output/_10", "Func/if/else/_1/output/_14"]
    verify(lowered)


@pytest.mark.parametrize("node", [loop(), branch()], ids=["loop", "branch"])
def test_the_input_is_untouched_and_a_second_time_changes_nothing(node: NodeDef) -> None:
    item = graph_of(node)
    before = item.graph.SerializeToString(deterministic=True)
    lowered = lower(item)
    assert item.graph.SerializeToString(deterministic=True) == before
    assert lower(lowered) is lowered
    again = lower(item)
    assert again.graph.SerializeToString(deterministic=True) == lowered.graph.SerializeToString(
        deterministic=True
    )


@pytest.mark.parametrize(
    "mark",
    [
        {"_xla_compile_id": AttrValue(s=b"1")},
        {"_tpu_replicate": AttrValue(s=b"1")},
        {"_XlaMustCompile": AttrValue(b=True)},
        {"_lower_using_switch_merge": AttrValue(b=False)},
    ],
    ids=lambda mark: next(iter(mark)),
)
def test_what_is_not_meant_for_the_executor_stays(mark: dict[str, AttrValue]) -> None:
    item = graph_of(loop(**mark), branch(**mark))
    assert lower(item) is item


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (call("none"), "node 'call': the function 'none' is not in the graph's library"),
        (loop(body="none"), "node 'loop': the function 'none' is not in the graph's library"),
        (branch("none"), "node 'if': the function 'none' is not in the graph's library"),
        (call("forever"), r"node 'call/again': the function 'forever' calls itself"),
        (call("add_one", "x", "x"), "node 'call': PartitionedCall takes 1 inputs, not 2"),
        (call("small"), r"node 'call': its outputs \(types \[1\]\) do not fit the function 'small'"),
        (
            loop(parallel_iterations=AttrValue(i=0)),
            "node 'loop': parallel_iterations must be at least 1, not 0",
        ),
        (loop(T=AttrValue(list=AttrValue.ListValue(type=[20]))), "node 'loop': the loop has no variable"),
        (loop(body="small"), r"node 'loop': the function 'small' returns types \[10\] instead of \[1\]"),
        (loop(cond="same"), r"node 'loop': the function 'same' returns types \[1\] instead of \[10\]"),
        (branch(else_branch="small"), "node 'if': its branches differ in the types of their outputs"),
        (
            NodeDef(name="case", op="Case", input=["p"], attr=MARK),
            "node 'case': Case needs the attribute 'Tin'",
        ),
        (
            NodeDef(
                name="case", op="Case", input=["p"], attr=MARK | {"Tin": AttrValue(), "Tout": AttrValue()}
            ),
            "node 'case': Case has no branches",
        ),
        (
            NodeDef(
                name="if",
                op="If",
                input=["p"],
                attr=MARK | {"Tcond": AttrValue(type=10), "Tin": AttrValue(), "Tout": AttrValue()},
            ),
            "node 'if': If needs the attribute 'then_branch'",
        ),
    ],
)
def test_refuses_what_does_not_fit(node: NodeDef, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        lower(graph_of(node), inline_calls=True)


def test_refuses_readers_of_outputs_that_are_not_there() -> None:
    with pytest.raises(GraphError, match="node 'reader' reads output 1 of 'call', which has 1"):
        lower(graph_of(call(), identity("call:1")), inline_calls=True)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            NodeDef(name="sum", op="AccumulateNV2"),
            "node 'sum': TensorFlow rewrites AccumulateNV2 before placement",
        ),
        (NodeDef(name="rows", op="ParallelConcat"), "node 'rows': TensorFlow rewrites ParallelConcat"),
        (
            NodeDef(
                name="call",
                op="PartitionedCall",
                attr={"f": func("handle"), "Tin": AttrValue(), "Tout": AttrValue(list={"type": [20]})},
            ),
            "node 'call': TensorFlow isolates calls that return resources",
        ),
    ],
)
def test_refuses_what_other_passes_of_tensorflow_rewrite(node: NodeDef, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        lower(graph_of(node))


def test_refuses_tpus() -> None:
    tpu = identity("x", "on_tpu")
    tpu.device = "/device:TPU:0"
    with pytest.raises(GraphError, match=r"node 'on_tpu'.* TPU"):
        lower(graph_of(loop(), tpu))


def function_of(text: str) -> FunctionDef:
    return text_format.Parse(text, FunctionDef())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('node_def { name: "a" op: "Strange" }', "node 'a': the op 'Strange' is unknown"),
        ('node_def { name: "a" op: "NoOp" input: "b:z:0" }', "node 'a': the input 'b:z:0' names no tensor"),
        ('node_def { name: "a" op: "NoOp" input: "^b" }', "node 'a': the input 'b' names no tensor"),
        (
            'node_def { name: "a" op: "Abs" attr { key: "T" value { type: DT_FLOAT } } }',
            "Abs takes 1 inputs, not 0",
        ),
        ('node_def { name: "a" op: "Abs" attr { key: "T" value { placeholder: "T" } } }', "attribute 'T'"),
        ('node_def { name: "a" op: "NoOp" } node_def { name: "a" op: "NoOp" }', "'a' is used more than once"),
        ('signature { output_arg { name: "y" type: DT_FLOAT } }', "the return 'y' is missing"),
        ('signature { attr { name: "T" type: "type" } }', "no value to the attribute 'T'"),
        ('control_ret { key: "a" value: "b" }', "the control return 'b' names no node"),
        (
            'signature { input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } } '
            'ret { key: "y" value: "x" } control_ret { key: "a" value: "y_RetVal" }',
            "the control return 'y_RetVal' names no node",
        ),
    ],
)
def test_refuses_malformed_functions(text: str, message: str) -> None:
    function = function_of(text)
    function.signature.name = "broken"
    with pytest.raises(GraphError, match=f"function 'broken': .*{message}"):
        instantiate(function, {}, OpTable())


def test_binds_the_attributes_of_the_call() -> None:
    function = function_of(
        'signature { name: "f" input_arg { name: "xs" type_attr: "T" number_attr: "N" } '
        'output_arg { name: "y" type_attr: "T" } attr { name: "T" type: "type" } '
        'attr { name: "N" type: "int" default_value { i: 2 } } } '
        'node_def { name: "sum" op: "AddN" input: "xs" attr { key: "T" value { placeholder: "T" } } '
        'attr { key: "N" value { placeholder: "N" } } } ret { key: "y" value: "sum:sum:0" }'
    )
    body = instantiate(function, {"T": AttrValue(type=DT_INT32)}, OpTable())
    assert [node.name for node in body.arguments] == ["xs_0", "xs_1"]
    assert body.argument_types == [DT_INT32, DT_INT32]
    assert [*body.nodes[2].input] == ["xs_0", "xs_1"]
    assert [(node.name, *node.input) for node in body.returns] == [("y_RetVal", "sum")]


@pytest.mark.parametrize(
    ("device", "caller", "expected"),
    [
        ("", "/cpu:0", "/cpu:0"),
        ("/cpu:1", "", "/device:CPU:1"),
        ("/gpu:*", "/job:a/task:3/cpu:1", "/job:a/task:3/device:GPU:1"),
        ("/job:b/device:CPU:0", "/job:a/replica:0/task:3", "/job:b/replica:0/task:3/device:CPU:0"),
        ("/device:XLA_CPU", "/job:*", "/device:XLA_CPU:*"),
        ("/", "/task:1", "/task:1"),
        ("nonsense", "/task:1", "nonsense"),
        ("/cpu:1", "nonsense", "/cpu:1"),
        ("/job:a:b/cpu:1", "/task:1", "/job:a:b/cpu:1"),
    ],
)
def test_a_body_node_takes_over_the_parts_of_the_device_that_it_leaves_open(
    device: str, caller: str, expected: str
) -> None:
    assert filled_in(device, caller) == expected
