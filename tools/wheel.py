"""Build the sdist, and one wheel with a native library for each TensorFlow: the same bytes from the same sources.

python -m tools.wheel [--out dist] [--tensorflow 2.21.0 ...]

Builds each library against its own TensorFlow, in an environment of its own in build/, and tries it there. At first
that downloads about 300 MB and takes some minutes for each. SOURCE_DATE_EPOCH tells the time that all files bear.
"""

import argparse
import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.manylinux import platform_tag

ROOT = Path(__file__).resolve().parents[1]
TENSORFLOWS = ("2.19.0", "2.19.1", "2.20.0", "2.21.0")
EPOCH = "1577836800"
"""2020, where SOURCE_DATE_EPOCH does not tell; a zip file knows no time before 1980."""

_PACKED = ("tfwave", "grappler_passes", "docs", "examples", "*.md", "*.in", "*.toml", "setup.py", "LICENSE")
_NOT_PACKED = shutil.ignore_patterns("__pycache__", "*.pyc", "*.so", "*.egg-info")
_BUILD = "from tfwave.runtime.native import ensure_built; print(ensure_built().path)"


def main(arguments: Sequence[str]) -> None:
    """Build all, and say where it is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--tensorflow", nargs="+", default=TENSORFLOWS, metavar="VERSION")
    options = parser.parse_args(arguments)
    libraries = {version: build_library(version, ROOT / "build") for version in options.tensorflow}
    for path in pack(libraries, options.out):
        print(path)


def build_library(version: str, work: Path) -> Path:
    """The native library for one TensorFlow, built and tried beside it in an environment that is kept."""
    own = work / f"tensorflow-{version}"
    if not (own / ".ready").exists():
        print(f"installing TensorFlow {version} into {own}", flush=True)
        _run(sys.executable, "-m", "venv", "--clear", own)
        _run(own / "bin/pip", "install", "-q", f"tensorflow-cpu=={version}", "filelock", "platformdirs")
        (own / ".ready").touch()
    print(f"building for TensorFlow {version}", flush=True)
    said = _run(own / "bin/python", "-c", _BUILD, PYTHONPATH=ROOT, TFWAVE_CACHE_DIR=work / "libraries")
    return Path(said.splitlines()[-1])


def pack(libraries: Mapping[str, Path], out: Path) -> list[Path]:
    """The sdist, and the wheel made from it, with the native library of each version of TensorFlow."""
    with tempfile.TemporaryDirectory() as scratch:
        tree, prebuilt, made = (Path(scratch, name) for name in ("tree", "prebuilt", "made"))
        _copy_sources(tree)
        for version, library in libraries.items():
            (prebuilt / version).mkdir(parents=True)
            for name in ("libtfwave.so", "libtfwave.sha256"):
                shutil.copyfile(library.parent / name, prebuilt / version / name)
        _set_modes(Path(scratch))
        command = ("-m", "build", "--no-isolation", "--outdir", made, tree)
        tag = f"-C--build-option=--plat-name={platform_tag(libraries.values())}"
        _run(sys.executable, *command, tag, TFWAVE_PREBUILT=prebuilt, SOURCE_DATE_EPOCH=_epoch())
        (sdist,) = made.glob("*.tar.gz")
        _take_times_away(sdist)
        out.mkdir(parents=True, exist_ok=True)
        return [shutil.copyfile(path, out / path.name) for path in sorted(made.iterdir())]


def _copy_sources(tree: Path) -> None:
    tree.mkdir()
    for path in sorted(found for pattern in _PACKED for found in ROOT.glob(pattern)):
        if path.is_dir():
            shutil.copytree(path, tree / path.name, ignore=_NOT_PACKED)
        else:
            shutil.copyfile(path, tree / path.name)


def _set_modes(top: Path) -> None:
    for path in top.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _take_times_away(sdist: Path) -> None:
    """Owners, times and order of a tar file are those of the machine that made it, but for this."""
    with tarfile.open(sdist) as was:
        members = sorted(was.getmembers(), key=lambda member: member.name)
        with (
            sdist.with_suffix(".new").open("wb") as file,
            gzip.GzipFile("", "wb", 9, file, 0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as now,
        ):
            for member in members:
                content = was.extractfile(member)
                now.addfile(_plain(member), io.BytesIO(content.read()) if content else None)
    sdist.with_suffix(".new").replace(sdist)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    plain = tarfile.TarInfo(member.name)
    plain.type, plain.size, plain.mode = member.type, member.size, member.mode
    plain.mtime = int(_epoch())
    return plain


def _epoch() -> str:
    return os.environ.get("SOURCE_DATE_EPOCH", EPOCH)


def _run(*command: object, **variables: object) -> str:
    environment = os.environ | {name: str(value) for name, value in variables.items()}
    words = [str(word) for word in command]
    done = subprocess.run(words, env=environment, umask=0o022, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\nfailed: {' '.join(words)}")
    return done.stdout


if __name__ == "__main__":
    main(sys.argv[1:])
