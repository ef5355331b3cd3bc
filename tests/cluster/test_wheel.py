"""The wheel with its native library, in an environment without a compiler: what a stranger installs."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tests.fork_server import ROOT
from tfwave.runtime.native import ensure_built, tensorflow_version
from tools.manylinux import platform_tag
from tools.wheel import pack

pytestmark = pytest.mark.tensorflow

MOST_SECONDS = 300


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with the library of the installed TensorFlow alone, and the sdist."""
    out = tmp_path_factory.mktemp("dist")
    pack({tensorflow_version(): ensure_built().path}, out)
    return out


@pytest.fixture(scope="module")
def wheel(packed: Path) -> Path:
    (path,) = packed.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and what it depends on, but neither this repository nor a command on PATH."""
    place = tmp_path_factory.mktemp("bare")
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin/python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run([*pip, "install", "-q", "--no-deps", "--no-index", str(wheel)], check=True)
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place


def run(bare: Path, command: str, *arguments: str) -> str:
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "CXX", "TF_CONFIG")}
    told = {"PATH": str(bare / "bin"), "TFWAVE_CACHE_DIR": str(bare / "cache"), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [bare / "bin" / command, *arguments],
        env=kept | told,
        cwd=bare,
        capture_output=True,
        text=True,
        check=False,
        timeout=MOST_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_doctor_finds_the_library_that_came_with_it(bare: Path) -> None:
    checks = {check["name"]: check for check in json.loads(run(bare, "tfwave", "doctor", "--json"))}
    assert not checks["C++ compiler"]["ok"]
    library = checks["native library"]
    assert library["ok"]
    came = bare.glob(f"lib/python*/site-packages/tfwave/native/prebuilt/{tensorflow_version()}/libtfwave.so")
    assert [library["found"]] == [f"prebuilt: {path}" for path in came]


def test_a_session_is_ordered_without_a_compiler(bare: Path) -> None:
    said = run(bare, "python", str(ROOT / "examples" / "order_a_session.py"))
    assert "10 of 10 steps kept the order of 16 transfers" in said
    assert not list((bare / "cache").rglob("*.so"))


def test_the_wheel_is_for_any_python_on_the_systems_that_can_load_it(wheel: Path) -> None:
    tag = f"py3-none-{platform_tag([ensure_built().path])}"
    assert re.fullmatch(r"py3-none-manylinux_2_\d\d_x86_64", tag)
    assert wheel.name.endswith(f"-{tag}.whl")
    text = _member(wheel, "WHEEL")
    assert f"Tag: {tag}\n" in text
    assert "Root-Is-Purelib: false\n" in text


def test_its_page_has_no_link_to_what_is_not_there(wheel: Path) -> None:
    text = _member(wheel, "METADATA")
    assert "Description-Content-Type: text/markdown\n" in text
    assert "\n# tfwave\n" in text
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert [link for link in links if not link.startswith("https://")] == []


def test_the_sdist_has_sources_and_no_library(packed: Path) -> None:
    (path,) = packed.glob("*.tar.gz")
    with tarfile.open(path) as sdist:
        members = sdist.getmembers()
    names = {member.name.partition("/")[2] for member in members}
    assert {
        "tfwave/native/order/sequencer.cc",
        "tfwave/native/order/table.h",
        "setup.py",
        "docs/README.md",
    } <= names
    assert [name for name in names if name.endswith((".so", ".pyc"))] == []
    assert {(member.uid, member.uname, member.mtime) for member in members} == {(0, "", members[0].mtime)}


def _member(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as file:
        (path,) = [each for each in file.namelist() if each.endswith(f".dist-info/{name}")]
        return file.read(path).decode()
