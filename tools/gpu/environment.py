"""A Python environment from a folder of wheels, without a network, that also sees the packages of this Python."""

import json
import os
import site
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.gpu.links import (
    DRIVER,
    LIBRARIES,
    cuda_folders,
    libraries_in,
    make_links,
    opened,
    search_path,
    wanted_links,
)
from tools.gpu.pieces import wheels_of

INSTALL_SECONDS = 400.0
ASK_SECONDS = 60.0
_PATHS = "import json, sys; print(json.dumps([path for path in sys.path if path]))"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Environment:
    """A Python, the variables of its processes, and the libraries that open in them.

    Attributes:
        python: its program.
        variables: those that processes get besides this one's.
        links: where the links to libraries are.
        linked: where each link leads.
        libraries: of each library why it does not open, empty if it does.
    """

    python: str
    variables: dict[str, str]
    links: str
    linked: dict[str, str]
    libraries: dict[str, str]


def prepared(wheels: Path | None, python: str, work: Path, with_gpu: bool, say: Say) -> Environment:
    """Make what is missing of it; without wheels, this Python's packages are all there is.

    Raises:
        NotWholeError: pieces do not make a wheel, or there are no wheels.
        subprocess.SubprocessError: a wheel cannot be installed, or it takes too long.
    """
    if wheels is not None:
        python = installed(wheels_of(wheels, work / "wheels"), work / "env", say)
    if not with_gpu:
        return Environment(python, {}, "", {}, {})
    links = work / "links"
    found = libraries_in(cuda_folders(paths_of(python)))
    wanted = make_links(links, wanted_links(found))
    variables = {"LD_LIBRARY_PATH": search_path(links, found, os.environ.get("LD_LIBRARY_PATH", ""))}
    libraries = opened(python, (DRIVER, *LIBRARIES), os.environ | variables)
    for name, why in libraries.items():
        said = f"does not open: {why}" if why else "opens"
        say(f"{name} {said}" + (f" (a link to {wanted[name]})" if name in wanted else ""))
    linked = {name: str(path) for name, path in wanted.items()}
    made = Environment(python, variables, str(links), linked, libraries)
    (work / "environment.json").write_text(json.dumps(asdict(made), indent=1) + "\n")
    return made


def installed(wheels: Sequence[Path], env: Path, say: Say) -> str:
    """The Python of an environment with these wheels, which is made once."""
    python, mark = env / "bin" / "python", env / "installed.json"
    wanted = [[wheel.name, wheel.stat().st_size] for wheel in wheels]
    if mark.exists() and json.loads(mark.read_text()) == wanted:
        return str(python)
    say(f"installing {len(wheels)} wheels into {env}")
    _run([sys.executable, "-m", "venv", "--without-pip", "--clear", str(env)])
    (packages,) = env.glob("lib/python*/site-packages")
    (packages / "outer.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    _run(pip_command(python, wheels))
    mark.write_text(json.dumps(wanted))
    return str(python)


def pip_command(python: Path, wheels: Sequence[Path]) -> list[str]:
    """Installs these wheels and nothing else, from no network."""
    folders = sorted({str(wheel.parent) for wheel in wheels})
    return [
        *(sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "install"),
        *("--quiet", "--no-index", "--no-deps", "--no-compile", "--no-cache-dir"),
        *(f"--find-links={folder}" for folder in folders),
        *map(str, wheels),
    ]


def paths_of(python: str) -> list[str]:
    """Where a Python looks for packages."""
    done = subprocess.run(
        [python, "-c", _PATHS], capture_output=True, text=True, timeout=ASK_SECONDS, check=True
    )
    return json.loads(done.stdout)


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, timeout=INSTALL_SECONDS, stdout=sys.stderr)
