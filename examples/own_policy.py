"""A policy of your own: the critical path first, found with networkx.

tfwave rewrite train.pb --passes 'recv_priority{policy=own_policy:critical_path_first},ack_window' -o ordered.pb
"""

from collections.abc import Sequence

import networkx as nx

from tfwave.cost.table import Costs
from tfwave.graph.item import GraphItem
from tfwave.graph.load import parse_graph
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView
from tfwave.order.order import Order, Ranked
from tfwave.passes.text import parse_pipeline
from tfwave.plan.annotation import annotated_orders

TRAIN = """
node { name: "v0" op: "Const" device: "/job:ps/task:0" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "v1" op: "Const" device: "/job:ps/task:0" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "x" op: "Neg" input: "v0" device: "/job:worker/task:0" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "y" op: "Neg" input: "v1" device: "/job:worker/task:0" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "z" op: "Neg" input: "y" device: "/job:worker/task:0" attr { key: "T" value { type: DT_FLOAT } } }
"""


def critical_path_first(view: GraphView, transfers: Sequence[Transfer], costs: Costs) -> Order:
    """The transfer first that the most work in a row waits for; its name decides between equals."""
    graph = nx.DiGraph(view.to_networkx())
    left: dict[int, float] = {}
    for node in reversed(list(nx.topological_sort(graph))):
        left[node] = 1 + max((left[reader] for reader in graph.successors(node)), default=0)
    first = sorted(transfers, key=lambda transfer: (-left[transfer.recv], transfer.sort_key))
    return tuple(Ranked(transfer, -left[transfer.recv]) for transfer in first)


def main() -> None:
    item = GraphItem(parse_graph(TRAIN.encode(), "train"))
    result = parse_pipeline(f"recv_priority{{policy={__name__}:critical_path_first}},ack_window")(item)
    for channel, entries in annotated_orders(GraphView.of(result.item.graph)).items():
        order = [entry.key.node for entry in entries]
        print(f"{channel}: {', '.join(order)}")
        assert order == ["v1", "v0"]


if __name__ == "__main__":
    main()
