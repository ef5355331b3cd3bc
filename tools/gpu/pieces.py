"""Wheels that were brought in pieces: NAME.whl.aa, NAME.whl.ab and so on, as `split` names them."""

import shutil
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path


class NotWholeError(Exception):
    """Pieces that do not make a wheel, or no wheels at all."""


def wheels_of(folder: Path, joined: Path) -> list[Path]:
    """The wheels in a folder; those in pieces are joined into another one, once.

    Raises:
        NotWholeError: pieces do not make a wheel, or there is nothing.
    """
    whole = sorted(folder.glob("*.whl"))
    made = [join(name, pieces, joined) for name, pieces in pieces_in(folder).items()]
    if not whole and not made:
        raise NotWholeError(
            f"'{folder}' has no wheels: bring *.whl, or pieces of them, *.whl.aa, *.whl.ab, ..."
        )
    return [*whole, *made]


def pieces_in(folder: Path) -> Mapping[str, Sequence[Path]]:
    """The pieces of each wheel, in the order in which they are joined."""
    found: dict[str, list[Path]] = defaultdict(list)
    for piece in sorted(folder.glob("*.whl.*")):
        found[piece.name.rpartition(".")[0]].append(piece)
    return found


def join(name: str, pieces: Sequence[Path], folder: Path) -> Path:
    """One wheel of its pieces; one that is there already, and as large, is taken as it is.

    Raises:
        NotWholeError: a piece is missing or damaged.
    """
    target = folder / name
    if target.exists() and target.stat().st_size == sum(piece.stat().st_size for piece in pieces):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    beside = target.with_suffix(".part")
    with beside.open("wb") as file:
        for piece in pieces:
            with piece.open("rb") as source:
                shutil.copyfileobj(source, file, 1 << 24)
    if not is_whole(beside):
        beside.unlink()
        names = ", ".join(piece.name for piece in pieces)
        raise NotWholeError(f"{names} do not make a wheel: bring all pieces of '{name}', as they were cut")
    beside.rename(target)
    return target


def is_whole(wheel: Path) -> bool:
    """Whether all that a wheel lists is in it, undamaged."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error):
        return False
