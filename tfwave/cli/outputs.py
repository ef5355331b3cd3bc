"""Where commands write: nowhere that they read, and each thing to a place of its own."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path

from tfwave.errors import TfwaveError
from tfwave.files import check_writable, overlap, real_path
from tfwave.graph.container import STANDARD_OUTPUT
from tfwave.graph.load import STANDARD_INPUT
from tfwave.report.drawn.figure import check_figure


def check_outputs(
    read: Iterable[str | Path | None], outputs: Iterable[Path | None], plot: Path | None = None
) -> None:
    """Refuse, before anything is computed, files that could not be written then; and as `check_apart`.

    Raises:
        TfwaveError: as `check_writable` and `check_apart`, of the plot as `check_figure`; or a file is named '-'.
        EnvironmentUnsupported: as `check_figure`.
    """
    files = [output for output in (*outputs, plot) if output is not None]
    check_apart(read, files)
    for file in files:
        if str(file) == STANDARD_OUTPUT:
            raise TfwaveError(f"'{file}' is standard output, and this is written to a file: give its name")
        check_writable(file)
    if plot is not None:
        check_figure(plot)


def check_apart(read: Iterable[str | Path | None], outputs: Sequence[Path]) -> None:
    """Refuse to write over what is read, or into it, or two things to one file.

    Standard input and what is not given are passed over, as are devices and pipes, which take any number.

    Raises:
        TfwaveError: an output is, contains or lies within what is read, or is another one; names both.
    """
    sources = [Path(source) for source in read if source is not None and source != STANDARD_INPUT]
    for output in outputs:
        for source in sources:
            if overlap(source, output):
                raise TfwaveError(
                    f"'{output}' is, contains or lies within '{source}', which is read: choose another name"
                )
    for one, other in combinations(filter(_is_written_whole, outputs), 2):
        if real_path(one) == real_path(other):
            raise TfwaveError(
                f"'{one}' and '{other}' are one file, and two are to be written: name them apart"
            )


def check_standard_output(output: str, *, as_json: bool) -> None:
    """Refuse to print a graph and what JSON says of it into each other.

    Raises:
        TfwaveError: both go to standard output.
    """
    if as_json and output == STANDARD_OUTPUT:
        raise TfwaveError("the graph and --json cannot both go to standard output: give -o a file")


def _is_written_whole(output: Path) -> bool:
    """Is it a file, or none yet? A device or a pipe is not. What cannot be asked is told where it is written."""
    try:
        return output.is_file() or not output.exists()
    except OSError:
        return True
