"""What commands call the jobs whose files they are given."""

from collections.abc import Iterable
from pathlib import Path

from tfwave.graph.load import STANDARD_INPUT

_SUFFIXES = (".pb", ".pbtxt")


def job_names(sources: Iterable[str | Path]) -> list[str]:
    """Each named as its bundle or file; where one has another's name, as one given twice, it gets a number."""
    names: list[str] = []
    for source in sources:
        plain, number = _plain(source), 1
        while (name := plain if number == 1 else f"{plain}-{number}") in names:
            number += 1
        names.append(name)
    return names


def _plain(source: str | Path) -> str:
    if str(source) == STANDARD_INPUT:
        return "job"
    path = Path(source).resolve()
    return (path.stem if path.suffix in _SUFFIXES else path.name) or "job"
