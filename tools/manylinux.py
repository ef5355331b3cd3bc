"""The platform tag that a native library honestly has, from the versions of the symbols that it needs."""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

_NEEDED = re.compile(r"Name: (GLIBC|GLIBCXX)_([0-9.]+)")
_GLIBC_OF_GLIBCXX = (
    ((3, 4, 19), 17),
    ((3, 4, 22), 24),
    ((3, 4, 24), 27),
    ((3, 4, 28), 31),
    ((3, 4, 29), 34),
    ((3, 4, 30), 35),
    ((3, 4, 33), 39),
)
"""The first glibc 2.x whose distributions have libstdc++ up to that version: the policies of auditwheel."""


def platform_tag(libraries: Iterable[Path]) -> str:
    """Such as ``manylinux_2_35_x86_64``: the oldest systems on which all the libraries load.

    Raises:
        SystemExit: a library needs a libstdc++ that no tag speaks of.
    """
    return f"manylinux_2_{max(map(_minor, libraries))}_x86_64"


def _minor(library: Path) -> int:
    said = subprocess.run(
        ["readelf", "--version-info", "--wide", str(library)], capture_output=True, text=True, check=True
    ).stdout
    needed = [(name, tuple(map(int, version.split(".")))) for name, version in _NEEDED.findall(said)]
    glibc = max(version for name, version in needed if name == "GLIBC")
    glibcxx = max(version for name, version in needed if name == "GLIBCXX")
    for most, minor in _GLIBC_OF_GLIBCXX:
        if glibcxx <= most:
            return max(glibc[1], minor)
    raise SystemExit(
        f"{library} needs GLIBCXX_{'.'.join(map(str, glibcxx))}: take an older compiler, or add it here"
    )
