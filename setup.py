"""What pip installs; the rest of the metadata is in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

LINK_TO_A_FILE = re.compile(r"\[([^\]]+)\]\((?!\w+:)[^)]+\)")
VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
TENSORFLOW = ">=2.19,<2.22"  # tfwave.runtime.native.SUPPORTED

EXACT = ["scipy>=1.9"]
PLOT = ["matplotlib>=3.8"]
TEST = [
    *EXACT,
    *PLOT,
    "griffelib>=2.0",
    "hypothesis>=6.100",
    "jsonschema>=4.20",
    "pytest>=8.2",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.6",
    "pyyaml>=6",
    "simpy>=4.1",
]
DOCS = ["furo>=2024.8", "myst-parser>=4", "sphinx>=8"]
DEV = [*TEST, *DOCS, "build>=1.2", "import-linter>=2.1", "pyright[nodejs]>=1.1.400", "ruff>=0.11"]


def _version() -> str:
    text = (Path(__file__).parent / "tfwave" / "version.py").read_text()
    found = VERSION.search(text)
    if found is None:
        raise SystemExit("tfwave/version.py has no line __version__ = ...")
    return found[1]


def _readme() -> str:
    """As an index shows it, which has none of the files that it links to: such links are text."""
    return LINK_TO_A_FILE.sub(r"\1", (Path(__file__).parent / "README.md").read_text())


setup(
    long_description=_readme(),
    long_description_content_type="text/markdown",
    version=_version(),
    packages=find_packages(include=["tfwave", "tfwave.*", "grappler_passes", "grappler_passes.*"]),
    package_data={
        "tfwave": ["py.typed", "native/*.h", "native/*.cc"],
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
        "typer>=0.15",
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
