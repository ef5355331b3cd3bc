"""How near to the optimum TIC, TAC and `search` come: on random graphs, and on wide models.

python tools/bench/transfers/search.py [--json] [--graphs 500]

1. Random graphs whose optimum `exact` knows: mean and worst makespan over the optimum, and what `exact` takes.
2. Models (see models.py), one or four servers, inference or training, with links on which all pulls take half
   as long as the forward ops, as long, or twice as long: makespan over the highest floor. 1.0000 is proven optimal.
"""

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.cost.table import Costs
from tfwave.graph.transfer import Transfer, find_transfers
from tfwave.graph.view import GraphView
from tfwave.order.bounds import find_bounds
from tfwave.order.registry import find_policy
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.sim.makespan import makespan
from tools.bench.transfers.models import MODELLED, MODELS, WORKER, build, server

POLICIES = ("random", "tic", "tac", "search")
SIZES = {"3-6 transfers": (3, 6), "10-14 transfers": (10, 14), "18 transfers": (18, 18)}
Row = dict[str, str | float]


@dataclass(frozen=True)
class Case:
    """One device's transfers with their costs."""

    view: GraphView
    costs: Costs

    @property
    def transfers(self) -> tuple[Transfer, ...]:
        """Into the worker."""
        return find_transfers(self.view).into(WORKER).data

    def seconds(self, policy: str) -> float:
        """The makespan of a policy's order."""
        order = find_policy(policy)(self.view, self.transfers, self.costs)
        return makespan(self.view, [ranked.transfer for ranked in order], self.costs)


def main(arguments: Sequence[str]) -> None:
    """Print both tables, or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--graphs", type=int, default=500)
    options = parser.parse_args(arguments)
    known = [against_optimum(name, *sizes, options.graphs) for name, sizes in SIZES.items()]
    models = [against_floor(*case) for case in _cases()]
    if options.json:
        print(json.dumps({"known optimum": known, "models": models}, indent=2))
        return
    for table in (known, models):
        print("".join(f"{column:>15}" for column in table[0]))
        for row in table:
            print("".join(f"{_text(value):>15}" for value in row.values()))


def against_optimum(name: str, fewest: int, most: int, graphs: int) -> Row:
    """Mean and worst makespan over the optimum, and the most CPU seconds that finding it took."""
    ratios: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    slowest = 0.0
    for i in range(graphs):
        case = random_case(random.Random(f"{name} {i}"), fewest, most)
        start = time.process_time()
        best = case.seconds("exact")
        slowest = max(slowest, time.process_time() - start)
        for policy, found in ratios.items():
            found.append(case.seconds(policy) / best)
    row: Row = {"graphs": name}
    for policy, found in ratios.items():
        row |= {f"{policy} mean": statistics.fmean(found), "worst " + policy: max(found)}
    return row | {"exact CPU s": slowest}


def random_case(rng: random.Random, fewest: int, most: int) -> Case:
    """Ops that need one to three of the parameters, or of all that is there, over one channel."""
    graph = GraphDef()
    recvs = [f"recv{i}" for i in range(rng.randint(fewest, most))]
    for name in recvs:
        node = graph.node.add(name=name, op="_Recv", device=WORKER)
        for key, value in (("send_device", server(0)), ("recv_device", WORKER), ("tensor_name", name)):
            node.attr[key].s = value.encode()
    available, whole = list(recvs), rng.random() < 0.67
    for i in range(rng.randint(len(recvs), 2 * len(recvs))):
        read = rng.sample(available if whole else recvs, rng.randint(1, 3))
        graph.node.add(name=f"op{i}", op="AddN", device=WORKER, input=read)
        available.append(f"op{i}")
    ops = {name: rng.randint(1, 100) / 100 for name in available[len(recvs) :]}
    sent = {name: rng.randint(1, 200) / 100 for name in recvs}
    view = GraphView.of(graph)
    return Case(view, Costs.named(view, ops, sent, MODELLED))


def _cases() -> list[tuple[str, int, bool, float]]:
    return [
        (name, servers, training, balance)
        for name in MODELS
        for servers in (1, 4)
        for training in (False, True)
        for balance in (0.5, 1.0, 2.0)
    ]


def against_floor(name: str, servers: int, training: bool, balance: float) -> Row:
    """Makespans over the highest floor, and the CPU seconds of the search."""
    view, costs = build(name, servers=servers, training=training)
    forward = sum(s for op, s in costs.ops.items() if not view.names[op].startswith("grad_"))
    scale = balance * servers * forward / sum(costs.transfers.values())
    case = Case(view, replace(costs, transfers={recv: s * scale for recv, s in costs.transfers.items()}))
    bounds = find_bounds(view, case.transfers, case.costs)
    row: Row = {
        "model": name,
        "servers": str(servers),
        "step": "training" if training else "inference",
        "pull/forward": balance,
        "transfers": str(len(case.transfers)),
    }
    start = 0.0
    for policy in POLICIES:
        start = time.process_time()
        row[policy] = 1 + bounds.gap(case.seconds(policy))
    return row | {"search CPU s": time.process_time() - start, "floor": bounds.best.name}


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.4f}"


if __name__ == "__main__":
    main(sys.argv[1:])
