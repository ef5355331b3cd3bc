"""The placement: which server holds each variable. Deciding and doing are joined by its file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tfwave.errors import PlanError
from tfwave.files import first_fault, read_file, write_whole

PLACEMENT_VERSION = 1


@dataclass(frozen=True)
class Placement:
    """The task number of the server of each variable, by the variable's name.

    Raises:
        PlanError: no server, or a variable on a server that is not among them.
    """

    servers: int
    variables: Mapping[str, int]

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.servers < 1:
            raise PlanError(f"a placement on {self.servers} servers is none: give at least 1")
        for name in sorted(self.variables):
            if not 0 <= self.variables[name] < self.servers:
                raise PlanError(
                    f"variable '{name}' is placed on server {self.variables[name]}, "
                    f"but there are only {self.servers}, counted from 0"
                )

    def check_servers(self, there: int) -> None:
        """Raises: PlanError: the job has another number of servers."""
        if there != self.servers:
            raise PlanError(
                f"the placement is for {self.servers} servers, but the job has {there}: "
                f"make one with tfwave balance --servers {there}"
            )


def save_placement(placement: Placement, path: str | Path) -> None:
    """Write a placement as JSON; one placement, one sequence of bytes.

    Raises:
        TfwaveError: the place cannot be written.
    """
    write_whole(Path(path), placement_json(placement).encode())


def placement_json(placement: Placement) -> str:
    """The JSON form, ending in a newline."""
    variables = dict(sorted(placement.variables.items()))
    document = {"version": PLACEMENT_VERSION, "servers": placement.servers, "variables": variables}
    return json.dumps(document, indent=1) + "\n"


def load_placement(path: str | Path) -> Placement:
    """Read a placement.

    Raises:
        PlanError: the file cannot be read, is no placement, or is of another version; names it.
    """
    try:
        document = _Document.model_validate_json(read_file(path))
    except OSError as error:
        raise PlanError(f"cannot read placement '{path}': {error.strerror}") from error
    except ValidationError as error:
        raise PlanError(f"'{path}' is not a placement: {first_fault(error)}") from error
    if document.version != PLACEMENT_VERSION:
        raise PlanError(
            f"placement '{path}' is of version {document.version}; this tfwave reads {PLACEMENT_VERSION}"
        )
    try:
        return Placement(document.servers, document.variables)
    except PlanError as error:
        raise PlanError(f"placement '{path}': {error}") from error


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    version: int
    servers: int = Field(le=2**20)
    variables: dict[str, int]
