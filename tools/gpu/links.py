"""CUDA's libraries under the names by which TensorFlow opens them.

TensorFlow opens CUDA 12 by file name. Where only another release is there, as in the packages of PyTorch and JAX, a
link by the wanted name leads to it: what TensorFlow asks of a library, it looks up by symbol. Whether that does is
for the first part to find out.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

DRIVER = "libcuda.so.1"
"""Comes with the driver: never linked."""
LIBRARIES = (
    "libcudart.so.12",
    "libcublas.so.12",
    "libcublasLt.so.12",
    "libcufft.so.11",
    "libcusolver.so.11",
    "libcusparse.so.12",
    "libcudnn.so.9",
    "libnccl.so.2",
    "libcupti.so.12",
)
COMPANIONS = ("libnvJitLink.so", "libnvrtc.so")
"""What those open in turn, from where they lie, which a link hides from them."""
PROFILER = "libcupti.so.12"
TAKEN_OUT = ".taken-out"
"""Behind the name of a link that did harm."""
SYSTEM = ("/usr/local", "/opt")
"""Where CUDA is installed on a machine, in folders of its name."""
OPEN_SECONDS = 120.0
_OPEN = """
import ctypes, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        ctypes.CDLL(name)
        found[name] = ""
    except OSError as error:
        found[name] = str(error)
print(json.dumps(found))
"""


def stem_of(name: str) -> str:
    """Of a library's name, what is before its version."""
    return name.partition(".so")[0] + ".so"


def libraries_in(folders: Iterable[Path]) -> dict[str, Path]:
    """The libraries and companions, whatever their version, by file name; the first of equal names."""
    stems = {*COMPANIONS, *(stem_of(name) for name in LIBRARIES)}
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.rglob("lib*.so*")):
            if stem_of(path.name) in stems and path.exists():
                found.setdefault(path.name, path)
    return found


def cuda_folders(packages: Iterable[str]) -> Iterator[Path]:
    """Where libraries of CUDA may be: in packages of Python (folders of `sys.path`), and on the machine."""
    for package in packages:
        if (folder := Path(package, "nvidia")).is_dir():
            yield folder
    for root in SYSTEM:
        yield from sorted(Path(root).glob("cuda*"))


def wanted_links(found: Mapping[str, Path]) -> dict[str, Path]:
    """For each library that is not there by its name, the latest of another version, if there is one."""
    links: dict[str, Path] = {}
    for name in LIBRARIES:
        others = [path for other, path in found.items() if stem_of(other) == stem_of(name)]
        if name not in found and others:
            links[name] = max(others, key=lambda path: (_version(path.name), path.name))
    return links


def make_links(folder: Path, links: Mapping[str, Path]) -> dict[str, Path]:
    """Put the links into a folder, in place of those that were there, but for what was taken out; those."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if not old.name.endswith(TAKEN_OUT):
            old.unlink()
    made = {name: path for name, path in links.items() if not (folder / f"{name}{TAKEN_OUT}").exists()}
    for name, path in made.items():
        (folder / name).symlink_to(path.resolve())
    return made


def take_out(folder: Path, name: str) -> bool:
    """Take a link out for good; whether there was one."""
    link = folder / name
    if not link.is_symlink():
        return False
    link.rename(folder / f"{name}{TAKEN_OUT}")
    return True


def search_path(folder: Path, found: Mapping[str, Path], before: str = "") -> str:
    """LD_LIBRARY_PATH: the links, the folders of all libraries, for those that they open in turn, and the rest."""
    folders = dict.fromkeys(str(path.parent) for path in found.values())
    return os.pathsep.join(filter(None, [str(folder), *folders, before]))


def opened(python: str, names: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Of each library why it does not open in a process with such variables; empty if it does."""
    command = [python, "-c", _OPEN, *names]
    try:
        done = subprocess.run(
            command, env=dict(environment), capture_output=True, text=True, timeout=OPEN_SECONDS, check=False
        )
        return json.loads(done.stdout)
    except (subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        return dict.fromkeys(names, f"the process that opened them failed: {error}")


def _version(name: str) -> tuple[int, ...]:
    """As numbers: libcufft.so.12 comes after libcufft.so.9."""
    return tuple(int(number) for number in re.findall(r"\d+", name.partition(".so")[2]))
