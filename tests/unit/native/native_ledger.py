"""The native ledger as a library without TensorFlow: what a pool's Python asks, in a process that has none."""

import ctypes
from pathlib import Path

from tests.unit.native.compiled import compiled
from tests.unit.native.native_program import COMPILER, NATIVE, OF_PROCESS


def native_ledger(directory: Path) -> ctypes.CDLL:
    """What `native.load` gives, of which only the ledger is there; the directory is for its source."""
    sources = [path for pattern in OF_PROCESS for path in sorted(NATIVE.glob(pattern))]
    joined = directory / "joined.cc"
    joined.write_text("".join(f'#include "{path}"\n' for path in sources))
    library = compiled([str(COMPILER), "-std=c++17", "-O0", "-fPIC", "-shared", "-pthread"], NATIVE, joined)
    assert library, "it does not compile: the compiler's words are above"
    return ctypes.CDLL(str(library))
