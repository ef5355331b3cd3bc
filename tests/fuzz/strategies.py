"""Graphs to break things with: good ones, good ones with faults planted in them, and wild ones.

All is drawn from a `random.Random`: hypothesis hands one over that it can shrink, the long run one with a seed.
"""

import random
from collections.abc import Callable

from google.protobuf import text_format

from tests.fuzz.damage import damaged
from tests.graphs import SERVERS, WORKER, random_job
from tests.uncut import random_uncut
from tests.unit.graph.test_functions import branch, call, graph_of, identity, loop
from tfwave.graph import marks
from tfwave.graph.names import Channel
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, AttrValue, GraphDef, NodeDef

Mutation = Callable[[random.Random, GraphDef], None]

NAMES = ("a", "b", "c", "a/b", "", "^a", "a:0", "a:b", " ", "é", "a\n", "tfwave/removed", "_cloop", "x" * 300)
INPUTS = (
    *("a", "b", "c", "^a", "^b", "^c", "a:0", "a:1", "b:1", "c:2", "", ":", "^", "^^a", "a:x", "a:-1", "a:"),
    *("a:99999999999", "^a:0", "a:0:1", "nosuch", "^nosuch", "a: 1", "a:٣", "a:²", "a:" + "9" * 5000),
)
DEVICES = (
    *(
        "",
        WORKER,
        SERVERS[0],
        "/cpu:0",
        "/gpu:0",
        "CPU:0",
        "/job:",
        "/job:a",
        "//",
        "/",
        "rubbish",
        "/task:-1",
    ),
    *("/device:GPU:0", "/job:a/task:99999999999999999999", "/job:worker/task:0/device:CPU:٣", "/job:a/job:b"),
    *("/job:worker/task:0/device:XLA_CPU:0", "\n", "/job:localhost/replica:0/task:0/device:CPU:1"),
    "/task:" + "9" * 5000,
)
OPS = (
    *(
        "NoOp",
        "Const",
        "Identity",
        "AddN",
        "IdentityN",
        "_Recv",
        "_Send",
        "_HostRecv",
        "_HostSend",
        "NoSuchOp",
        "",
    ),
    *(
        "Merge",
        "RefMerge",
        "Switch",
        "Enter",
        "Exit",
        "NextIteration",
        "LoopCond",
        "While",
        "If",
        "Case",
        "_Arg",
    ),
    *("VarHandleOp", "ReadVariableOp", "VariableV2", "Placeholder", "_Retval", "RangeDataset", "MapDataset"),
    *(
        "PartitionedCall",
        "StatefulPartitionedCall",
        "SymbolicGradient",
        "add_one",
        "forever",
        "Shape",
        "Split",
    ),
    *("Unpack", "TfwaveStep1"),
)
NUMBERS = (-1, 0, 1, 2, 3, 1000, 2**31, 2**62, -(2**63), 2**63 - 1)
RUBBISH = (
    *(
        b"",
        b"x",
        b"\xff\xfe",
        b"0;a:0;x;y",
        b"1;",
        b"-1;a:0;x;y",
        b"0;a;x;y",
        b"0;a:0;x",
        b"\xc2\xb2;a:0;x;y",
    ),
    b"9" * 5000 + b";a:0;x;y",
)
KEYS = (
    *(
        "T",
        "N",
        "dtype",
        "value",
        "shape",
        "num",
        "num_split",
        "index",
        "Tin",
        "Tout",
        "Tcond",
        "_class",
        "f",
    ),
    *("body", "cond", "then_branch", "else_branch", "branches", "_lower_using_switch_merge", "frame_name"),
    *("parallel_iterations", "send_device", "recv_device", "tensor_name", "client_terminated", "tensor_type"),
    *("_tfwave", "_tfwave_rank", "_tfwave_inputs", "_tfwave_device", "_tfwave_removed", "_tfwave_other"),
    *("_XlaMustCompile", "_xla_compile_id"),
)
GONE = "gone"
"""A node that damaged marks bring back."""
WHILE_FRAME = """
node { name: "zero" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "enter" op: "Enter" input: "zero" attr { key: "T" value { type: DT_FLOAT } }
  attr { key: "frame_name" value { s: "frame" } } }
node { name: "merge" op: "Merge" input: "enter" input: "next" attr { key: "T" value { type: DT_FLOAT } }
  attr { key: "N" value { i: 2 } } }
node { name: "limit" op: "Const" input: "^merge" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "less" op: "Less" input: "merge" input: "limit" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "cond" op: "LoopCond" input: "less" }
node { name: "switch" op: "Switch" input: "merge" input: "cond" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "body" op: "Identity" input: "switch:1" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "next" op: "NextIteration" input: "body" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "exit" op: "Exit" input: "switch" attr { key: "T" value { type: DT_FLOAT } } }
"""


def any_graph(rng: random.Random) -> GraphDef:
    """A good graph in a quarter of all cases, else one with up to four faults, or a wild one."""
    if rng.random() < 0.2:
        return wild_graph(rng)
    graph = good_graph(rng)
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        rng.choice(MUTATIONS)(rng, graph)
    return graph


def good_graph(rng: random.Random) -> GraphDef:
    """Cut, uncut, with functions, or with a loop that may run on two devices."""
    return rng.choice((_uncut, _cut, _functions, _loop))(rng)


def _uncut(rng: random.Random) -> GraphDef:
    return random_uncut(rng).graph


def _cut(rng: random.Random) -> GraphDef:
    graph = GraphDef()
    for partition in random_job(rng).partitions:
        graph.node.extend(partition.node)
    return graph


def _functions(rng: random.Random) -> GraphDef:
    makers: list[Callable[[], NodeDef]] = [
        lambda: call(rng.choice(("add_one", "same", "forever"))),
        lambda: loop("small", rng.choice(("add_one", "same", "forever"))),
        branch,
    ]
    nodes = [make() for make in rng.sample(makers, rng.randint(1, 3))]
    for node in nodes:
        node.device = rng.choice(("", WORKER, SERVERS[0]))
    readers = [identity(node.name, f"reader{i}") for i, node in enumerate(nodes)]
    return graph_of(*nodes, *readers).graph


def _loop(rng: random.Random) -> GraphDef:
    graph = text_format.Parse(WHILE_FRAME, GraphDef())
    devices = rng.choice((("",), (WORKER,), (WORKER, SERVERS[0])))
    for node in graph.node:
        node.device = rng.choice(devices)
    return graph


def wild_graph(rng: random.Random) -> GraphDef:
    """A few nodes with anything in them."""
    graph = GraphDef()
    for _ in range(rng.randint(0, 6)):
        node = graph.node.add(name=rng.choice(NAMES), op=rng.choice(OPS), device=rng.choice(DEVICES))
        node.input.extend(rng.choices(INPUTS, k=rng.choice((0, 0, 1, 1, 2, 3))))
        for key in rng.sample(KEYS, rng.choice((0, 1, 2, 5))):
            node.attr[key].CopyFrom(any_value(rng, graph))
    return graph


def any_value(rng: random.Random, graph: GraphDef) -> AttrValue:
    """An attribute value of any kind, or of none."""
    return rng.choice((AttrValue(), *_simple_values(rng), *_large_values(rng, graph)))


def _simple_values(rng: random.Random) -> list[AttrValue]:
    texts = (*RUBBISH, b"edge_1_a", WORKER.encode(), SERVERS[0].encode(), b"loc:@a")
    return [
        AttrValue(s=rng.choice(texts)),
        AttrValue(i=rng.choice(NUMBERS)),
        AttrValue(f=rng.choice((0.0, float("nan"), float("inf")))),
        AttrValue(b=rng.random() < 0.5),
        AttrValue(type=rng.choice((0, 1, 3, 20, 21, 101, 120, 9999, -1))),  # type: ignore[arg-type]
        AttrValue(placeholder=rng.choice(NAMES)),
    ]


def _large_values(rng: random.Random, graph: GraphDef) -> list[AttrValue]:
    shape, tensor, func, several = AttrValue(), AttrValue(), AttrValue(), AttrValue()
    shape.shape.dim.add(size=rng.choice(NUMBERS))
    tensor.tensor.dtype = DT_FLOAT
    tensor.tensor.tensor_shape.dim.add(size=rng.choice(NUMBERS))
    tensor.tensor.tensor_content = rng.choice(RUBBISH)
    func.func.name = rng.choice([*(f.signature.name for f in graph.library.function), "nosuch", ""])
    several.list.s.extend(rng.choices(RUBBISH, k=rng.randint(0, 2)))
    several.list.type.extend(rng.choices((0, 1, 20, 101, 9999), k=rng.randint(0, 2)))  # type: ignore[arg-type]
    several.list.func.add().name = rng.choice(("add_one", "nosuch", ""))
    return [shape, tensor, func, several]


def _node(rng: random.Random, graph: GraphDef) -> NodeDef:
    """Any node, of the graph or, now and then, of a function's body."""
    bodies = [function.node_def for function in graph.library.function if function.node_def]
    nodes = rng.choice(bodies) if bodies and rng.random() < 0.3 else graph.node
    return rng.choice(nodes) if nodes else graph.node.add(name="a", op="NoOp")


def _rename(rng: random.Random, graph: GraphDef) -> None:
    node = _node(rng, graph)
    node.name = rng.choice((*NAMES, _node(rng, graph).name))


def _duplicate(rng: random.Random, graph: GraphDef) -> None:
    graph.node.add().CopyFrom(_node(rng, graph))


def _remove(rng: random.Random, graph: GraphDef) -> None:
    if graph.node:
        del graph.node[rng.randrange(len(graph.node))]


def _wrong_input(rng: random.Random, graph: GraphDef) -> None:
    """Any input, of any node's name, at any place: dangling, cyclic, of no such port, data after control."""
    node, source = _node(rng, graph), _node(rng, graph).name
    text = rng.choice((*INPUTS, source, source, f"^{source}", f"{source}:1", f"{source}:7", f"^{source}:1"))
    place = rng.randint(0, len(node.input))
    before = list(node.input)
    del node.input[:]
    node.input.extend([*before[:place], text, *before[place + (rng.random() < 0.5) :]])


def _drop_input(rng: random.Random, graph: GraphDef) -> None:
    node = _node(rng, graph)
    if node.input:
        del node.input[rng.randrange(len(node.input))]


def _wrong_op(rng: random.Random, graph: GraphDef) -> None:
    _node(rng, graph).op = rng.choice(OPS)


def _wrong_device(rng: random.Random, graph: GraphDef) -> None:
    _node(rng, graph).device = rng.choice(DEVICES)


def _wrong_attr(rng: random.Random, graph: GraphDef) -> None:
    node = _node(rng, graph)
    name = rng.choice([*node.attr, *node.attr, *KEYS])
    node.attr[name].CopyFrom(any_value(rng, graph))


def _drop_attr(rng: random.Random, graph: GraphDef) -> None:
    node = _node(rng, graph)
    if node.attr:
        del node.attr[rng.choice(sorted(node.attr))]


def _colocate(rng: random.Random, graph: GraphDef) -> None:
    group = rng.choice((_node(rng, graph).name, "nosuch", ""))
    _node(rng, graph).attr["_class"].list.s.append(f"loc:@{group}".encode())


def _wrong_mark(rng: random.Random, graph: GraphDef) -> None:
    node = _node(rng, graph)
    name = rng.choice((marks.INPUTS, "_tfwave_rank", marks.DEVICE, marks.ADDED_BY, "_tfwave_note"))
    ranks = [f"{rng.randint(0, 2)};{node.name}:0;{SERVERS[0]};{WORKER}".encode()]
    texts = [*RUBBISH, *ranks, *ranks, *(text.encode() for text in INPUTS)]
    if rng.random() < 0.7 and name != marks.DEVICE:
        node.attr[name].list.s.extend(rng.choices(texts, k=rng.randint(0, 2)))
    else:
        node.attr[name].s = rng.choice((*RUBBISH, *(device.encode() for device in DEVICES)))


def _wrong_removed(rng: random.Random, graph: GraphDef) -> None:
    """Rubbish where the nodes that were taken out are kept: no nodes, or nodes that are there already."""
    holder = graph.node.add(name=marks.REMOVED, op="NoOp")
    if rng.random() < 0.8:
        holder.attr[marks.ADDED_BY].s = b"someone"
    there = _node(rng, graph).SerializeToString()
    gone = NodeDef(name=GONE, op="NoOp", input=rng.choices(INPUTS, k=rng.randint(0, 1)))
    texts = [*RUBBISH, there, gone.SerializeToString(), NodeDef(op="NoOp").SerializeToString(), there[:-1]]
    holder.attr[marks.REMOVED_NODES].list.s.extend(rng.choices(texts, k=rng.randint(0, 3)))


def _wrong_function(rng: random.Random, graph: GraphDef) -> None:
    """Missing, recursive, of a taken name, with wrong returns, or with wrong arguments."""
    library = graph.library.function
    if not library:
        library.add().signature.name = rng.choice(("f", "", "AddN", "NoOp"))
        return
    function = rng.choice(library)
    match rng.randrange(6):
        case 0:
            del library[rng.randrange(len(library))]
        case 1:
            function.node_def.add(name="self", op=function.signature.name)
        case 2:
            function.signature.name = rng.choice([f.signature.name for f in library] + ["", "Const"])
        case 3:
            function.ret["y"] = rng.choice((*INPUTS, "x", "y:z:0", "x:y:0", "sum:z:9", "sum:z:x"))
        case 4:
            function.signature.output_arg.add(name="more", type=DT_FLOAT)
        case _:
            function.signature.input_arg.add(name="more", type_attr="nosuch")


def _shuffle(rng: random.Random, graph: GraphDef) -> None:
    nodes = rng.sample(list(graph.node), len(graph.node))
    copies = GraphDef(node=nodes)
    del graph.node[:]
    graph.node.extend(copies.node)


MUTATIONS: tuple[Mutation, ...] = (
    *(_rename, _duplicate, _remove, _wrong_input, _wrong_input, _drop_input, _wrong_op, _wrong_device),
    *(
        _wrong_attr,
        _wrong_attr,
        _drop_attr,
        _colocate,
        _wrong_mark,
        _wrong_removed,
        _wrong_function,
        _shuffle,
    ),
)


def any_pipeline(rng: random.Random, graph: GraphDef) -> str:
    """The text of a pipeline, often a wrong one."""
    names = [node.name for node in graph.node] or ["a"]
    groups = [rng.sample(names, min(len(names), rng.randint(1, 2))) for _ in range(rng.randint(1, 3))]
    pieces = [
        *("strip", "cut", "recv_priority", "control_edges", "ack_window", "ack_window{window=1}"),
        *("ack_window{window=0}", "ack_window{window=x}", "counter_barrier", "recv_priority,control_edges"),
        *(
            "recv_priority,ack_window",
            "cut,recv_priority,control_edges",
            "cut{devices=[]}",
            "cut{default=rubbish}",
        ),
        *(
            "",
            ",",
            "strip{",
            "{}",
            "cut{devices=[1]}",
            "nosuch",
            "os:path",
            ":",
            "a:b:c",
            "strip}",
            "\x00",
            "é",
        ),
        *("cut{default=" + "[" * 2000, "ack_window{window=1e999}", "ack_window{window=" + "9" * 5000 + "}"),
        "ack_window{window=99999999999999999999}",
        f"counter_barrier{{groups={_json(groups)}}}",
        f"strip,counter_barrier{{groups={_json(groups)}}},cut",
    ]
    text = ",".join(rng.choices(pieces, k=rng.choice((1, 1, 2))))
    return text if rng.random() < 0.8 else damaged(rng, text.encode()).decode(errors="replace")


def any_channel(rng: random.Random) -> Channel:
    """Two devices."""
    return Channel(rng.choice(SERVERS), WORKER)


def _json(groups: list[list[str]]) -> str:
    quoted = [",".join('"' + name.replace("\n", "") + '"' for name in group) for group in groups]
    return "[" + ",".join(f"[{group}]" for group in quoted) + "]"
