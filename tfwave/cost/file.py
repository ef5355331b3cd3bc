"""Costs from a JSON file that a person or another tool wrote."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tfwave.cost.model import WIRE_OPS, CostSource, free_op_seconds, missing_transfer, vetted
from tfwave.errors import CostError
from tfwave.files import first_fault, read_file
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView


@dataclass(frozen=True)
class FileCosts:
    """Seconds by node name: `ops` for compute, `transfers` by the name of the `_Recv` node.

    An op that is not listed raises MissingCost, but for `FREE_OPS`. A cost given to a send or receive
    under `ops` is not used. A name counts for each partition that has it.
    """

    ops: Mapping[str, float]
    transfers: Mapping[str, float]
    source: CostSource = CostSource("file", "file")

    def op_seconds(self, view: GraphView, node: int) -> float:
        """Seconds of an op, as listed."""
        if view.ops[node] in WIRE_OPS:
            return 0.0
        seconds = self.ops.get(view.names[node])
        return free_op_seconds(view, node) if seconds is None else seconds

    def transfer_seconds(self, transfer: Transfer) -> float:
        """Seconds of a transfer, as listed."""
        seconds = self.transfers.get(transfer.node)
        if seconds is None:
            raise missing_transfer(transfer.node, transfer.key)
        return seconds


def load_costs(path: Path) -> FileCosts:
    """Read ``{"ops": {node: seconds}, "transfers": {recv node: seconds}}``.

    Raises:
        CostError: the file cannot be read, is not such JSON, or has a cost that is negative or not a number;
            names the file and the entry.
    """
    try:
        document = _Document.model_validate_json(read_file(path))
    except OSError as error:
        raise CostError(f"cannot read the costs file '{path}': {error.strerror}") from error
    except ValidationError as error:
        raise CostError(f"costs file '{path}': {first_fault(error)}") from error
    try:
        ops = {name: vetted(seconds, name) for name, seconds in document.ops.items()}
        transfers = {name: vetted(seconds, name) for name, seconds in document.transfers.items()}
    except CostError as error:
        raise CostError(f"costs file '{path}': {error}") from error
    return FileCosts(ops, transfers, CostSource("file", "file", path.name))


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    ops: dict[str, float]
    transfers: dict[str, float]
