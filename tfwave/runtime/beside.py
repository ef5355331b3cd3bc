"""What a background program and the process that starts it again tell each other: a few numbers in shared memory.

The program finds it by the variable `TFWAVE_BACKGROUND`. Without that, or once it is gone, nothing is told.
"""

import os
import struct
import sys
from enum import IntEnum
from types import TracebackType
from typing import Any

from tfwave.errors import origins

VARIABLE = "TFWAVE_BACKGROUND"
_NUMBER = struct.Struct("<q")


class Field(IntEnum):
    """The largest batch allowed, 0 for any; the one that is trained; steps made; whether memory ran out."""

    MOST = 0
    BATCH = 1
    STEPS = 2
    FULL = 3


class Told:
    """The numbers, as this process made them, for the programs that it starts one after the other."""

    def __init__(self) -> None:
        """All are 0."""
        self._file = os.memfd_create("tfwave-background")
        os.ftruncate(self._file, _NUMBER.size * len(Field))

    @property
    def path(self) -> str:
        """For the variable, as long as this process lives."""
        return f"/proc/{os.getpid()}/fd/{self._file}"

    def get(self, field: Field) -> int:
        """What the program says."""
        return _NUMBER.unpack(os.pread(self._file, _NUMBER.size, _NUMBER.size * field))[0]

    def set(self, field: Field, value: int) -> None:
        """Say it to the program."""
        os.pwrite(self._file, _NUMBER.pack(value), _NUMBER.size * field)


def background_batch(wanted: int) -> int:
    """The batch that a program in the background trains: as wanted, or less where its memory was too small.

    A background that is started again (``tfwave launch --background``, `Background(restarts=True)`) is told half
    its batch each time that its memory ran out: TensorFlow's pool (`ResourceExhaustedError`), Python's, or the
    machine's, of which the kernel ended it. Everywhere else it is what is wanted.

    Call it once, before the first step. It is the program that trains smaller batches then, and more of them: what
    depends on that, as a learning rate, is the program's. Let it save checkpoints, to go on from them.

    Args:
        wanted: samples, at least 1.
    """
    file = _opened()
    if file is None:
        return wanted
    with file:
        most = _read(file, Field.MOST)
        batch = min(wanted, most) if most > 0 else wanted
        _write(file, Field.BATCH, batch)
    _note_what_ends_it()
    return batch


def background_step() -> None:
    """Say that a program in the background has made a step: one that tells so is ended where it hangs.

    It hangs where no step comes for five minutes, and for 20 times as long as the longest took, in which it was
    neither paused nor waiting for a core; it is started again as one that has failed. Where no one would start it
    again, this does nothing.
    """
    file = _opened()
    if file is not None:
        with file:
            _write(file, Field.STEPS, _read(file, Field.STEPS) + 1)


def ran_out_of_memory(error: BaseException | None) -> bool:
    """Is an error, or what it came from, one of memory?"""
    return any(
        isinstance(one, MemoryError) or type(one).__name__ == "ResourceExhaustedError"
        for one in origins(error)
    )


def _note_what_ends_it() -> None:
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        file = _opened() if ran_out_of_memory(error) else None
        if file is not None:
            with file:
                _write(file, Field.FULL, 1)
        before(kind, error, trace)

    sys.excepthook = hook


def _opened() -> Any:
    path = os.environ.get(VARIABLE)
    try:
        return open(path, "r+b", buffering=0) if path else None
    except OSError:
        return None


def _read(file: Any, field: Field) -> int:
    data = os.pread(file.fileno(), _NUMBER.size, _NUMBER.size * field)
    return _NUMBER.unpack(data)[0] if len(data) == _NUMBER.size else 0


def _write(file: Any, field: Field, value: int) -> None:
    os.pwrite(file.fileno(), _NUMBER.pack(value), _NUMBER.size * field)
