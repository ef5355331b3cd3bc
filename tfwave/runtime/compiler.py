"""The native library, compiled from its sources against the installed TensorFlow."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tfwave.errors import EnforcerError, EnvironmentUnsupported
from tfwave.runtime.own_process import run_apart

Progress = Callable[[int, int, str], None]
"""It is called with (files done, files in all, the one just done)."""

LOG = "build.log"

_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # microseconds of work, and in which time
_ASK_FLAGS = """
import json
from tensorflow import sysconfig
print(json.dumps([sysconfig.get_compile_flags(), sysconfig.get_link_flags()]))
"""
_INCLUDE = re.compile("^-I")


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler and what it says of itself."""

    path: str
    version: str


@dataclass(frozen=True)
class Toolchain:
    """A compiler, and the flags that TensorFlow's headers and library take."""

    compiler: Compiler
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]

    def compile_command(self) -> list[str]:
        """The command line that compiles, but for its files."""
        return [self.compiler.path, *self.compile_flags]


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


def toolchain(compiler: Compiler, sources: Path) -> Toolchain:
    """What compiles the sources in a folder against the installed TensorFlow.

    Raises:
        EnvironmentUnsupported: TensorFlow does not import.
        EnforcerError: it does not do so in five minutes.
    """
    asked, link_flags = _tensorflow_flags()
    # What TensorFlow's headers are warned of is not ours to mend.
    flags = [_INCLUDE.sub("-isystem", flag) for flag in asked]
    # The layout of TensorFlow's Graph depends on NDEBUG, which get_compile_flags leaves out.
    flags += ["-DNDEBUG", "-Wall", "-Wextra", "-O2", "-fPIC", f"-I{sources}"]
    # The library names no folder of the machine that built it, though the compiler may look behind a link.
    places = [Path(_INCLUDE.sub("", flag)) for flag in asked if _INCLUDE.match(flag)]
    named = dict.fromkeys(path for place in (*places, sources) for path in (place, place.resolve()))
    flags += [f"-ffile-prefix-map={path}=." for path in named]
    return Toolchain(compiler, tuple(flags), tuple(link_flags))


def build(tools: Toolchain, sources: Sequence[Path], library: Path, progress: Progress) -> None:
    """Compile sources at the same time, and link them; beside the library lies the log, and nothing else.

    Raises:
        EnforcerError: the compiler failed (names the full log).
    """
    objects = [library.parent / f"{source.stem}.o" for source in sources]
    log = library.parent / LOG
    log.write_text("")
    try:
        _compile_all(tools, dict(zip(sources, objects, strict=True)), log, progress)
        _run([tools.compiler.path, "-shared", "-o", str(library), *map(str, objects), *tools.link_flags], log)
    finally:
        for path in objects:
            path.unlink(missing_ok=True)


def _compile_all(tools: Toolchain, objects: Mapping[Path, Path], log: Path, progress: Progress) -> None:
    """Make of each source its object, one on each core of this process; behind a failure no other is begun."""
    with ThreadPoolExecutor(_cores()) as pool:
        jobs = {
            pool.submit(_run, [*tools.compile_command(), "-c", str(s), "-o", str(o)], log): s.name
            for s, o in objects.items()
        }
        try:
            for done, job in enumerate(as_completed(jobs), 1):
                job.result()
                progress(done, len(jobs) + 1, jobs[job])
        finally:
            pool.shutdown(cancel_futures=True)


def _cores() -> int:
    """Those of this process: all that it may run on, or as many as the quota of its container makes."""
    cores = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):  # there is no quota: no file, or "max"
        quota, period = map(int, _QUOTA.read_text().split())
        cores = min(cores, max(1, quota // period))
    return cores


def _tensorflow_flags() -> tuple[list[str], list[str]]:
    done = run_apart(_ASK_FLAGS, does="been imported")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise EnvironmentUnsupported(f"TensorFlow does not import ({last}): install it again")
    compile_flags, link_flags = json.loads(done.stdout.splitlines()[-1])
    return compile_flags, link_flags


def _run(command: list[str], log: Path) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    with log.open("a") as out:
        out.write(" ".join(command) + "\n" + result.stdout + result.stderr)
    if result.returncode == 0:
        return
    lines = result.stderr.splitlines() or [f"exit code {result.returncode}"]
    first = next((line for line in lines if "error:" in line), lines[0])
    raise EnforcerError(f"building the native library failed: {first.strip()} (full log: {log})")
