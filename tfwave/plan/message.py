"""Plans as messages: the dict that JSON shows, and the protobuf form. One plan, one sequence of bytes."""

import math
from typing import Any

from google.protobuf import json_format

from tfwave.cost.model import CostSource
from tfwave.errors import PlanError
from tfwave.graph.names import Channel, TransferKey
from tfwave.plan.discipline import Discipline
from tfwave.plan.plan import PLAN_VERSION, ChannelOrder, Plan, PlannedTransfer, Predicted, check_version
from tfwave.plan.sections import (
    embeddings_dict,
    embeddings_of,
    graph_dict,
    graph_of,
    groups_dict,
    groups_of,
    layers_dict,
    layers_of,
    memory_dict,
    memory_of,
    placement_dict,
    placement_of,
    waves_dict,
    waves_of,
)
from tfwave.proto import plan_pb2


def to_dict(plan: Plan) -> dict[str, Any]:
    """The JSON form as a dict, every field of what was decided; infinite priorities are the string "Infinity"."""
    found: dict[str, Any] = {"version": PLAN_VERSION}
    if plan.has_order:
        found |= _order_dict(plan)
    if plan.groups is not None:
        found["groups"] = groups_dict(plan.groups)
    if plan.waves is not None:
        found["waves"] = waves_dict(plan.waves)
    if plan.placement is not None:
        found["placement"] = placement_dict(plan.placement)
    if plan.memory is not None:
        found["memory"] = memory_dict(plan.memory)
    if plan.layers is not None:
        found["layers"] = layers_dict(plan.layers)
    if plan.embeddings is not None:
        found["embeddings"] = embeddings_dict(plan.embeddings)
    return found


def to_proto(plan: Plan) -> plan_pb2.Plan:
    """The protobuf form."""
    return json_format.ParseDict(to_dict(plan), plan_pb2.Plan())


def from_proto(message: plan_pb2.Plan) -> Plan:
    """A plan from its protobuf form; one of version 2, which had an order only, becomes one of this version.

    Raises:
        PlanError: it breaks a plan's rules, or holds what this tfwave does not know.
    """
    check_version(message.version)
    if _has_unknown(message):
        raise PlanError(
            "it has sections, or parts of them, that this tfwave does not know: a later one made it, use that"
        )
    predicted = message.predicted
    return Plan(
        policy=message.policy,
        graph=graph_of(message),
        costs=CostSource(message.costs.ops, message.costs.transfers, message.costs.detail),
        predicted=Predicted(**{f.name: getattr(predicted, f.name) for f in predicted.DESCRIPTOR.fields}),
        orders=tuple(_order(o) for o in message.orders),
        groups=groups_of(message.groups) if message.HasField("groups") else None,
        waves=waves_of(message.waves) if message.HasField("waves") else None,
        placement=placement_of(message.placement) if message.HasField("placement") else None,
        memory=memory_of(message.memory) if message.HasField("memory") else None,
        layers=layers_of(message.layers) if message.HasField("layers") else None,
        embeddings=embeddings_of(message.embeddings) if message.HasField("embeddings") else None,
    )


def _has_unknown(message: plan_pb2.Plan) -> bool:
    """Has it fields that its format does not know, at any depth?"""
    known = plan_pb2.Plan()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return known.ByteSize() != message.ByteSize()


def _order_dict(plan: Plan) -> dict[str, Any]:
    graph = graph_dict(plan.graph)
    return {
        "policy": plan.policy,
        "fingerprint": graph.pop("fingerprint"),
        "costs": vars(plan.costs),
        "predicted": vars(plan.predicted),
        "orders": [
            {
                "source_device": order.channel.source,
                "destination_device": order.channel.destination,
                "discipline": order.discipline.value,
                "window_bytes": order.window_bytes,
                "transfers": [_transfer_dict(t) for t in order.transfers],
            }
            for order in plan.orders
        ],
        **graph,
    }


def _transfer_dict(transfer: PlannedTransfer) -> dict[str, Any]:
    return vars(transfer) | {"key": str(transfer.key), "priority": _finite_or_text(transfer.priority)}


def _finite_or_text(value: float) -> float | str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _order(message: plan_pb2.Order) -> ChannelOrder:
    channel = Channel(message.source_device, message.destination_device)
    transfers = tuple(
        PlannedTransfer(TransferKey.parse(t.key), t.node, t.rank, t.priority, t.bytes, t.edge)
        for t in message.transfers
    )
    return ChannelOrder(channel, transfers, _discipline(channel, message.discipline), message.window_bytes)


def _discipline(channel: Channel, name: str) -> Discipline:
    try:
        return Discipline(name)
    except ValueError as error:
        raise PlanError(
            f"the order {channel} has the discipline '{name}', not counter or priority"
        ) from error
