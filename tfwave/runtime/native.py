"""The native library for the installed TensorFlow: found or built, then loaded into this process.

It is, in this order,

1. prebuilt: one that came with the package for exactly this version of TensorFlow;
2. cached: one that was built before, whichever compiler did;
3. built into the cache (20 s to some minutes), which takes a C++ compiler.

What came with the package and what was built are tried once with the TensorFlow that is installed, in a process of
their own (`trial`), before they are loaded; a prebuilt one that is damaged or fails is passed over.
"""

import ctypes
import hashlib
import importlib.metadata
import logging
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from tfwave.errors import EnforcerError, EnvironmentUnsupported, TfwaveError
from tfwave.files import sha256_of, write_whole
from tfwave.runtime.compiler import Compiler, Progress, build, find_compiler, toolchain
from tfwave.runtime.trial import try_out

SUPPORTED = ((2, 19), (2, 21))
CACHE_VARIABLE = "TFWAVE_CACHE_DIR"
LOCK_SECONDS = 900.0

_SOURCES = Path(__file__).parent.parent / "native"
_PREBUILT = "prebuilt"
_LIBRARY = "libtfwave.so"
_DIGEST = "libtfwave.sha256"
_VERDICT = "prebuilt.verdict"
_DISTRIBUTIONS = ("tensorflow-cpu", "tensorflow", "tensorflow-intel", "tensorflow-rocm")
_MESSAGE_BYTES = 4096

_log = logging.getLogger("tfwave")


@dataclass(frozen=True)
class Library:
    """A library that fits the installed TensorFlow, and why it is this one."""

    path: Path
    origin: Literal["prebuilt", "cached", "built"]
    passed_over: str = ""
    """Why it is not a prebuilt one; empty if it is."""

    def __str__(self) -> str:
        return f"{self.origin}: {self.path}" + (f" ({self.passed_over})" if self.passed_over else "")


def tensorflow_version() -> str:
    """The installed TensorFlow's version, without importing it.

    Raises:
        EnvironmentUnsupported: there is none, or tfwave does not support it.
    """
    low, high = (".".join(map(str, bound)) for bound in SUPPORTED)
    installed = _installed()
    if installed is None:
        raise EnvironmentUnsupported(f"TensorFlow is not installed: pip install 'tensorflow-cpu=={high}.*'")
    version = installed.version
    if not SUPPORTED[0] <= tuple(map(int, version.split(".")[:2])) <= SUPPORTED[1]:
        raise EnvironmentUnsupported(
            f"TensorFlow {version} is not supported: install {low} to {high}, or use another enforcer"
        )
    return version


def ensure_built(progress: Progress | None = None) -> Library:
    """The library for the installed TensorFlow; compiled if there is none, which the log tells without `progress`.

    Processes that start together build once: the others wait, at most `LOCK_SECONDS`.

    Raises:
        EnvironmentUnsupported: no supported TensorFlow, or neither a library nor a compiler; or this TensorFlow
            does not tell the library what it needs to know (see `trial`).
        EnforcerError: the compiler failed (names the full log), another process holds the lock too long, or anybody
            can put another library in its place.
    """
    return find_built() or _build_once(progress)


def find_built() -> Library | None:
    """The library, if it came with the package or is in the cache; no compiler is asked for.

    Raises:
        EnvironmentUnsupported: no supported TensorFlow.
        EnforcerError: anybody can put another library in its place.
    """
    folder, prebuilt = _cache_folder(), _prebuilt_folder()
    fault = _fault(prebuilt, folder)
    if not fault:
        return _guarded(Library(prebuilt / _LIBRARY, "prebuilt"))
    if _digest_if_intact(folder):
        return _guarded(Library(folder / _LIBRARY, "cached", fault))
    return None


@cache
def load() -> ctypes.CDLL:
    """The library, built if need be, loaded into this process and registered with TensorFlow.

    Raises:
        EnvironmentUnsupported, EnforcerError: as `ensure_built`, or TensorFlow refuses it.
    """
    path = ensure_built().path
    tensorflow: Any = __import__("tensorflow")
    try:
        tensorflow.load_library(str(path))
    except tensorflow.errors.OpError as err:
        why = str(err).partition("\n")[0]
        raise EnforcerError(
            f"TensorFlow does not load {path} ({why}): remove {path.parent} to build it again"
        ) from err
    return ctypes.CDLL(str(path))


@cache
def load_ops() -> Any:
    """The library's ops, as functions of a module.

    Raises:
        EnvironmentUnsupported, EnforcerError: as `load`.
    """
    path = load()._name  # pyright: ignore[reportPrivateUsage]  # as ctypes documents it
    return __import__("tensorflow").load_op_library(path)


def call(library: ctypes.CDLL, name: str, *arguments: Any) -> None:
    """Call a function of the library that gives 0, or else says why not.

    Raises:
        EnforcerError: with what it says.
    """
    message = ctypes.create_string_buffer(_MESSAGE_BYTES)
    if getattr(library, name)(*arguments, message, ctypes.c_int64(_MESSAGE_BYTES)) != 0:
        raise EnforcerError(message.value.decode(errors="replace"))


def keep_whole(library: Path, folder: Path) -> None:
    """Move a library to its folder, with the digest by which one that is damaged is told."""
    (folder / _DIGEST).write_text(sha256_of(library))
    library.rename(folder / _LIBRARY)


def _fault(prebuilt: Path, cached: Path) -> str:
    """Why the prebuilt library is passed over; empty if it is not."""
    which = f"prebuilt library for TensorFlow {tensorflow_version()}"
    if not (prebuilt / _LIBRARY).is_file():
        return f"no {which} came with tfwave"
    digest = _digest_if_intact(prebuilt)
    if digest is None:
        return f"the {which} is damaged"
    return _verdict(prebuilt / _LIBRARY, digest, cached / _VERDICT)


def _verdict(library: Path, digest: str, kept: Path) -> str:
    """What a trial of the library with this digest says, or said before; empty if all is well."""
    with suppress(OSError):  # a cache of somebody else's, such as root's, cannot be looked into
        judged, _, said = kept.read_text().partition("\n")
        if judged == digest:
            return said
    why = _tried(library, digest)
    with suppress(OSError, TfwaveError):  # where nothing can be kept, each process tries it
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, f"{digest}\n{why}".encode())
    return why


@cache
def _tried(library: Path, digest: str) -> str:
    """What a trial says of a library with this digest."""
    del digest
    try:
        try_out(library)
    except EnvironmentUnsupported as err:
        return f"prebuilt: {err}"
    return ""


def _build_once(progress: Progress | None) -> Library:
    from filelock import FileLock, Timeout

    folder = _cache_folder()
    fault = _fault(_prebuilt_folder(), folder)
    try:
        compiler = find_compiler()
    except EnvironmentUnsupported as err:
        raise EnvironmentUnsupported(f"{fault}, none is in {folder}, and {err}") from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _refuse_open(folder)
        _refuse_strangers(folder)
        with FileLock(folder / ".lock", timeout=LOCK_SECONDS):
            if not _digest_if_intact(folder):
                _build(folder, compiler, progress or _announced(folder))
    except Timeout as err:
        raise EnforcerError(
            f"another process has built {folder} for over {LOCK_SECONDS:.0f} s: end it or remove the folder"
        ) from err
    except OSError as err:
        raise EnforcerError(
            f"cannot write {folder} ({err.strerror}): set {CACHE_VARIABLE} to a writable folder"
        ) from err
    return _guarded(Library(folder / _LIBRARY, "built", fault))


def _build(folder: Path, compiler: Compiler, progress: Progress) -> None:
    sources = _sources(".cc")
    linked = folder / f"{_LIBRARY}.{os.getpid()}"
    try:
        build(toolchain(compiler, _SOURCES), sources, linked, progress)
        try_out(linked)
        keep_whole(linked, folder)
    finally:
        linked.unlink(missing_ok=True)
    progress(len(sources) + 1, len(sources) + 1, _LIBRARY)


def _announced(folder: Path) -> Progress:
    """Of which nothing is heard but its beginning."""
    _log.warning("tfwave: compiling the native library into '%s', once: that can take minutes", folder)
    return lambda done, total, what: None


def _installed() -> importlib.metadata.Distribution | None:
    for name in _DISTRIBUTIONS:
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.distribution(name)
    return None


def _prebuilt_folder() -> Path:
    return _SOURCES / _PREBUILT / tensorflow_version()


def _cache_folder() -> Path:
    """Another one for other sources, and for another wheel of the same version of TensorFlow."""
    import platformdirs

    version, installed = tensorflow_version(), _installed()
    made_of = hashlib.sha256()
    for source in _sources(".h") + _sources(".cc"):
        name = str(source.relative_to(_SOURCES))
        made_of.update(name.encode() + b"\0" + source.read_bytes() + b"\0")
    # Its scripts bear the path of the environment.
    record = (installed and installed.read_text("RECORD")) or ""
    made_of.update("\n".join(line for line in record.splitlines() if "/libtensorflow" in line).encode())
    root = os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("tfwave")
    return Path(root) / f"tensorflow-{version}-{made_of.hexdigest()[:16]}"


def _sources(suffix: str) -> list[Path]:
    return sorted(_SOURCES.rglob(f"*{suffix}"))


def _digest_if_intact(folder: Path) -> str | None:
    """The library's digest, if it is there and whole: loading half of one would end the process."""
    with suppress(OSError):
        digest = sha256_of(folder / _LIBRARY)
        if digest == (folder / _DIGEST).read_text():
            return digest
    return None


def _guarded(library: Library) -> Library:
    _refuse_open(library.path.parent, library.path)
    if library.origin != "prebuilt":
        _refuse_strangers(library.path.parent)
    return library


def _refuse_open(folder: Path, *files: Path) -> None:
    for path in (*files, folder, folder.parent):
        mode = path.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise EnforcerError(
                f"{path} can be written by anybody, who could run code in this process: chmod o-w '{path}', or set "
                f"{CACHE_VARIABLE} to a folder of your own"
            )


def _refuse_strangers(folder: Path) -> None:
    """Where anybody can make folders, as in /tmp, somebody else may have made this one, or one above, or a link."""
    for path in (folder.absolute(), folder.resolve()):
        for inner, outer in pairwise((path, *path.parents)):
            if outer.stat().st_mode & stat.S_IWOTH and inner.lstat().st_uid not in _trusted():
                raise EnforcerError(
                    f"{inner} is another user's, who could run code in this process: set {CACHE_VARIABLE} to a "
                    "folder of your own"
                )


def _trusted() -> frozenset[int]:
    return frozenset({0, os.geteuid()})
