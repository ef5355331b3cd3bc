"""Costs from a JSON file that a person or another tool wrote."""

from collections.abc import Set
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tfwave.cost.model import CostSource, vetted
from tfwave.cost.table import Costs
from tfwave.errors import CostError, excerpt
from tfwave.files import first_fault, read_file
from tfwave.graph.view import RECV_OPS, GraphView


def load_costs(path: Path, view: GraphView) -> Costs:
    """Read ``{"ops": {node: seconds}, "transfers": {recv node: seconds}}``, for the nodes of a view.

    The file may be of more than the view, as of a whole graph: the source of the costs says what counts nothing.

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
    detail = f"{path.name}{_unknown(view, ops.keys(), transfers.keys())}"
    return Costs.named(view, ops, transfers, CostSource("file", "file", detail))


def _unknown(view: GraphView, ops: Set[str], transfers: Set[str]) -> str:
    """How many names there are not in the view, in words, and the first; empty if there are all."""
    arriving = {name for name, op in zip(view.names, view.ops, strict=True) if op in RECV_OPS}
    unknown = sorted((ops - set(view.names)) | (transfers - arriving))
    if not unknown:
        return ""
    return f"; {len(unknown)} of its names are of no op or transfer here, such as '{excerpt(unknown[0])}'"


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    ops: dict[str, float]
    transfers: dict[str, float]
