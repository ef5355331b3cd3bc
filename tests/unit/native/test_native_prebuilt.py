"""The libraries that come with the package: which is taken, and what if it does not fit."""

import importlib.metadata
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.native.test_native import no_compilers, prepare
from tfwave.errors import EnforcerError, EnvironmentUnsupported
from tfwave.files import sha256_of
from tfwave.runtime import native, trial

VERSION = "2.20.0"


class Installed:
    """What pip knows of a TensorFlow."""

    def __init__(self, version: str = VERSION, record: str = "this wheel") -> None:
        self.version, self.record = version, record

    def read_text(self, name: str) -> str | None:
        return (
            f"tensorflow/libtensorflow_cc.so.2,{self.record}\nbin/toco,{id(self)}"
            if name == "RECORD"
            else None
        )


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sources that are compiled within a moment, and no library beside them."""
    install(monkeypatch, Installed())
    return prepare(tmp_path, monkeypatch)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The libraries that were tried, in order; all of them work."""
    return try_by(monkeypatch, lambda library: None)


def install(patch: pytest.MonkeyPatch, installed: Installed) -> None:
    patch.setattr(native, "_installed", lambda: installed)


def try_by(patch: pytest.MonkeyPatch, try_out: Callable[[Path], None]) -> list[Path]:
    seen: list[Path] = []

    def note(library: Path) -> None:
        seen.append(library)
        try_out(library)

    patch.setattr(native, "try_out", note)
    native._tried.cache_clear()
    return seen


def fail(library: Path) -> None:
    raise EnvironmentUnsupported("TensorFlow shows no name")


@pytest.fixture
def prebuilt(sources: Path, tmp_path: Path) -> Path:
    """A library that came with the package for `VERSION`; the cache is empty."""
    built = native.ensure_built().path
    folder = sources / "prebuilt" / VERSION
    shutil.copytree(built.parent, folder)
    shutil.rmtree(tmp_path / "cache")
    return folder / built.name


def test_a_prebuilt_library_is_taken_without_a_compiler(
    prebuilt: Path, tried: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    no_compilers(monkeypatch)
    assert native.ensure_built() == native.find_built() == native.Library(prebuilt, "prebuilt")
    assert str(native.find_built()) == f"prebuilt: {prebuilt}"
    assert tried == [prebuilt]


def test_its_digest_is_taken_once_at_each_look(
    prebuilt: Path, tried: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Path] = []
    monkeypatch.setattr(native, "sha256_of", lambda path: taken.append(path) or sha256_of(path))
    for looks in (1, 2):
        assert native.ensure_built().path == prebuilt
        assert taken == [prebuilt] * looks


def test_it_is_tried_once_with_each_wheel_of_tensorflow(
    prebuilt: Path, tried: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for record in ("this wheel", "this wheel", "another wheel", "this wheel"):
        native._tried.cache_clear()  # as another process
        install(monkeypatch, Installed(record=record))
        assert native.ensure_built().origin == "prebuilt"
    assert tried == [prebuilt] * 2


def test_it_is_tried_by_each_process_where_nothing_can_be_kept(
    prebuilt: Path, tried: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(native.CACHE_VARIABLE, "/proc/tfwave")
    for _ in range(2):
        assert native.ensure_built().origin == "prebuilt"
    assert tried == [prebuilt]


def test_it_is_taken_where_the_cache_may_not_be_read(
    prebuilt: Path, tried: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where HOME is another user's; root reads all folders, but none with such a name."""
    monkeypatch.setenv(native.CACHE_VARIABLE, f"/{'x' * 300}")
    assert native.ensure_built() == native.find_built() == native.Library(prebuilt, "prebuilt")
    prebuilt.unlink()
    assert native.find_built() is None
    with pytest.raises(EnforcerError, match=f"cannot write .*: set {native.CACHE_VARIABLE} to a writable"):
        native.ensure_built()


def test_before_a_cached_one(sources: Path, prebuilt: Path, tried: list[Path]) -> None:
    shutil.move(prebuilt.parent, sources / "aside")
    cached = native.ensure_built()
    assert (cached.origin, native.ensure_built().origin) == ("built", "cached")
    shutil.move(sources / "aside", prebuilt.parent)
    assert native.ensure_built().path == prebuilt


def test_a_damaged_one_is_passed_over(
    prebuilt: Path, tried: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    prebuilt.write_bytes(prebuilt.read_bytes()[:-1])
    damaged = f"the prebuilt library for TensorFlow {VERSION} is damaged"
    with monkeypatch.context() as patch:
        no_compilers(patch)
        assert native.find_built() is None
        with pytest.raises(EnvironmentUnsupported, match=rf"{damaged}, none is in .*, and no C\+\+ compiler"):
            native.ensure_built()
    assert prebuilt not in tried
    for origin in ("built", "cached"):
        library = native.ensure_built()
        assert (library.origin, library.passed_over) == (origin, damaged)
        assert library.path != prebuilt


def test_one_that_fails_its_trial_is_passed_over(prebuilt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = try_by(monkeypatch, lambda library: fail(library) if library == prebuilt else None)
    assert native.ensure_built().origin == "built"
    assert str(native.ensure_built()).endswith(" (prebuilt: TensorFlow shows no name)")
    assert tried.count(prebuilt) == 1


def test_one_that_was_not_judged_in_time_is_not_judged(
    prebuilt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(command: list[str], timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    try_by(monkeypatch, trial.try_out)
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", hang)
        with pytest.raises(EnforcerError, match=f"has not tried {prebuilt} in 300 s"):
            native.ensure_built()
    try_by(monkeypatch, lambda library: None)
    assert native.ensure_built().path == prebuilt


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_one_whose_trial_was_ended_is_not_judged(
    prebuilt: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """Such as by the kernel, when the machine's memory ran out: there may be enough the next time."""
    try_by(monkeypatch, trial.try_out)
    with monkeypatch.context() as patch:
        patch.setattr(trial, "_TRY", f"import os; os.kill(os.getpid(), {number})")
        with pytest.raises(EnforcerError, match=f"the trial of {prebuilt} was ended by {number.name}"):
            native.ensure_built()
    try_by(monkeypatch, lambda library: None)
    assert native.ensure_built().path == prebuilt


def test_one_that_crashes_is_passed_over(prebuilt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try_by(monkeypatch, lambda library: trial.try_out(library) if library == prebuilt else None)
    monkeypatch.setattr(trial, "_TRY", "import os; os.abort()")
    assert native.ensure_built().origin == "built"


def test_none_for_this_version(prebuilt: Path, tried: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the next patch release: the layout of TensorFlow's classes may differ."""
    install(monkeypatch, Installed("2.20.1"))
    none = "no prebuilt library for TensorFlow 2.20.1 came with tfwave"
    with monkeypatch.context() as patch:
        no_compilers(patch)
        with pytest.raises(EnvironmentUnsupported, match=none):
            native.ensure_built()
    assert native.ensure_built().passed_over == none


def test_one_that_anybody_can_replace_is_refused(prebuilt: Path, tried: list[Path]) -> None:
    prebuilt.parent.chmod(0o777)
    with pytest.raises(EnforcerError, match=f"{prebuilt.parent} can be written by anybody"):
        native.ensure_built()


def test_the_installed_tensorflow_is_known_by_what_pip_recorded() -> None:
    installed = native._installed()
    assert installed
    assert installed.version == importlib.metadata.version(installed.name)
    assert "libtensorflow_framework" in (installed.read_text("RECORD") or "")
