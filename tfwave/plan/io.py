"""Plans as files: binary protobuf, or JSON where the name ends in .json. One plan, one sequence of bytes."""

import base64
import json
import math
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import DecodeError

from tfwave.cost.model import CostSource
from tfwave.errors import PlanError
from tfwave.files import read_file, write_whole
from tfwave.graph.names import Channel, TransferKey
from tfwave.plan.discipline import Discipline
from tfwave.plan.fingerprint import GraphPrint
from tfwave.plan.plan import ChannelOrder, Plan, PlannedTransfer, Predicted, check_version
from tfwave.proto import plan_pb2

JSON_SUFFIX = ".json"


def save_plan(plan: Plan, path: str | Path) -> None:
    """Write a plan; JSON if `path` ends in ``.json``, else binary."""
    target = Path(path)
    as_json = target.suffix == JSON_SUFFIX
    write_whole(
        target, plan_json(plan).encode() if as_json else to_proto(plan).SerializeToString(deterministic=True)
    )


def load_plan(path: str | Path) -> Plan:
    """Read a plan in either form.

    Raises:
        PlanError: the file cannot be read, is not a plan, or breaks a plan's rules.
    """
    try:
        data = read_file(path)
    except OSError as error:
        raise PlanError(f"cannot read plan '{path}': {error.strerror}") from error
    try:
        return from_proto(_parse(data, Path(path).suffix == JSON_SUFFIX))
    except PlanError as error:
        raise PlanError(f"plan '{path}': {error}") from error


def plan_json(plan: Plan) -> str:
    """The JSON form, ending in a newline."""
    return json.dumps(to_dict(plan), indent=1) + "\n"


def to_dict(plan: Plan) -> dict[str, Any]:
    """The JSON form as a dict, every field present; infinite priorities are the string "Infinity"."""
    return {
        "version": plan.version,
        "policy": plan.policy,
        "fingerprint": plan.fingerprint,
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
        "op_counts": [{"op": op, "count": count} for op, count in plan.graph.op_counts],
        "node_digests": _base64(plan.graph.node_digests),
    }


def to_proto(plan: Plan) -> plan_pb2.Plan:
    """The protobuf form."""
    return json_format.ParseDict(to_dict(plan), plan_pb2.Plan())


def from_proto(message: plan_pb2.Plan) -> Plan:
    """A plan from its protobuf form.

    Raises:
        PlanError: it breaks a plan's rules.
    """
    check_version(message.version)
    counts = tuple((c.op, c.count) for c in message.op_counts)
    predicted = message.predicted
    return Plan(
        version=message.version,
        policy=message.policy,
        graph=GraphPrint(message.fingerprint, counts, message.node_digests),
        costs=CostSource(message.costs.ops, message.costs.transfers, message.costs.detail),
        predicted=Predicted(**{f.name: getattr(predicted, f.name) for f in predicted.DESCRIPTOR.fields}),
        orders=tuple(_order(o) for o in message.orders),
    )


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


def _parse(data: bytes, as_json: bool) -> plan_pb2.Plan:
    try:
        message = json_format.Parse(data, plan_pb2.Plan()) if as_json else plan_pb2.Plan.FromString(data)
    except (json_format.ParseError, DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PlanError(f"it is not a plan ({' '.join(str(error).split())[:200]})") from error
    if not message.version:
        raise PlanError("it is not a plan: it has no version")
    return message


def _transfer_dict(transfer: PlannedTransfer) -> dict[str, Any]:
    return vars(transfer) | {"key": str(transfer.key), "priority": _finite_or_text(transfer.priority)}


def _finite_or_text(value: float) -> float | str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
