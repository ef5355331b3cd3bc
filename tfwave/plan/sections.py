"""The sections of a plan beside its order, as dicts for JSON and from their messages."""

import base64
from typing import Any

from tfwave.plan.embeddings import Embeddings, EmbeddingTable, RowPriorities
from tfwave.plan.fingerprint import GraphPrint
from tfwave.plan.groups import GroupedJob, Groups, NodeGroup, OwnStep, PlannedJob, Turn
from tfwave.plan.layers import LayerDevices, Layers
from tfwave.plan.memory import AwayTensor, Memory, Place
from tfwave.plan.placement import Placement
from tfwave.plan.waves import Waves
from tfwave.proto import plan_pb2


def graph_dict(graph: GraphPrint) -> dict[str, Any]:
    """What is remembered of a graph."""
    return {
        "fingerprint": graph.fingerprint,
        "op_counts": [{"op": op, "count": count} for op, count in graph.op_counts],
        "node_digests": base64.b64encode(graph.node_digests).decode(),
    }


def graph_of(message: plan_pb2.GraphPrint | plan_pb2.Plan) -> GraphPrint:
    """Of a section, or of the order, whose graph is the plan's own."""
    counts = tuple((c.op, c.count) for c in message.op_counts)
    return GraphPrint(message.fingerprint, counts, message.node_digests)


def groups_dict(groups: Groups) -> dict[str, Any]:
    """Jobs in one memory."""
    return {
        "limit_bytes": groups.limit_bytes,
        "jobs": [_job_dict(planned) for planned in groups.jobs],
        "slots": [{"turns": [vars(turn) for turn in slot]} for slot in groups.slots],
        "peak_bytes": groups.peak_bytes,
        "seconds": groups.seconds,
        "in_turn_seconds": groups.in_turn_seconds,
    }


def groups_of(message: plan_pb2.Groups) -> Groups:
    """Raises: PlanError: they break the rules of `Groups`."""
    return Groups(
        limit_bytes=message.limit_bytes,
        jobs=tuple(_job(job) for job in message.jobs),
        slots=tuple(tuple(Turn(t.job, t.group) for t in slot.turns) for slot in message.slots),
        peak_bytes=message.peak_bytes,
        seconds=message.seconds,
        in_turn_seconds=message.in_turn_seconds,
    )


def waves_dict(waves: Waves) -> dict[str, Any]:
    """The waves of a step."""
    return vars(waves) | {"graph": graph_dict(waves.graph)}


_OF_PLACES = frozenset({"places", "region_bytes", "apart", "swapped"})


def waves_of(message: plan_pb2.Waves) -> Waves:
    """Raises: PlanError: they break the rules of `Waves`."""
    plain = {f.name: getattr(message, f.name) for f in message.DESCRIPTOR.fields if f.name != "graph"}
    return Waves(graph=graph_of(message.graph), **plain)


def placement_dict(placement: Placement) -> dict[str, Any]:
    """Variables by name."""
    return {
        "servers": placement.servers,
        "variables": dict(sorted(placement.variables.items())),
        "bytes": list(placement.bytes),
        "bound_bytes": placement.bound_bytes,
    }


def placement_of(message: plan_pb2.Placement) -> Placement:
    """Raises: PlanError: it breaks the rules of `Placement`."""
    return Placement(message.servers, dict(message.variables), tuple(message.bytes), message.bound_bytes)


def memory_dict(memory: Memory) -> dict[str, Any]:
    """A step in a limited memory."""
    tensors = [vars(t) | {"names": list(t.names), "again": list(t.again)} for t in memory.tensors]
    plain = {"graph": graph_dict(memory.graph), "order": list(memory.order), "tensors": tensors}
    lists = {
        "chained": list(memory.chained),
        "beside": list(memory.beside),
        "places": [vars(place) for place in memory.places],
        "apart": list(memory.apart),
        "swapped": list(memory.swapped),
    }
    found = vars(memory) | plain | lists
    return found if memory.places else {k: v for k, v in found.items() if k not in _OF_PLACES}


def memory_of(message: plan_pb2.Memory) -> Memory:
    """Raises: PlanError: it breaks the rules of `Memory`."""
    return Memory(
        graph_of(message.graph),
        message.limit_bytes,
        message.policy,
        tuple(message.order),
        tuple(_away(tensor) for tensor in message.tensors),
        message.peak_bytes,
        message.seconds,
        message.plain_seconds,
        message.least_bytes,
        chained=tuple(message.chained),
        places=tuple(
            Place(place.op, place.offset, place.bytes, place.is_scratch) for place in message.places
        ),
        region_bytes=message.region_bytes,
        beside=tuple(message.beside),
        apart=tuple(message.apart),
        swapped=tuple(message.swapped),
    )


def layers_dict(layers: Layers) -> dict[str, Any]:
    """The devices of layers."""
    return vars(layers) | {"layers": [vars(layer) for layer in layers.layers]}


def layers_of(message: plan_pb2.Layers) -> Layers:
    """Raises: PlanError: they break the rules of `Layers`."""
    plain = {f.name: getattr(message, f.name) for f in message.DESCRIPTOR.fields if f.name != "layers"}
    found = tuple(LayerDevices(layer.name, layer.first, layer.count) for layer in message.layers)
    return Layers(layers=found, **plain)


def embeddings_dict(embeddings: Embeddings) -> dict[str, Any]:
    """Staged steps."""
    tables = [vars(table) | {"servers": list(table.servers)} for table in embeddings.tables]
    return vars(embeddings) | {"tables": tables, "priorities": vars(embeddings.priorities)}


def embeddings_of(message: plan_pb2.Embeddings) -> Embeddings:
    """Raises: PlanError: they break the rules of `Embeddings`."""
    apart = {"tables", "priorities"}
    plain = {f.name: getattr(message, f.name) for f in message.DESCRIPTOR.fields if f.name not in apart}
    tables = tuple(
        EmbeddingTable(t.name, t.rows, t.columns, t.layout, tuple(t.servers)) for t in message.tables
    )
    own = message.priorities
    priorities = RowPriorities(own.repeated_push, own.repeated_pull, own.cold_pull, own.cold_push)
    return Embeddings(tables=tables, priorities=priorities, **plain)


def _away(t: plan_pb2.AwayTensor) -> AwayTensor:
    return AwayTensor(tuple(t.names), t.bytes, t.method, t.after, t.gone, t.back, t.wanted, tuple(t.again))


def _job_dict(planned: PlannedJob) -> dict[str, Any]:
    job = planned.job
    allowed = {} if job.slowed_at_most is None else {"slowed_at_most": job.slowed_at_most}
    own = {} if planned.own is None else {"own": _own_dict(planned.own)}
    return {
        "name": job.name,
        "graph": graph_dict(planned.graph),
        "resident_bytes": job.resident,
        "compute_share": job.compute_share,
        **allowed,
        "groups": [_group_dict(group) for group in job.groups],
        **own,
    }


def _own_dict(own: OwnStep) -> dict[str, Any]:
    return {"graph": graph_dict(own.graph), "fetches": list(own.fetches)}


def _job(message: plan_pb2.PlannedJob) -> PlannedJob:
    allowed = message.slowed_at_most if message.HasField("slowed_at_most") else None
    groups = tuple(_group(group) for group in message.groups)
    job = GroupedJob(message.name, groups, message.resident_bytes, allowed, message.compute_share)
    own = (
        OwnStep(graph_of(message.own.graph), tuple(message.own.fetches)) if message.HasField("own") else None
    )
    return PlannedJob(job, graph_of(message.graph), own)


def _group_dict(group: NodeGroup) -> dict[str, Any]:
    return {
        "ops": list(group.ops),
        "first_level": group.first_level,
        "last_level": group.last_level,
        "net_bytes": group.net,
        "transient_bytes": group.transient,
        "piece_bytes": group.piece,
        "seconds": group.seconds,
    }


def _group(message: plan_pb2.NodeGroup) -> NodeGroup:
    return NodeGroup(
        tuple(message.ops),
        message.first_level,
        message.last_level,
        message.net_bytes,
        message.transient_bytes,
        message.piece_bytes,
        message.seconds,
    )
