"""What `import tfwave` gives, and what it costs."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tfwave
from tfwave.cli.commands import COMMANDS

PACKAGE = Path(tfwave.__file__).parent
PUBLIC = [
    "Bundle",
    "ControlClient",
    "ControlLimits",
    "Credentials",
    "GraphItem",
    "GraphPass",
    "GraphRewriter",
    "Pipeline",
    "Plan",
    "Server",
    "TfwaveError",
    "__version__",
    "advise_overlap",
    "balance",
    "capture_function",
    "capture_run",
    "capture_session",
    "colocate",
    "distribute",
    "embedding",
    "fit_memory",
    "in_grappler",
    "install",
    "keras",
    "load_bundle",
    "load_graph",
    "load_plan",
    "parse_pipeline",
    "plan_bundle",
    "save_bundle",
    "save_plan",
    "step_name",
]
IMPORT_SECONDS = 0.3
MAY_IMPORT_TENSORFLOW = {"runtime", "capture", "demo", "keras"}
PROBE = """
import json, sys, time
start = time.perf_counter()
import {module}
seconds = time.perf_counter() - start
heavy = [name for name in sys.modules if name.partition(".")[0] in ("tensorflow", "keras", "tf_keras")]
print(json.dumps({{"seconds": seconds, "heavy": heavy}}))
"""

LOADS = """
import importlib, json, pkgutil, sys
import grappler_passes, tfwave
loaded, guilty = [], []
for package in (tfwave, grappler_passes):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
            loaded.append(found.name)
        if {"tensorflow", "keras", "tf_keras"} & sys.modules.keys():
            guilty.append(found.name)
print(json.dumps([loaded, guilty]))
"""

SAYS = """
import json, sys
from tfwave.cli.app import main
for line in sys.argv[1:]:
    sys.argv = ["tfwave", *line.split()]
    try:
        main()
    except SystemExit as left:
        assert not left.code
sys.stderr.write(json.dumps(list(sys.modules)))
"""
FOR_FEW = {"jinja2", "matplotlib", "networkx", "scipy", "tensorflow"}
"""What no command needs to say what it does."""
FOR_SOME = {*FOR_FEW, "google.protobuf", "grpc", "numpy", "pydantic"}


def probe(module: str) -> dict[str, Any]:
    program = [sys.executable, "-c", PROBE.format(module=module)]
    return json.loads(subprocess.run(program, capture_output=True, text=True, check=True, timeout=60).stdout)


def test_import_is_quick_and_loads_no_tensorflow() -> None:
    probes = [probe("tfwave") for _ in range(3)]
    assert probes[0]["heavy"] == []
    assert min(p["seconds"] for p in probes) < IMPORT_SECONDS


def test_no_module_loads_tensorflow() -> None:
    """All in one process; what the first that did loaded stays, so it is the first one named."""
    program = [sys.executable, "-c", LOADS]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=60)
    loaded, guilty = json.loads(done.stdout)
    assert len(loaded) > 300
    assert guilty == []


def modules_of(*lines: str) -> set[str]:
    """What calls of the command line import, one after the other in one process."""
    program = [sys.executable, "-c", SAYS, *lines]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=60)
    assert "tfwave" in done.stdout
    return set(json.loads(done.stderr))


def of_commands(modules: set[str]) -> set[str]:
    return {name.removeprefix("tfwave.cli.") for name in modules if name.startswith("tfwave.cli.")}


def test_what_is_said_of_all_commands_imports_none() -> None:
    modules = modules_of("--version", "--help")
    assert of_commands(modules) == {"app", "commands", "errors"}
    assert not modules & FOR_SOME


def test_a_command_imports_no_other() -> None:
    assert of_commands(modules_of("doctor --help")) == {"app", "commands", "doctor", "errors", "output"}


def test_what_few_calls_need_is_imported_by_them() -> None:
    modules = modules_of(*(f"{name} --help" for name in COMMANDS))
    assert {"passes", "waves"} < of_commands(modules)
    assert not modules & FOR_FEW


def test_tensorflow_is_imported_in_its_places_only() -> None:
    """Also where import-linter does not see it: `__import__` and `import_module`."""
    hidden = re.compile(r"""(__import__|import_module)\(["'](tensorflow|tf_keras|keras)\b""")
    paths = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")]
    outside = [path for path in paths if path.parts[0] not in MAY_IMPORT_TENSORFLOW]
    assert [str(path) for path in outside if hidden.search((PACKAGE / path).read_text())] == []


def test_the_public_names() -> None:
    assert sorted(tfwave.__all__) == PUBLIC
    assert set(PUBLIC) <= set(dir(tfwave))
    for name in PUBLIC:
        assert getattr(tfwave, name) is not None


def test_the_public_names_are_those_that_type_checkers_see() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == tfwave._HOMES | dict.fromkeys(tfwave._PACKAGES, "tfwave")


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tfwave.nothing
