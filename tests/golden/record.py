"""Makes the inputs of goldens again: real graphs and captures, as TensorFlow gives them.

Needs TensorFlow, and root for the network of the job; captured times come out otherwise each time, and with
them the goldens.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from tests.golden.kept import keep_steps, pack_bundle, pack_graph
from tests.numerics.corpus import load
from tests.numerics.corpus.places import Places, set_up
from tests.numerics.waves.partitioned import partitioned
from tfwave import Bundle, GraphItem, load_bundle
from tfwave.bundle.bundle import save_bundle
from tfwave.demo.network import NamespaceNetwork

ROOT = Path(__file__).resolve().parents[2]
TASKS = Places("/job:worker/task:0", ("/job:ps/task:0", "/job:ps/task:1"), "/job:ps", "grpc://unused")
"""So that graphs of sessions name tasks; nothing runs."""
SMALL = ("ports", "branches", "control_edges", "strings", "calls")
SESSIONS = (
    ("resnet50_step", "tf_keras_step", "build", {"network": "ResNet50", "image": 64}),
    ("lstm_step_v1", "lstm", "build_v1", {}),
    *((f"small_{kind}", "small_session", f"build_{kind}", {}) for kind in SMALL),
)
FUNCTIONS = (
    "keras3_step",
    "transformer_step",
    "lstm_step",
    "small_calls_function",
    "small_branches_function",
)
PARTITIONS = 3
ALONE = ("resnet", "gru")
"""Models of `tests.numerics.memory.memory_models` that are captured for their memory."""
JOBS = (("bert", "training", 2e8), ("vgg", "inference", 1e9))
"""Models that are captured with their variables on servers, and the bits per second of each network card."""
STEPS = 2
"""Of each capture."""
HOSTS = ("ps0", "ps1", "worker")


def main() -> None:
    """Write all of tests/golden/inputs again."""
    items = dict(_graphs())
    for name, item in items.items():
        pack_graph(name, item)
    keep_steps(items)
    with tempfile.TemporaryDirectory() as folder:
        for model in ALONE:
            _capture_alone(model, Path(folder))
        for job in JOBS:
            _capture_job(*job, Path(folder))


def _graphs() -> Iterator[tuple[str, GraphItem]]:
    set_up()
    for name, module, build, options in SESSIONS:
        make = getattr(import_module(f"tests.numerics.corpus.{module}"), build)
        yield name, make(name, TASKS, **options).item()
    for name in FUNCTIONS:
        yield name, load(name).item()
    yield "partitioned_step", partitioned("momentum", PARTITIONS).item


def _capture_alone(model: str, folder: Path) -> None:
    """On one thread, so that it is known what the cores did for the job, whatever else they did."""
    _run([], "tests.numerics.memory.memory_job", model, str(folder / model), "1", "1")
    captured = load_bundle(folder / model / "1")
    _keep(captured, folder / f"{model}_alone", [step.seconds for step in captured.manifest.steps])


def _keep(captured: Bundle, out: Path, core_seconds: Sequence[float | None]) -> None:
    """The first steps, with other counts of what the cores did: they worked for more than the job."""
    summaries = [
        step.model_copy(update={"core_seconds": seconds})
        for step, seconds in zip(captured.manifest.steps, core_seconds, strict=True)
    ]
    manifest = captured.manifest.model_copy(update={"steps": summaries[:STEPS]})
    save_bundle(Bundle(manifest, captured.graphs, captured.steps[:STEPS]), out)
    pack_bundle(out)


def _capture_job(model: str, kind: str, bits_per_second: float, folder: Path) -> None:
    out = folder / model
    with NamespaceNetwork(HOSTS, bits_per_second) as network:
        addresses = network.free_addresses(HOSTS)
        servers = [
            subprocess.Popen(
                _command(network.command_prefix(host), "tests.golden.record_job", str(i), *addresses),
                cwd=ROOT,
                env=_environment(),
            )
            for i, host in enumerate(HOSTS[:-1])
        ]
        try:
            prefix = network.command_prefix(HOSTS[-1])
            _run(prefix, "tests.golden.record_job", "worker", *addresses, model, kind, str(out))
        finally:
            for server in servers:
                server.kill()
                server.wait()
    captured = load_bundle(out)
    _keep(captured, folder / f"{model}_{kind}", [None] * len(captured.steps))


def _run(prefix: list[str], module: str, *arguments: str) -> None:
    subprocess.run(
        _command(prefix, module, *arguments), check=True, timeout=300, cwd=ROOT, env=_environment()
    )


def _command(prefix: list[str], module: str, *arguments: str) -> list[str]:
    return [*prefix, sys.executable, "-m", module, *arguments]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


if __name__ == "__main__":
    main()
