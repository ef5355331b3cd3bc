"""What pip installs; the rest of the metadata is in pyproject.toml.

Where TFWAVE_PREBUILT names a folder of native libraries, VERSION/libtfwave.so for each TensorFlow, the wheel has
them and is for one platform: `make wheel`. Else it has the sources only, as for `pip install .`.
"""

import os
import re
import shutil
from pathlib import Path

from setuptools import Distribution, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
PREBUILT = os.environ.get("TFWAVE_PREBUILT")
RELATIVE_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]+\)")
VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
TENSORFLOW = ">=2.19,<2.22"  # tfwave.runtime.native.SUPPORTED

EXACT = ["scipy>=1.9"]
PLOT = ["matplotlib>=3.8"]
TEST = [
    *EXACT,
    *PLOT,
    "build>=1.2",
    "griffelib>=2.0",
    "hypothesis>=6.100",
    "jsonschema>=4.20",
    "pytest>=8.2",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.6",
    "pyyaml>=6",
    "setuptools>=77",
    "simpy>=4.1",
]
DOCS = ["furo>=2024.8", "myst-parser>=4", "sphinx>=8"]
DEV = [*TEST, *DOCS, "import-linter>=2.1", "pyright[nodejs]>=1.1.400", "ruff>=0.11"]


def _version() -> str:
    text = (HERE / "tfwave" / "version.py").read_text(encoding="utf-8")
    found = VERSION.search(text)
    if found is None:
        raise SystemExit("tfwave/version.py has no line __version__ = ...")
    return found[1]


def _long_description() -> str:
    """The README, without links to pages that are not beside it where a package index shows it."""
    return RELATIVE_LINK.sub(r"\1", (HERE / "README.md").read_text(encoding="utf-8"))


class WithLibraries(Distribution):
    """What is installed has code for one platform, though not for one Python, if it has libraries."""

    def has_ext_modules(self) -> bool:
        return PREBUILT is not None


class BuildWithLibraries(build_py):
    """Puts the libraries beside their sources."""

    def run(self) -> None:
        super().run()
        if PREBUILT is not None:
            shutil.copytree(
                PREBUILT, Path(self.build_lib, "tfwave", "native", "prebuilt"), dirs_exist_ok=True
            )


class WheelOfAnyPython(bdist_wheel):
    """A library of ours knows no Python: it is loaded by TensorFlow."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    version=_version(),
    long_description=_long_description(),
    long_description_content_type="text/markdown",
    distclass=WithLibraries,
    cmdclass={"build_py": BuildWithLibraries, "bdist_wheel": WheelOfAnyPython},
    packages=find_packages(include=["tfwave", "tfwave.*", "grappler_passes", "grappler_passes.*"]),
    package_data={
        "tfwave": ["py.typed", "native/*/*.h", "native/*/*.cc"],
        "tfwave.graph": ["ops.pb"],
        "tfwave.proto": ["*.proto", "*.pyi"],
        "tfwave.report.page": ["templates/*", "vendor/*"],
    },
    install_requires=[
        "filelock>=3.12",
        "grpcio>=1.62",
        "jinja2>=3.1",
        "networkx>=3.2",
        "numpy>=1.26",
        "platformdirs>=4",
        "protobuf>=5,<8",
        "pydantic>=2.6",
        "rich>=13",
        "typer>=0.16",
    ],
    extras_require={
        "tensorflow": [f"tensorflow{TENSORFLOW}"],
        "cpu": [f"tensorflow-cpu{TENSORFLOW}"],
        "demo": [f"tf_keras{TENSORFLOW}"],
        "exact": EXACT,
        "plot": PLOT,
        "docs": DOCS,
        "test": TEST,
        "dev": DEV,
    },
    entry_points={"console_scripts": ["tfwave = tfwave.cli.app:main"]},
)
