"""CPU seconds and memory of the offline rewrite, on training steps of 10,000, 100,000 and 1,000,000 nodes.

python tools/bench/transfers/passes.py [--json] [--nodes 10000 100000 1000000]

Each rewrite runs in a process of its own, from reading the file to the written output. Seconds are CPU seconds of
that process (user and system), imports left out; a pass's seconds include the verification of its result. Memory
is resident memory over what the imports took: the proto's own is what stays after parsing, the peak is the highest
that the process ever had (VmHWM). The contract: 100,000 nodes in at most 6 s, and in at most 6 times the proto's
own memory.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.cost.model import CostSource
from tfwave.graph.container import open_container
from tfwave.graph.item import GraphItem
from tfwave.graph.names import Channel, TransferKey
from tfwave.graph.verify import verify
from tfwave.graph.view import GraphView
from tfwave.passes.pipeline import Stage
from tfwave.passes.text import parse_pipeline
from tfwave.plan.fingerprint import GraphPrint
from tfwave.plan.plan import ChannelOrder, Plan, PlannedTransfer, Predicted
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, GraphDef, NodeDef
from tools.bench.resident import resident

WORKER = "/job:worker/replica:0/task:0/device:CPU:0"
SERVER = "/job:ps/replica:0/task:0/device:CPU:0"
NODES_PER_LAYER = 19
GROUPS = 4
PIPELINES = ("recv_priority,ack_window,counter_barrier", "cut,recv_priority,control_edges")
CONTRACT_NODES = 100_000
MOST_SECONDS = 6.0
MOST_MEMORY = 6.0
"""Times the proto's own."""


def training_step(nodes: int) -> GraphDef:
    """A deep network as a parameter server trains it: 19 nodes a layer, three of them on the server."""
    graph = GraphDef()
    graph.versions.producer = 1882
    layers = nodes // NODES_PER_LAYER
    _add(graph, "data", "Placeholder", [], WORKER, dtype=DT_FLOAT)
    _add(graph, "rate", "Const", [], SERVER, dtype=DT_FLOAT)
    graph.node[-1].attr["value"].tensor.dtype = DT_FLOAT
    graph.node[-1].attr["value"].tensor.float_val.append(0.5)
    tensor = "data"
    for i in range(layers):
        tensor = _add_forward(graph, i, tensor)
    for i in reversed(range(layers)):
        tensor = _add_backward(graph, i, tensor)
    _add(graph, "train", "NoOp", [f"^layer{i}/apply" for i in range(layers)], WORKER)
    return graph


def _add_forward(graph: GraphDef, layer: int, tensor: str) -> str:
    """A variable, its read and eight ops."""
    name = f"layer{layer}"
    _add(graph, f"{name}/kernel", "VarHandleOp", [], SERVER, dtype=DT_FLOAT)
    node = graph.node[-1]
    node.attr["shared_name"].s = node.name.encode()
    node.attr["container"].s = b""
    for size in (1024, 1024):
        node.attr["shape"].shape.dim.add(size=size)
    _add(graph, f"{name}/kernel/Read", "ReadVariableOp", [f"{name}/kernel"], SERVER, dtype=DT_FLOAT)
    return _add_ops(graph, f"{name}/forward", [tensor, f"{name}/kernel/Read"], "")


def _add_backward(graph: GraphDef, layer: int, tensor: str) -> str:
    """Eight ops, and the update of the variable."""
    name = f"layer{layer}"
    tensor = _add_ops(graph, f"{name}/backward", [tensor, f"{name}/forward6"], f"^{name}/forward7")
    inputs = [f"{name}/kernel", "rate", tensor]
    _add(graph, f"{name}/apply", "ResourceApplyGradientDescent", inputs, SERVER, T=DT_FLOAT)
    graph.node[-1].attr["use_locking"].b = False
    return tensor


def _add_ops(graph: GraphDef, name: str, inputs: list[str], wait: str) -> str:
    """MatMul, then seven elementwise ops in a row; the last waits for another node."""
    _add(graph, f"{name}0", "MatMul", inputs, WORKER, T=DT_FLOAT)
    for flag in ("transpose_a", "transpose_b"):
        graph.node[-1].attr[flag].b = False
    for i in range(1, 8):
        _add(graph, f"{name}{i}", "AddV2", [f"{name}{i - 1}", f"{name}{max(0, i - 2)}"], WORKER, T=DT_FLOAT)
    if wait:
        graph.node[-1].input.append(wait)
    return f"{name}7"


def _add(graph: GraphDef, name: str, op: str, inputs: Sequence[str], device: str, **types: Any) -> None:
    node = NodeDef(name=name, op=op, input=inputs, device=device)
    for attr, value in types.items():
        node.attr[attr].type = value
    shape = node.attr["_output_shapes"].list.shape.add()
    for size in (256, 1024):
        shape.dim.add(size=size)
    graph.node.append(node)


def layer_plan(nodes: int) -> Plan:
    """Variables in the order of the layers, gradients in the order of the backward pass."""
    layers = range(nodes // NODES_PER_LAYER)
    pulls = [f"layer{i}/kernel/Read" for i in layers]
    pushes = [f"layer{i}/backward7" for i in reversed(layers)]
    return Plan(
        policy="fifo",
        graph=GraphPrint("", (), b""),
        costs=CostSource("uniform", "uniform"),
        predicted=Predicted(0, 0, 0, 0, 0),
        orders=(_order(SERVER, WORKER, pulls), _order(WORKER, SERVER, pushes)),
    )


def _order(source: str, destination: str, nodes: Sequence[str]) -> ChannelOrder:
    channel = Channel(source, destination)
    keys = [TransferKey(node, 0, channel) for node in nodes]
    turns = [PlannedTransfer(k, "", i, i, 0, f"edge_{i}_{k.node}") for i, k in enumerate(keys)]
    return ChannelOrder(channel, tuple(turns))


def with_groups(pipeline: str, nodes: int) -> str:
    """The text of a pipeline, its barriers between quarters of the forward pass."""
    names = [f"layer{i}/forward{k}" for i in range(nodes // NODES_PER_LAYER) for k in range(8)]
    size = -(-len(names) // GROUPS)
    groups = [names[i : i + size] for i in range(0, len(names), size)]
    return pipeline.replace("counter_barrier", f"counter_barrier{{groups={json.dumps(groups)}}}")


@dataclass
class Meter:
    """CPU seconds by stage; called after each pass."""

    stages: dict[str, float] = field(default_factory=dict[str, float])
    last: float = field(default_factory=time.process_time)

    def lap(self, name: str) -> None:
        """End a stage."""
        now = time.process_time()
        self.stages[name] = now - self.last
        self.last = now

    def __call__(self, stage: Stage) -> None:
        """End the stage of a pass."""
        self.lap(str(stage.graph_pass).partition("{")[0])


def rewrite(source: str, pipeline: str, nodes: int, out: str) -> dict[str, Any]:
    """Rewrite a file as `tfwave rewrite` does; what it took."""
    text, plan = with_groups(pipeline, nodes), layer_plan(nodes)
    imported, meter = resident("VmRSS"), Meter()
    container = open_container(source)
    ((_, item),) = container.items()
    meter.lap("read")
    proto = resident("VmRSS") - imported
    parsed = parse_pipeline(text, plan, (meter,))
    result, _ = parsed.apply(item, _verified(item, meter))
    container.write([result.item], out)
    meter.lap("write")
    return {
        "passes": pipeline,
        "nodes": len(item.graph.node),
        "edits": len(result.edits),
        "cpu_seconds": sum(meter.stages.values()),
        "stage_cpu_seconds": meter.stages,
        "proto_bytes": proto,
        "peak_bytes": resident("VmHWM") - imported,
    }


def _verified(item: GraphItem, meter: Meter) -> GraphView:
    view = verify(item)
    meter.lap("verify")
    return view


def main(arguments: Sequence[str]) -> None:
    """Print the table, or JSON; exit code 1 if the contract is not kept."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--nodes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--in-child", nargs=2, metavar=("FILE", "PASSES"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.in_child:
        source, pipeline = options.in_child
        print(json.dumps(rewrite(source, pipeline, options.nodes[0], f"{source}.out")))
        return
    results = [result for nodes in options.nodes for result in measure(nodes)]
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        _print_table(results)
    sys.exit(any(not keeps_contract(result) for result in results))


def measure(nodes: int) -> list[dict[str, Any]]:
    """Each pipeline on one graph, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "step.pb"
        file.write_bytes(training_step(nodes).SerializeToString(deterministic=True))
        return [_measured(nodes, str(file), pipeline) for pipeline in PIPELINES]


def _measured(nodes: int, file: str, pipeline: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--nodes", str(nodes), "--in-child", file, pipeline]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=3600).stdout)


def keeps_contract(result: dict[str, Any]) -> bool:
    """Whether a rewrite of 100,000 nodes stayed within its seconds and its memory."""
    if result["nodes"] != CONTRACT_NODES:
        return True
    within = result["peak_bytes"] <= MOST_MEMORY * result["proto_bytes"]
    return result["cpu_seconds"] <= MOST_SECONDS and within


def _print_table(results: Sequence[dict[str, Any]]) -> None:
    for row in results:
        seconds = row["cpu_seconds"]
        print(f"{row['nodes']:,} nodes, {row['passes']}: {row['edits']:,} edits")
        print(
            f"    {seconds:.2f} CPU s, {seconds / row['nodes'] * 1e6:.1f} us a node; proto "
            f"{row['proto_bytes'] / 1e6:.0f} MB, peak {row['peak_bytes'] / 1e6:.0f} MB, "
            f"{row['peak_bytes'] / row['proto_bytes']:.1f} times; "
            f"contract {'kept' if keeps_contract(row) else 'MISSED'}"
        )
        shares = [f"{name} {taken / seconds:.0%}" for name, taken in row["stage_cpu_seconds"].items()]
        print(f"    {', '.join(shares)}")


if __name__ == "__main__":
    main(sys.argv[1:])
