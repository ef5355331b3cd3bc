"""Costs from a JSON file that a person or another tool wrote."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tfwave.cost.model import CostSource, vetted
from tfwave.cost.table import Costs
from tfwave.errors import CostError
from tfwave.files import first_fault, read_file
from tfwave.graph.view import GraphView


def load_costs(path: Path, view: GraphView) -> Costs:
    """Read ``{"ops": {node: seconds}, "transfers": {recv node: seconds}}``, for the nodes of a view.

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
    return Costs.named(view, ops, transfers, CostSource("file", "file", path.name))


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    ops: dict[str, float]
    transfers: dict[str, float]
