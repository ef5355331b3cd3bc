"""The environment of the measurement on a GPU: wheels in pieces, libraries under other names, no network."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tfwave.runtime.allocator import Device
from tools.bench.memory.limited import environment
from tools.gpu.environment import pip_command, prepared
from tools.gpu.gpus import Gpu, parsed
from tools.gpu.links import (
    DRIVER,
    LIBRARIES,
    cuda_folders,
    libraries_in,
    make_links,
    opened,
    search_path,
    take_out,
    wanted_links,
)
from tools.gpu.pieces import NotWholeError, pieces_in, wheels_of

NAME = "tiny-1.0-py3-none-any.whl"
"""Of a wheel with one module, which tells a number."""


def make_wheel(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    about = "tiny-1.0.dist-info"
    files = {
        "tiny.py": "NUMBER = 42\n",
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\nRequires-Dist: nowhere\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD"))
    with zipfile.ZipFile(folder / NAME, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return folder / NAME


def cut(wheel: Path, size: int) -> list[Path]:
    """As `split -b` does."""
    whole = wheel.read_bytes()
    wheel.unlink()
    starts = range(0, len(whole), size)
    pieces = [
        wheel.with_name(f"{wheel.name}.{'abcdefgh'[i // 8]}{'abcdefgh'[i % 8]}") for i in range(len(starts))
    ]
    for piece, start in zip(pieces, starts, strict=True):
        piece.write_bytes(whole[start : start + size])
    return pieces


def test_pieces_are_joined_in_their_order_and_once(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "given")
    whole = wheel.read_bytes()
    pieces = cut(wheel, 100)
    assert len(pieces) > 5
    assert pieces_in(tmp_path / "given") == {NAME: pieces}
    (joined,) = wheels_of(tmp_path / "given", tmp_path / "joined")
    assert joined == tmp_path / "joined" / NAME
    assert joined.read_bytes() == whole
    before = joined.stat()
    assert wheels_of(tmp_path / "given", tmp_path / "joined") == [joined]
    assert joined.stat().st_mtime_ns == before.st_mtime_ns
    assert [path.name for path in joined.parent.iterdir()] == [NAME]


@pytest.mark.parametrize("missing", [0, 3, -1])
def test_pieces_that_are_not_all_there_make_no_wheel(tmp_path: Path, missing: int) -> None:
    cut(make_wheel(tmp_path), 100)[missing].unlink()
    with pytest.raises(NotWholeError, match=f"bring all pieces of '{NAME}'"):
        wheels_of(tmp_path, tmp_path / "joined")
    assert list((tmp_path / "joined").iterdir()) == []


def test_a_damaged_piece_makes_no_wheel(tmp_path: Path) -> None:
    piece = cut(make_wheel(tmp_path), 100)[0]
    piece.write_bytes(piece.read_bytes().replace(b"42", b"43"))
    with pytest.raises(NotWholeError):
        wheels_of(tmp_path, tmp_path / "joined")


def test_a_folder_without_wheels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotWholeError, match="has no wheels"):
        wheels_of(tmp_path, tmp_path / "joined")


def test_wheels_are_installed_without_a_network_beside_what_is_there(tmp_path: Path) -> None:
    """Made once; `tiny` asks for what is nowhere, and that is left to who brings the wheels."""
    cut(make_wheel(tmp_path / "given"), 100)
    said: list[str] = []
    for _ in range(2):
        made = prepared(tmp_path / "given", "nowhere", tmp_path / "work", False, said.append)
    assert len(said) == 1
    assert made.python == str(tmp_path / "work" / "env" / "bin" / "python")
    code = "import tiny, pytest; print(tiny.NUMBER)"
    done = subprocess.run([made.python, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "42\n"


def test_pip_asks_no_index(tmp_path: Path) -> None:
    command = pip_command(tmp_path / "python", [tmp_path / "a.whl"])
    assert {"--no-index", "--no-deps", f"--find-links={tmp_path}", str(tmp_path / "a.whl")} <= set(command)


def libraries(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(name)


def test_links_lead_from_the_names_that_tensorflow_opens_to_the_latest_there_is(tmp_path: Path) -> None:
    libraries(tmp_path / "a" / "lib", "libcufft.so.9", "libcufft.so.12", "libcudnn.so.9", "libother.so.1")
    libraries(tmp_path / "b", "libcublas.so.13", "libcublasLt.so.13", "libcufft.so.10", "libcuda.so.580")
    found = libraries_in([tmp_path / "a", tmp_path / "b"])
    assert "libother.so.1" not in found
    assert "libcuda.so.580" not in found
    links = wanted_links(found)
    assert {name: path.name for name, path in links.items()} == {
        "libcufft.so.11": "libcufft.so.12",
        "libcublas.so.12": "libcublas.so.13",
        "libcublasLt.so.12": "libcublasLt.so.13",
    }
    make_links(tmp_path / "links", {"libold.so.1": tmp_path / "b"})
    make_links(tmp_path / "links", links)
    assert {path.name: path.read_text() for path in (tmp_path / "links").iterdir()} == {
        name: path.name for name, path in links.items()
    }


def test_a_link_that_was_taken_out_is_not_made_again(tmp_path: Path) -> None:
    libraries(tmp_path / "lib", "libcupti.so.13", "libcufft.so.12")
    links = wanted_links(libraries_in([tmp_path / "lib"]))
    assert make_links(tmp_path / "links", links) == links
    assert take_out(tmp_path / "links", "libcupti.so.12")
    assert not take_out(tmp_path / "links", "libcupti.so.12")
    for _ in range(2):
        assert set(make_links(tmp_path / "links", links)) == {"libcufft.so.11"}
        assert not (tmp_path / "links" / "libcupti.so.12").exists()


def test_the_names_are_those_of_cuda_12() -> None:
    assert [name for name in LIBRARIES if not name.startswith("lib")] == []
    assert {"libcudart.so.12", "libcufft.so.11", "libcusolver.so.11", "libcudnn.so.9"} <= set(LIBRARIES)
    assert DRIVER not in LIBRARIES


def test_links_come_first_where_libraries_are_looked_for(tmp_path: Path) -> None:
    """Then the folders of all, as one opens another beside it."""
    libraries(tmp_path / "nvidia" / "cudnn" / "lib", "libcudnn.so.9")
    libraries(tmp_path / "nvidia" / "cu13" / "lib", "libcublas.so.13", "libcufft.so.12")
    libraries(tmp_path / "nvidia" / "nvjitlink" / "lib", "libnvJitLink.so.13")
    found = libraries_in(
        folder for folder in cuda_folders([str(tmp_path)]) if folder.is_relative_to(tmp_path)
    )
    path = search_path(tmp_path / "links", found, "/usr/lib").split(os.pathsep)
    assert path[0] == str(tmp_path / "links")
    assert set(path[1:-1]) == {
        str(tmp_path / "nvidia" / name / "lib") for name in ("cudnn", "cu13", "nvjitlink")
    }
    assert path[-1] == "/usr/lib"
    assert len(path) == 5
    assert wanted_links(found).keys() == {"libcublas.so.12", "libcufft.so.11"}


def test_a_library_that_does_not_open_says_why() -> None:
    found = opened(sys.executable, ["libc.so.6", "libnowhere.so.1"], os.environ)
    assert found["libc.so.6"] == ""
    assert "libnowhere.so.1" in found["libnowhere.so.1"]


def test_a_gpu_is_what_its_driver_tells() -> None:
    assert parsed("NVIDIA H100 80GB HBM3, 580.159.04, 81559, 4, 5, 16") == Gpu(
        "NVIDIA H100 80GB HBM3", "580.159.04", 81559, 4, "PCIe 5 x16"
    )
    assert parsed("Some GPU, 1, [N/A], 4, 5, 16").memory_mb == 0


def test_only_a_process_that_computes_on_a_gpu_sees_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else `tfwave.demo` hides it from all that it starts."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert "CUDA_VISIBLE_DEVICES" not in environment(Device.CPU)
    assert environment(Device.GPU)["CUDA_VISIBLE_DEVICES"] == "0"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert environment(Device.GPU)["CUDA_VISIBLE_DEVICES"] == "3"
