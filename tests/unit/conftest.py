"""The command line in this process, and small inputs for it."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.bundles import small_bundle, small_graphs
from tfwave.bundle.bundle import save_bundle
from tfwave.cli.app import main


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Ran]


def refused(ran: Ran, *says: str) -> None:
    """Says these words in one line on standard error, and nothing besides."""
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("tfwave: error: ")
    assert ran.err.count("\n") == 1
    for text in says:
        assert text in ran.err


@pytest.fixture
def tfwave(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: object, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "argv", ["tfwave", *map(str, arguments)])
        monkeypatch.setattr(sys, "path", [*sys.path])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as left:
            main()
        code = left.value.code
        assert isinstance(code, int)
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """The worker's partition."""
    file = tmp_path / "worker.pb"
    file.write_bytes(small_graphs()[1].SerializeToString())
    return file


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    save_bundle(small_bundle(), tmp_path / "bundle")
    return tmp_path / "bundle"
