"""Where commands write: nowhere that they read."""

from collections.abc import Iterable
from pathlib import Path

from tfwave.errors import TfwaveError
from tfwave.files import overlap
from tfwave.graph.load import STANDARD_INPUT


def check_outputs(read: Iterable[str | Path | None], outputs: Iterable[Path | None]) -> None:
    """Refuse to write over what is read, or into it; standard input and what is not given are passed over.

    Raises:
        TfwaveError: an output is, contains or lies within what is read; names both.
    """
    sources = [Path(source) for source in read if source is not None and source != STANDARD_INPUT]
    for output in outputs:
        for source in sources:
            if output is not None and overlap(source, output):
                raise TfwaveError(
                    f"'{output}' is, contains or lies within '{source}', which is read: choose another name"
                )
