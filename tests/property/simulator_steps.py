"""Random steps of several workers and servers, and their reading into the exact model."""

import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import inf

from tests.graphs import SERVERS, Builder, Job, random_job, with_costs
from tests.property.oracle import Oracle, _natural
from tests.property.simulator_oracle import Model
from tfwave.cost.analytic import LinkModel
from tfwave.cost.cluster import Cluster
from tfwave.graph.names import Channel, TransferKey
from tfwave.graph.transfer import Transfers, find_transfers
from tfwave.graph.view import GraphView
from tfwave.plan.discipline import Discipline
from tfwave.sim import engine
from tfwave.sim.engine import UNTIMED
from tfwave.sim.simulate import ChannelRule

FREE_CLUSTERS = (Cluster(), Cluster(LinkModel(0.25, inf), threads=2))
SHARED_CLUSTERS = (
    Cluster(LinkModel(0.0, 1e9)),
    Cluster(
        LinkModel(0.125, 1e9),
        {"/job:ps/replica:0/task:0": LinkModel(0.25, 2e9)},
        threads=2,
        device_threads={SERVERS[0]: 1},
    ),
)


def random_step(rng: random.Random, *, shared: bool) -> Job:
    """One worker of `random_job`'s, or several; many-digit costs where cards are shared: nothing ends together."""
    step = several_workers(rng) if rng.random() < 0.6 else random_job(rng)
    if not shared:
        return step
    return replace(
        step,
        ops={name: rng.choice((0.0, rng.randint(1, 10**8) / 1e8)) for name in step.ops},
        transfers={name: rng.randint(1, 10**8) / 1e8 for name in step.transfers},
    )


def several_workers(rng: random.Random) -> Job:
    """Workers that pull parameters from servers, compute, and push gradients, which the servers sum and apply."""
    build = Builder()
    workers = [f"/job:worker/replica:0/task:{i}/device:CPU:0" for i in range(rng.randint(1, 3))]
    home = {f"v{i}": rng.choice(SERVERS[:2]) for i in range(rng.randint(1, 5))}
    for name, server in home.items():
        build.const(server, name)
    pushed: dict[str, list[str]] = {name: [] for name in home}
    for number, worker in enumerate(workers):
        known: list[str] = []
        for name, server in home.items():
            inputs = [build.pair(name, server, worker), *rng.sample(known, min(len(known), 1))]
            known.append(build.op(worker, f"w{number}/op_{name}", inputs))
        for name, server in home.items():
            gradient = build.op(worker, f"w{number}/grad_{name}", rng.sample(known, min(len(known), 2)))
            pushed[name].append(build.pair(gradient, worker, server))
    for name, server in home.items():
        build.op(server, f"apply_{name}", pushed[name])
    return with_costs(Job(tuple(build.partitions.values()), {}, {}).renumbered(rng), rng)


def view_of(step: Job) -> tuple[GraphView, Transfers]:
    view = GraphView.of(*step.partitions)
    return view, find_transfers(view)


def random_rules(rng: random.Random, step: Job, *, feasible: bool = False) -> list[ChannelRule]:
    """A rule for most channels; by level, which no counter can wait for in vain, or in any order."""
    level = Oracle(step, frozenset()).level
    orders: dict[Channel, list[tuple[int, TransferKey]]] = {}
    for transfer in view_of(step)[1].data:
        orders.setdefault(transfer.channel, []).append((level[transfer.node], transfer.key))
    rules: list[ChannelRule] = []
    any_order = not feasible and rng.random() < 0.4
    for channel, found in sorted(orders.items()):
        discipline = rng.choice((None, *Discipline))
        order = rng.sample(found, len(found)) if any_order else sorted(found)
        if rng.random() < 0.8:
            rules.append(ChannelRule(channel, discipline, tuple(key for _, key in order)))
    return rules


def model_of(step: Job, cluster: Cluster, rules: Sequence[ChannelRule]) -> Model:
    """The step in exact seconds; task numbers go by the names of the nodes, sorted."""
    oracle = Oracle(step, frozenset())
    names = sorted(oracle.graph)
    number = {name: i for i, name in enumerate(names)}
    attributes = oracle.graph.nodes
    channel_of = {t.node: t.channel for t in view_of(step)[1].data}
    devices = sorted({attributes[name]["device"] for name in names})
    channels = sorted(set(channel_of.values()))
    latency = {
        c: Fraction(max(_card(cluster, d).latency_seconds for d in (c.source, c.destination)))
        for c in channels
    }
    units, durations = [UNTIMED] * len(names), [Fraction(0)] * len(names)
    for name, task in number.items():
        if name in channel_of:
            channel = channel_of[name]
            units[task] = len(devices) + channels.index(channel)
            durations[task] = max(Fraction(0), Fraction(str(step.transfers[name])) - latency[channel])
        elif attributes[name]["op"] == "_Recv":
            durations[task] = Fraction(_control_latency(step, cluster, name))
        elif step.ops.get(name):
            units[task] = devices.index(attributes[name]["device"])
            durations[task] = Fraction(str(step.ops[name]))
    by_level = sorted(names, key=lambda n: (oracle.level[n], _natural(n), n))
    rules_of = {rule.channel: rule for rule in rules}
    ends = [(_task(c.source), _task(c.destination)) for c in channels]
    tasks = sorted({task for pair in ends for task in pair})
    bandwidths = [cluster.nics.get(task, cluster.nic).bytes_per_second for task in tasks]
    job = engine.Job(
        units,
        durations,
        [[number[s] for s in oracle.graph.successors(name)] for name in names],
        [oracle.graph.in_degree(name) for name in names],
        [engine.Pool(cluster.device_threads.get(d, cluster.threads)) for d in devices],
        [
            engine.Lane(
                rules_of[c].discipline if c in rules_of else None,
                latency[c],
                (tasks.index(a), len(tasks) + tasks.index(b)),
            )
            for c, (a, b) in zip(channels, ends, strict=True)
        ],
        pooled=[number[n] for n in by_level],
        carried=[],
        bandwidths=bandwidths * 2,
    )
    return Model(job, [number[node] for node in _sequence(step, rules)])


def _sequence(step: Job, rules: Sequence[ChannelRule]) -> list[str]:
    """The data transfers, those of a rule in its order."""
    nodes = {t.key: t.node for t in view_of(step)[1].data}
    ruled = [key for rule in rules for key in rule.order]
    return [nodes[key] for key in [*ruled, *(key for key in nodes if key not in set(ruled))]]


def _control_latency(step: Job, cluster: Cluster, name: str) -> float:
    node = next(n for p in step.partitions for n in p.node if n.name == name)
    ends = (node.attr["send_device"].s.decode(), node.attr["recv_device"].s.decode())
    return max(_card(cluster, device).latency_seconds for device in ends)


def _card(cluster: Cluster, device: str) -> LinkModel:
    return cluster.nics.get(_task(device), cluster.nic)


def _task(device: str) -> str:
    return device.partition("/device:")[0]
