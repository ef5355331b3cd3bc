"""What was measured, as a JSON file of a version."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from tfwave.errors import CostError
from tfwave.files import first_fault, read_file, write_whole


class Document(BaseModel):
    """A file that says by which version of its format it was written."""

    version: int

    def write(self, path: Path) -> None:
        """As JSON, for `read_document`.

        Raises:
            TfwaveError: the place cannot be written.
        """
        write_whole(path, self.model_dump_json(indent=1).encode() + b"\n")


DocumentT = TypeVar("DocumentT", bound=Document)


def read_document(path: Path, kind: type[DocumentT], what: str, version: int) -> DocumentT:
    """A file of this kind and version; `what` names it in errors.

    Raises:
        CostError: it cannot be read, or is none.
    """
    try:
        data = read_file(path)
    except OSError as error:
        raise CostError(f"cannot read {what} '{path}': {error.strerror}") from error
    try:
        found = kind.model_validate_json(data)
    except ValidationError as error:
        raise CostError(f"{what} '{path}': {first_fault(error)}") from error
    if found.version != version:
        raise CostError(
            f"{what} '{path}' has version {found.version}, this tfwave reads {version}: make it again"
        )
    return found
