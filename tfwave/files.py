"""Files: read if they are files, written whole or not at all, kept inside their directory; and their digests."""

import ctypes
import errno
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwave.errors import TfwaveError

if TYPE_CHECKING:
    from pydantic import ValidationError


LONGEST = 2**31 - 1
"""Bytes of a file that is read, all at once: protobuf's limit, and far beyond any file that is not protobuf."""

_AT_CWD = -100  # as in fcntl.h
_RENAME_EXCHANGE = 2  # as in linux/fs.h
_OTHER_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def read_file(path: str | Path) -> bytes:
    """The content of a plain file; a pipe or a device, which may never end, is not opened.

    Raises:
        OSError: it cannot be read, is no plain file, or is longer than `LONGEST`; the way out is in `strerror`.
    """
    found = os.stat(path)
    kind = _OTHER_KINDS.get(stat.S_IFMT(found.st_mode))
    if kind is not None:
        raise OSError(errno.EINVAL, f"it is {kind}, not a file: save what it gives in a file", str(path))
    if found.st_size > LONGEST:
        raise OSError(errno.EFBIG, f"it is {found.st_size:,} bytes long, and at most {LONGEST:,} are read")
    return Path(path).read_bytes()


def check_inside(directory: Path) -> None:
    """Refuse a directory that holds more than files and directories, and links to files in it.

    Other links lead out of it, round in a loop, or nowhere.

    Raises:
        TfwaveError: it does; names the first such link, device or pipe.
    """
    top = real_path(directory)
    for folder, folders, names in os.walk(directory):
        for path in [Path(folder, name) for name in sorted(folders + names)]:
            if path.is_symlink() and not (path.is_file() and top in real_path(path).parents):
                raise TfwaveError(
                    f"'{path}' is a link to '{path.readlink()}', not to a file in '{directory}': "
                    "copy the directory with cp -rL and give the copy"
                )
            if not (path.is_file() or path.is_dir()):
                raise TfwaveError(f"'{path}' is neither a file nor a directory: remove it from '{directory}'")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hex.

    Raises:
        OSError: as `read_file`.
    """
    return hashlib.sha256(read_file(path)).hexdigest()


def overlap(one: Path, other: Path) -> bool:
    """Whether two places are one, or one lies within the other; symbolic links are followed."""
    a, b = real_path(one), real_path(other)
    return a == b or a in b.parents or b in a.parents


def real_path(path: Path) -> Path:
    """Without symbolic links; `Path.resolve` would raise where they form a loop."""
    return Path(os.path.realpath(path))


def check_writable(path: Path) -> None:
    """Refuse a place for `write_whole`, as far as that can be known before there is anything to write.

    Raises:
        TfwaveError: the place cannot be written; names it, and the way out.
    """
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise TfwaveError(f"cannot write '{path}': it is a directory, name a file in it")
    if os.path.exists(path) and not os.path.isfile(path):
        return
    if not os.path.isdir(folder):
        raise TfwaveError(f"cannot write '{path}': there is no directory '{path.parent}', make it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise TfwaveError(
            f"cannot write '{path}': you may not write in '{path.parent}', choose another place"
        )


def write_whole(path: Path, data: bytes) -> None:
    """Write to a temporary name beside `path`, then rename: readers never see a part.

    A symbolic link is followed; a device or a pipe is written to as it is.

    Raises:
        TfwaveError: the place cannot be written; names it.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        target = real_path(path)
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
            temporary = Path(file.name)
            _fill(temporary, data, target)
    except OSError as error:
        raise TfwaveError(f"cannot write '{path}': {error.strerror}") from error


def _fill(temporary: Path, data: bytes, path: Path) -> None:
    try:
        temporary.write_bytes(data)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole_directory(path: Path) -> Generator[Path]:
    """A temporary directory that becomes `path` when the block ends well, and vanishes when it does not.

    An earlier directory at `path` is replaced only at the end, and stays if that fails.

    Raises:
        TfwaveError: the place cannot be written; names it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    except OSError as error:
        raise TfwaveError(f"cannot write '{path}': {error.strerror}") from error
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        _replace_directory(temporary, path)
    except OSError as error:
        raise TfwaveError(f"cannot write '{path}': {error.strerror}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace_directory(temporary: Path, path: Path) -> None:
    """So that at no time nothing is at `path`, where the file system can do that; what was there goes after."""
    if not path.is_dir():
        temporary.replace(path)
    elif not _exchange(temporary, path):
        _replace_in_turn(temporary, path)


def _exchange(one: Path, other: Path) -> bool:
    """Whether two paths have changed places: not all file systems can do that."""
    rename: Any = getattr(ctypes.CDLL(None), "renameat2", None)  # since glibc 2.28
    paths = os.fsencode(one), os.fsencode(other)
    return rename is not None and rename(_AT_CWD, paths[0], _AT_CWD, paths[1], _RENAME_EXCHANGE) == 0


def _replace_in_turn(temporary: Path, path: Path) -> None:
    old = temporary.with_name(f"{temporary.name}.old")
    path.replace(old)
    try:
        temporary.replace(path)
    except OSError:
        old.replace(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _umask() -> int:
    """As the kernel tells it: to ask by setting another would open, for a moment, what other threads make."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("Umask:")[2].split()[0], 8)


def first_fault(error: "ValidationError") -> str:
    """Where a document first breaks its schema, and how."""
    fault = error.errors(include_url=False)[0]
    where = " -> ".join(f"'{part}'" for part in fault["loc"])
    what = " ".join(fault["msg"].split())
    return f"{where}: {what}" if where else what
