"""CPU seconds of the policies and the simulator on three graphs: deep, wide and the size of ResNet-152.

python tools/bench/transfers/orders.py [--json] [--runs 3]
"""

import argparse
import json
import random
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.cost.analytic import LinkModel, over_links
from tfwave.cost.model import CostSource
from tfwave.cost.table import Costs
from tfwave.graph.transfer import Transfer, find_transfers
from tfwave.graph.view import GraphView
from tfwave.order.deps import find_dependencies
from tfwave.order.order import Order, Policy
from tfwave.order.registry import find_policy
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.sim.makespan import makespan
from tools.bench.cpu import cpu_seconds

WORKER = "/job:worker/replica:0/task:0/device:CPU:0"
SERVER = "/job:ps/replica:0/task:0/device:CPU:0"
CASES: dict[str, Callable[[], GraphDef]] = {
    "deep, 100,000 ops": lambda: deep_graph(100_000, 500),
    "wide, 100,000 ops": lambda: wide_graph(100_000, 500),
    "ResNet-152, 4,700 ops": lambda: deep_graph(4_700, 363),
}


def deep_graph(nodes: int, recvs: int) -> GraphDef:
    """Layers one after another, each with its own transfers, then back: few dependency sets."""
    rng = random.Random(1)
    graph = _received(recvs)
    ops = nodes - recvs
    for i in range(ops):
        inputs = [f"op{i - 1}"] if i else []
        if i * 2 < ops:
            inputs.append(f"recv{min(i * 2 * recvs // ops, recvs - 1)}")
        else:
            inputs.append(f"op{rng.randrange(max(0, i - 50), i)}")
        _add_op(graph, i, inputs)
    return graph


def wide_graph(nodes: int, recvs: int) -> GraphDef:
    """About 24,000 random dependency sets of any size, four ops to a set."""
    rng = random.Random(1)
    graph = _received(recvs)
    heads: list[str] = []
    for i in range(nodes - recvs):
        if i % 4:
            _add_op(graph, i, [f"op{i - 1}"])
            continue
        inputs = [f"recv{rng.randrange(recvs)}" for _ in range(rng.randint(1, 3))]
        if heads and rng.random() < 0.96:
            inputs.append(rng.choice(heads[-3000:]))
        heads.append(f"op{i}")
        _add_op(graph, i, inputs)
    return graph


def main(arguments: Sequence[str]) -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args(arguments)
    results = [measure(name, build(), options.runs) for name, build in CASES.items()]
    if options.json:
        print(json.dumps(results, indent=2))
        return
    print("CPU seconds".ljust(24) + "".join(f"{column:>10}" for column in list(results[0])[1:]))
    for row in results:
        print("".join(f"{_text(v):>10}" if i else f"{v:<24}" for i, v in enumerate(row.values())))


def measure(name: str, graph: GraphDef, runs: int) -> dict[str, str | int | float]:
    """Median CPU seconds of each part for one graph."""
    data = graph.SerializeToString()
    loaded = _median_seconds(lambda: GraphView.of(GraphDef.FromString(data)).topological_order, runs)
    view = GraphView.of(graph)
    transfers = find_transfers(view).data
    sized = [_sized(t, i) for i, t in enumerate(transfers)]
    seconds_of = {i: (i * 7919 % 997 + 1) * 1e-6 for i in range(len(view))}
    links = {t.channel: LinkModel(1e-4, 1e8) for t in sized}
    costs = over_links(Costs.of(view, seconds_of, {}, CostSource("file", "file")), sized, links)
    sets = len(find_dependencies(view, sized).classes)
    seconds: dict[str, str | int | float] = {"case": name, "sets": sets, "load": loaded}
    for policy in ("tic", "tac", "fifo"):
        seconds[policy] = _median_seconds(_policy_run(find_policy(policy), view, sized, costs), runs)
    order = [ranked.transfer for ranked in find_policy("tac")(view, sized, costs)]
    seconds["makespan"] = _median_seconds(lambda: makespan(view, order, costs), runs)
    return seconds


def _policy_run(
    policy: Policy, view: GraphView, transfers: Sequence[Transfer], costs: Costs
) -> Callable[[], Order]:
    return lambda: policy(view, transfers, costs)


def _median_seconds(run: Callable[[], object], runs: int) -> float:
    return statistics.median(cpu_seconds(run) for _ in range(runs))


def _received(count: int) -> GraphDef:
    graph = GraphDef()
    for i in range(count):
        node = graph.node.add(name=f"recv{i}", op="_Recv", device=WORKER)
        node.attr["send_device"].s = SERVER.encode()
        node.attr["recv_device"].s = WORKER.encode()
        node.attr["tensor_name"].s = f"edge_{i}_v{i}/Read".encode()
    return graph


def _add_op(graph: GraphDef, number: int, inputs: Sequence[str]) -> None:
    graph.node.add(name=f"op{number}", op="Add", device=WORKER, input=inputs)


def _sized(transfer: Transfer, number: int) -> Transfer:
    return replace(transfer, bytes=(number * 104729 % 4001 + 1) * 1000)


def _text(value: str | int | float) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main(sys.argv[1:])
