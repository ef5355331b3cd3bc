"""What is known of a step with embedding tables before it is staged: rows of batches, and times."""

import base64
import binascii
import itertools
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from tfwave.cost.document import Document, read_document
from tfwave.errors import CostError
from tfwave.plan.embeddings import COLUMNS, EmbeddingTable

CAPTURE_VERSION = 1
MOST_ROWS, MOST_COLUMNS, MOST_SLOTS, MOST_SERVERS = 2**40, 2**20, 64, 2**16
MOST_BYTES = 2**48
"""A table's part, or another variable, has no more: what is counted stays within 64 bits."""

_NUMBERS = np.dtype("<i8")


class Part(BaseModel):
    """What of a table lies in one variable: so many rows and columns, on the server of this number."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: int = Field(ge=1, le=MOST_ROWS)
    columns: int = Field(ge=1, le=MOST_COLUMNS)
    server: int = Field(ge=0, lt=MOST_SERVERS)


class CapturedTable(BaseModel):
    """A table, its parts in the order of its rows or columns, and the slots that its optimizer has for a number."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    layout: str
    parts: tuple[Part, ...] = Field(min_length=1)
    slots: int = Field(ge=0, le=MOST_SLOTS)

    @property
    def rows(self) -> int:
        return self.parts[0].rows if self.layout == COLUMNS else sum(part.rows for part in self.parts)

    @property
    def columns(self) -> int:
        return sum(part.columns for part in self.parts) if self.layout == COLUMNS else self.parts[0].columns

    @property
    def planned(self) -> EmbeddingTable:
        """As plans have it."""
        servers = tuple(part.server for part in self.parts)
        return EmbeddingTable(self.name, self.rows, self.columns, self.layout, servers)


class CapturedBatch(BaseModel):
    """By table how many ids a batch has, and which rows these are, each once, as `packed` writes them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ids: dict[str, Annotated[int, Field(ge=0, le=MOST_ROWS)]]
    rows: dict[str, str]


class Capture(Document):
    """A few batches that follow each other, and the least seconds of a step where tables need no network.

    Attributes:
        tables: in the order in which their rows are numbered through.
        batches: in turn.
        dense_bytes: of each trainable variable beside the tables, which a step reads and sends a gradient of.
        step_seconds: of a step that looks each row up once; of these
        server_seconds: are those in which servers gather and update rows.
        core_seconds: for which a step, and what is prepared for it, keeps a core busy; None: not known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = CAPTURE_VERSION
    tables: tuple[CapturedTable, ...] = Field(min_length=1)
    batches: tuple[CapturedBatch, ...] = Field(min_length=2)
    dense_bytes: tuple[Annotated[int, Field(ge=0, le=MOST_BYTES)], ...] = ()
    step_seconds: float = Field(gt=0, allow_inf_nan=False)
    server_seconds: float = Field(ge=0, allow_inf_nan=False)
    core_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    def dealt(self, servers: int) -> "Capture":
        """The same with the parts of all tables dealt out over so many servers, in turn."""
        numbers = itertools.cycle(range(servers))
        tables = [
            table.model_copy(
                update={"parts": tuple(p.model_copy(update={"server": next(numbers)}) for p in table.parts)}
            )
            for table in self.tables
        ]
        return self.model_copy(update={"tables": tuple(tables)})

    def check(self) -> None:
        """Raises: CostError: a table twice or a batch without its rows; or servers that take longer than a step."""
        names = [table.name for table in self.tables]
        if len(set(names)) < len(names):
            raise CostError("the capture has a table twice")
        if self.server_seconds > self.step_seconds:
            raise CostError(
                f"servers take {self.server_seconds:g} s of steps of {self.step_seconds:g} s: capture it again"
            )
        for number, batch in enumerate(self.batches):
            for table in self.tables:
                if table.name not in batch.ids or table.name not in batch.rows:
                    raise CostError(f"batch {number} of the capture has no ids of the table '{table.name}'")
                self._check_rows(number, batch, table)

    def _check_rows(self, number: int, batch: CapturedBatch, table: CapturedTable) -> None:
        rows = unpacked(batch.rows[table.name])
        is_set = bool((np.diff(rows) > 0).all())
        if (
            not is_set
            or len(rows) > batch.ids[table.name]
            or (len(rows) and not 0 <= rows[0] <= rows[-1] < table.rows)
        ):
            raise CostError(
                f"batch {number} of the capture has other rows of the table '{table.name}' than it can have"
            )


def packed(rows: Any) -> str:
    """Sorted numbers of rows as text: little-endian int64, base64."""
    return base64.b64encode(np.asarray(rows, _NUMBERS).tobytes()).decode()


def unpacked(text: str) -> Any:
    """Raises: CostError: this is no text that `packed` wrote."""
    try:
        return np.frombuffer(base64.b64decode(text, validate=True), _NUMBERS)
    except (binascii.Error, ValueError) as error:
        raise CostError("the capture has rows that cannot be read: make it again") from error


def read_capture(path: Path) -> Capture:
    """A capture as `Capture.write` wrote it.

    Raises:
        CostError: it cannot be read, or is none.
    """
    found = read_document(path, Capture, "capture", CAPTURE_VERSION)
    try:
        found.check()
    except CostError as error:
        raise CostError(f"capture '{path}': {error}") from error
    return found
