"""The native library: built once against the user's own TensorFlow, cached, loaded into this process."""

import ctypes
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tfwave.errors import EnforcerError, EnvironmentUnsupported
from tfwave.files import sha256_of
from tfwave.runtime.trial import try_out

Progress = Callable[[int, int, str], None]
"""It is called with (files done, files in all, the one just done)."""

SUPPORTED = ((2, 19), (2, 21))
CACHE_VARIABLE = "TFWAVE_CACHE_DIR"
LOCK_SECONDS = 600.0

_SOURCES = Path(__file__).parent.parent / "native"
_LIBRARY = "libtfwave.so"
_DIGEST = "libtfwave.sha256"
_LOG = "build.log"
_ASK_SECONDS = 120
_ASK_FLAGS = """
import json
from tensorflow import sysconfig
print(json.dumps([sysconfig.get_compile_flags(), sysconfig.get_link_flags()]))
"""
_DISTRIBUTIONS = ("tensorflow-cpu", "tensorflow", "tensorflow-intel", "tensorflow-rocm")


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler and what it says of itself."""

    path: str
    version: str


@dataclass(frozen=True)
class _Toolchain:
    compiler: Compiler
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]


def tensorflow_version() -> str:
    """The installed TensorFlow's version, without importing it.

    Raises:
        EnvironmentUnsupported: there is none, or tfwave does not support it.
    """
    version = next(filter(None, map(_version_of, _DISTRIBUTIONS)), None)
    low, high = (".".join(map(str, bound)) for bound in SUPPORTED)
    if version is None:
        raise EnvironmentUnsupported(f"TensorFlow is not installed: pip install 'tensorflow-cpu=={high}.*'")
    if not SUPPORTED[0] <= tuple(map(int, version.split(".")[:2])) <= SUPPORTED[1]:
        raise EnvironmentUnsupported(
            f"TensorFlow {version} is not supported: install {low} to {high}, or use another enforcer"
        )
    return version


def find_compiler() -> Compiler:
    """The C++ compiler: $CXX, g++ or clang++.

    Raises:
        EnvironmentUnsupported: none is there.
    """
    for name in filter(None, (os.environ.get("CXX"), "g++", "clang++")):
        path = shutil.which(name)
        if path:
            said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
            return Compiler(path, said.partition("\n")[0])
    raise EnvironmentUnsupported(
        "no C++ compiler: install g++ (Debian: apt install g++), set CXX, or order by the proxy, which is slower"
    )


def ensure_built(progress: Progress | None = None) -> Path:
    """The path of the library for this TensorFlow and compiler; compiles it (about 20 s) if it is not cached.

    Without a compiler, one that any compiler has built for this TensorFlow will do. Processes that start together
    build once: the others wait, at most `LOCK_SECONDS`.

    Raises:
        EnvironmentUnsupported: no supported TensorFlow, or neither a compiler nor a library in the cache; or this
            TensorFlow does not tell the library what it needs to know (see `trial`).
        EnforcerError: the compiler failed (names the full log), or another process holds the lock too long.
    """
    built = find_built()
    return built if built else _build_once(progress or _silent)


def find_built() -> Path | None:
    """The path of the library, if it is in the cache: by this compiler or, where there is none, by any.

    Raises:
        EnvironmentUnsupported: no supported TensorFlow.
        EnforcerError: anybody can put another library in its place.
    """
    version = tensorflow_version()
    try:
        folders = [_cache_folder(version, find_compiler())]
    except EnvironmentUnsupported:
        of_any = _cache_folder(version, Compiler("", ""))
        folders = sorted(of_any.parent.glob(f"{of_any.name.rpartition('-')[0]}-*"))
    library = next((folder / _LIBRARY for folder in folders if _is_intact(folder)), None)
    if library:
        _refuse_open_to_all(library)
    return library


def _build_once(progress: Progress) -> Path:
    from filelock import FileLock, Timeout

    compiler = find_compiler()
    folder = _cache_folder(tensorflow_version(), compiler)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock", timeout=LOCK_SECONDS):
            if not _is_intact(folder):
                _build(folder, _toolchain(compiler), progress)
    except Timeout as err:
        raise EnforcerError(
            f"another process has built {folder} for over {LOCK_SECONDS:.0f} s: end it or remove the folder"
        ) from err
    except OSError as err:
        raise EnforcerError(
            f"cannot write {folder} ({err.strerror}): set {CACHE_VARIABLE} to a writable folder"
        ) from err
    return folder / _LIBRARY


@cache
def load() -> ctypes.CDLL:
    """The library, built if need be, loaded into this process and registered with TensorFlow.

    Raises:
        EnvironmentUnsupported, EnforcerError: as `ensure_built`, or TensorFlow refuses it.
    """
    path = ensure_built()
    tensorflow: Any = __import__("tensorflow")
    try:
        tensorflow.load_library(str(path))
    except tensorflow.errors.OpError as err:
        why = str(err).partition("\n")[0]
        raise EnforcerError(
            f"TensorFlow does not load {path} ({why}): remove {path.parent} to build it again"
        ) from err
    return ctypes.CDLL(str(path))


def _silent(done: int, total: int, what: str) -> None:
    del done, total, what


def _version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cache_folder(version: str, compiler: Compiler) -> Path:
    import platformdirs

    sources = hashlib.sha256()
    for source in _sources("*.h") + _sources("*.cc"):
        sources.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    compiled_by = hashlib.sha256(f"{compiler.path}\n{compiler.version}\n".encode())
    root = os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("tfwave")
    return Path(root) / f"tensorflow-{version}-{sources.hexdigest()[:16]}-{compiled_by.hexdigest()[:8]}"


def _sources(pattern: str) -> list[Path]:
    return sorted(_SOURCES.glob(pattern))


def _is_intact(folder: Path) -> bool:
    """Whether the library is whole: loading half of one would end the process."""
    library, digest = folder / _LIBRARY, folder / _DIGEST
    return library.is_file() and digest.is_file() and digest.read_text() == sha256_of(library)


def _refuse_open_to_all(library: Path) -> None:
    for path in (library, library.parent, library.parent.parent):
        mode = path.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise EnforcerError(
                f"{path} can be written by anybody, who could run code in this process: chmod o-w '{path}', or set "
                f"{CACHE_VARIABLE} to a folder of your own"
            )


def _toolchain(compiler: Compiler) -> _Toolchain:
    compile_flags, link_flags = _tensorflow_flags()
    # What TensorFlow's headers are warned of is not ours to mend.
    compile_flags = [re.sub("^-I", "-isystem", flag) for flag in compile_flags]
    # The layout of TensorFlow's Graph depends on NDEBUG, which get_compile_flags leaves out.
    compile_flags += ["-DNDEBUG", "-Wall", "-Wextra", "-O2", "-fPIC"]
    return _Toolchain(compiler, tuple(compile_flags), tuple(link_flags))


def _tensorflow_flags() -> tuple[list[str], list[str]]:
    """Asked of a process of its own: TensorFlow greets on standard error, which is the caller's."""
    done = subprocess.run(
        [sys.executable, "-c", _ASK_FLAGS], capture_output=True, text=True, timeout=_ASK_SECONDS, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise EnvironmentUnsupported(f"TensorFlow does not import ({last}): install it again")
    compile_flags, link_flags = json.loads(done.stdout.splitlines()[-1])
    return compile_flags, link_flags


def _build(folder: Path, tools: _Toolchain, progress: Progress) -> None:
    sources = _sources("*.cc")
    total = len(sources) + 1
    objects = [folder / f"{source.stem}.o" for source in sources]
    log = folder / _LOG
    log.write_text("")
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        jobs = {
            pool.submit(_run, [*_compile(tools), "-c", str(s), "-o", str(o)], log): s.name
            for s, o in zip(sources, objects, strict=True)
        }
        for done, job in enumerate(as_completed(jobs), 1):
            job.result()
            progress(done, total, jobs[job])
    linked = folder / f"{_LIBRARY}.{os.getpid()}"
    _run([tools.compiler.path, "-shared", "-o", str(linked), *map(str, objects), *tools.link_flags], log)
    try_out(linked)
    (folder / _DIGEST).write_text(sha256_of(linked))
    linked.rename(folder / _LIBRARY)
    for path in objects:
        path.unlink()
    progress(total, total, _LIBRARY)


def _compile(tools: _Toolchain) -> list[str]:
    return [tools.compiler.path, *tools.compile_flags]


def _run(command: list[str], log: Path) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    with log.open("a") as out:
        out.write(" ".join(command) + "\n" + result.stdout + result.stderr)
    if result.returncode == 0:
        return
    lines = result.stderr.splitlines() or [f"exit code {result.returncode}"]
    first = next((line for line in lines if "error:" in line), lines[0])
    raise EnforcerError(f"building the native library failed: {first.strip()} (full log: {log})")
