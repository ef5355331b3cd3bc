"""Building and caching the native library, with a library that needs no TensorFlow."""

import ctypes
import os
import stat
import subprocess
import threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from tfwave.errors import EnforcerError, EnvironmentUnsupported
from tfwave.runtime import compiler, native
from tfwave.runtime.compiler import Compiler, Toolchain, find_compiler
from tfwave.runtime.native import Library

UNREADABLE = "/" + "x" * 300
"""As a folder that nobody lets this process look into: to ask what is there fails."""


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return prepare(tmp_path, monkeypatch)


def prepare(root: Path, patch: pytest.MonkeyPatch) -> Path:
    folder = root / "sources"
    folder.mkdir(exist_ok=True)
    (folder / "one.cc").write_text('extern "C" int one() { return 1; }\n')
    (folder / "two.cc").write_text('extern "C" int two() { return 2; }\n')
    _point_at(root, patch)
    return folder


def _point_at(root: Path, patch: pytest.MonkeyPatch) -> None:
    folder = root / "sources"
    patch.setattr(native, "_SOURCES", folder)
    patch.setattr(native, "toolchain", lambda compiler, sources: Toolchain(compiler, ("-fPIC",), ()))
    patch.setattr(native, "try_out", lambda library: None)
    patch.setenv(native.CACHE_VARIABLE, str(root / "cache"))


def _build_elsewhere(root: Path) -> int:
    built: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        _point_at(root, patch)
        native.ensure_built(lambda done, total, what: built.append(what))
    return len(built)


def test_it_is_built_once_and_says_how_far_it_is(sources: Path, tmp_path: Path) -> None:
    said: list[tuple[int, int, str]] = []
    path = native.ensure_built(lambda *what: said.append(what)).path
    assert path.is_relative_to(tmp_path / "cache")
    assert [(done, total) for done, total, _ in said] == [(1, 3), (2, 3), (3, 3)]
    assert {what for *_, what in said} == {"one.cc", "two.cc", path.name}
    assert ctypes.CDLL(str(path)).two() == 2
    assert native.ensure_built(lambda *what: said.append(what)).path == path
    assert len(said) == 3
    assert not list(path.parent.glob("*.o"))


def test_where_nobody_asks_how_far_it_is_the_log_tells_that_it_is_built(
    sources: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = native.ensure_built().path.parent
    native.ensure_built()
    (told,) = caplog.messages
    assert told == f"tfwave: compiling the native library into '{folder}', once: that can take minutes"


@pytest.mark.parametrize(("cores", "quota"), [({7}, "max 100000"), (set(range(64)), "150000 100000")])
def test_as_many_are_compiled_at_once_as_the_process_has_cores(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: set[int], quota: str
) -> None:
    """A task of Slurm's, or a container, may have one of 64, and the memory for one compiler."""
    run, threads = compiler._run, set[int]()

    def noted(command: list[str], log: Path) -> None:
        if "-c" in command:
            threads.add(threading.get_ident())
        run(command, log)

    monkeypatch.setattr(compiler, "_run", noted)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores)
    monkeypatch.setattr(compiler, "_QUOTA", tmp_path / "cpu.max")
    (tmp_path / "cpu.max").write_text(f"{quota}\n")
    native.ensure_built()
    assert len(threads) == 1


def test_processes_that_start_together_build_once(sources: Path, tmp_path: Path) -> None:
    with ProcessPoolExecutor(3) as pool:
        assert sorted(pool.map(_build_elsewhere, [tmp_path] * 3)) == [0, 0, 3]


def test_a_corrupt_library_is_built_again(sources: Path) -> None:
    path = native.ensure_built().path
    path.write_bytes(path.read_bytes()[:100])
    assert native.ensure_built().path == path
    assert ctypes.CDLL(str(path)).one() == 1


def test_other_sources_make_another_library(sources: Path) -> None:
    first = native.ensure_built().path
    (sources / "two.cc").write_text('extern "C" int two() { return 3; }\n')
    assert native.ensure_built().path != first


def test_a_compiler_error_is_named_with_its_log(sources: Path) -> None:
    (sources / "two.cc").write_text("int two() { return nothing; }\n")
    with pytest.raises(EnforcerError, match=r"two\.cc.*error.*nothing.*full log: ") as caught:
        native.ensure_built()
    log = Path(str(caught.value).partition("full log: ")[2].rstrip(")"))
    assert "nothing" in log.read_text()


def test_a_tensorflow_that_takes_too_long_to_import_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(command: list[str], timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(EnforcerError, match="TensorFlow has not been imported in 300 s"):
        compiler.toolchain(Compiler("c++", ""), Path())


@pytest.mark.parametrize("two", ["int two() { return nothing; }\n", 'extern "C" int one() { return 2; }\n'])
def test_a_build_that_fails_leaves_its_log_alone(sources: Path, tmp_path: Path, two: str) -> None:
    """Whether compiling or linking fails, in the folder that the next build will use."""
    (sources / "two.cc").write_text(two)
    with pytest.raises(EnforcerError):
        native.ensure_built()
    assert {path.name for path in tmp_path.glob("cache/*/*")} == {"build.log", ".lock"}


def test_what_does_not_work_is_not_kept(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(library: Path) -> None:
        assert ctypes.CDLL(str(library)).one() == 1
        raise EnvironmentUnsupported("not with this TensorFlow")

    with monkeypatch.context() as patch:
        patch.setattr(native, "try_out", fail)
        with pytest.raises(EnvironmentUnsupported, match="not with this"):
            native.ensure_built()
    assert {path.name for path in tmp_path.glob("cache/*/*")} == {"build.log", ".lock"}
    assert native.find_built() is None
    built = native.ensure_built()
    assert native.find_built() == Library(built.path, "cached", built.passed_over)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_library_that_anybody_can_replace_is_refused(sources: Path, level: int) -> None:
    path = native.ensure_built().path
    opened = [path, *path.parents][level]
    opened.chmod(0o777)
    with pytest.raises(EnforcerError, match=f"{opened} can be written by anybody"):
        native.ensure_built()
    opened.chmod(0o1777 if level else 0o775)
    assert native.ensure_built().path == path


@pytest.mark.parametrize("level", [0, 1])
def test_none_is_built_where_anybody_could_replace_it(sources: Path, level: int) -> None:
    folder = native._cache_folder()
    folder.mkdir(parents=True)
    opened = [folder, folder.parent][level]
    opened.chmod(0o777)
    with pytest.raises(EnforcerError, match=f"{opened} can be written by anybody"):
        native.ensure_built()
    assert not list(folder.iterdir())


@pytest.mark.parametrize("level", [0, 1])
def test_a_library_of_another_user_is_refused(
    sources: Path, monkeypatch: pytest.MonkeyPatch, level: int
) -> None:
    """In a folder such as /tmp whoever comes first makes the folder of the library, or one above it."""
    path = native.ensure_built().path
    made = path.parents[level]
    made.parent.chmod(0o1777)
    assert native.ensure_built().path == path
    monkeypatch.setattr(native, "_trusted", lambda: frozenset({made.stat().st_uid + 1}))
    with pytest.raises(EnforcerError, match=f"{made} is another user's"):
        native.ensure_built()


def test_a_link_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it leads to, nobody else can make anything."""
    there = Path("/usr/bin")
    monkeypatch.setattr(native, "_trusted", frozenset[int])
    native._refuse_strangers(there)
    tmp_path.chmod(0o1777)
    (link := tmp_path / "link").symlink_to(there)
    with pytest.raises(EnforcerError, match=f"{link} is another user's"):
        native._refuse_strangers(link)


def test_no_compiler(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        no_compilers(patch)
        with pytest.raises(EnvironmentUnsupported, match="install g\\+\\+"):
            native.ensure_built()
    path = native.ensure_built().path
    no_compilers(monkeypatch)
    assert native.ensure_built().path == path
    (sources / "two.cc").write_text('extern "C" int two() { return 3; }\n')
    with pytest.raises(EnvironmentUnsupported, match="install g\\+\\+"):
        native.ensure_built()


def no_compilers(patch: pytest.MonkeyPatch) -> None:
    patch.setenv("PATH", "")
    patch.delenv("CXX", raising=False)


def test_a_library_of_any_compiler_will_do(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = native.ensure_built()
    (compiler := tmp_path / "my-c++").symlink_to(find_compiler().path)
    monkeypatch.setenv("CXX", str(compiler))
    assert native.ensure_built() == Library(built.path, "cached", built.passed_over)


def test_the_compiler_of_the_environment_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "my-c++"
    compiler.write_text("#!/bin/sh\necho mine 1.0\n")
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(compiler))
    assert find_compiler() == Compiler(str(compiler), "mine 1.0")


@pytest.mark.parametrize("version", ["2.18.1", "2.22.0", "3.0.0", None])
def test_other_versions_are_refused(version: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = version and type("Installed", (), {"version": version})
    monkeypatch.setattr(native, "_installed", lambda: installed)
    with pytest.raises(EnvironmentUnsupported, match=version or "not installed"):
        native.tensorflow_version()


@pytest.mark.parametrize("cache", ["/proc/tfwave", UNREADABLE])
def test_a_cache_that_cannot_be_written(sources: Path, monkeypatch: pytest.MonkeyPatch, cache: str) -> None:
    monkeypatch.setenv(native.CACHE_VARIABLE, cache)
    with pytest.raises(EnforcerError, match=native.CACHE_VARIABLE):
        native.ensure_built()
