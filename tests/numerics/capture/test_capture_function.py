"""The bundle of a `tf.function` tells the peak that the pool measured, and serves the commands."""

import json
import re
import resource
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.numerics.processes import said_in_pool
from tfwave.bundle.bundle import Bundle, load_bundle
from tfwave.bundle.memory import CapturedMemory, captured_memory
from tfwave.cli.app import app
from tfwave.errors import EnforcerError
from tfwave.runtime.trace.memory import trace_memory

pytestmark = pytest.mark.tensorflow

STEPS = ("function", "keras")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bundles")


@pytest.fixture(scope="module")
def found(bundles: Path) -> dict[str, Any]:
    return said_in_pool(128, "tests.numerics.capture.captured_functions", str(bundles))


def memory_of(bundle: Bundle, step: int) -> CapturedMemory:
    return captured_memory(Bundle(bundle.manifest, bundle.graphs, (bundle.steps[step],)))


@pytest.mark.parametrize("name", STEPS)
def test_each_traced_step_has_the_peak_that_the_pool_measured_in_it(
    found: dict[str, Any], bundles: Path, name: str
) -> None:
    bundle, peaks = load_bundle(bundles / name), found[name]["peaks"]
    assert [memory_of(bundle, step).peak for step in range(len(peaks))] == pytest.approx(peaks, rel=0.02)


@pytest.mark.parametrize("name", STEPS)
def test_what_is_given_to_a_step_is_resident(found: dict[str, Any], bundles: Path, name: str) -> None:
    profile = captured_memory(load_bundle(bundles / name)).memory.profile
    assert profile.resident == pytest.approx(found[name]["given"], rel=0.01)


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("command", [("memory",), ("inspect",), ("colocate", "--memory", "256MiB")])
def test_the_commands_take_the_bundle(
    found: dict[str, Any], bundles: Path, name: str, command: tuple[str, ...]
) -> None:
    ran = CliRunner().invoke(app, [command[0], str(bundles / name), *command[1:], "--json"])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)


@pytest.mark.usefixtures("found")
def test_the_step_of_a_keras_model_which_gives_its_mean_loss_can_be_made_to_fit(bundles: Path) -> None:
    ran = CliRunner().invoke(app, ["fit", str(bundles / "keras"), "--memory", "256MiB", "--json"])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["fits"]


@pytest.mark.parametrize("name", STEPS)
def test_waves_are_judged_but_the_trace_tells_no_gradients(
    found: dict[str, Any], bundles: Path, name: str
) -> None:
    ran = CliRunner().invoke(app, ["waves", str(bundles / name), "--memory", "256MiB", "--json"])
    assert ran.exit_code in {0, 1}, ran.output
    told = json.loads(ran.stdout)
    assert told["offsets"]
    assert told["gradient_bytes"] is None
    assert 'let offset="auto" choose' in told["fitting_offset_missing"]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (
            "plain",
            r"BundleError: the step is .*: give a tf\.function, such as tf\.function\(model\.train_step\)",
        ),
        ("compiled", "BundleError: .* do without jit_compile=True"),
        ("called", r"BundleError: node '.*' calls a function that TensorFlow does not inline.*_noinline"),
    ],
)
def test_what_cannot_be_captured_is_refused(found: dict[str, Any], case: str, message: str) -> None:
    assert re.fullmatch(message + ".*", found[case]), found[case]


def test_a_trace_that_cannot_be_written_is_no_full_pool() -> None:
    """No file may have a byte here. Of a full disk TensorFlow tells by the error of a full pool."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(EnforcerError, match=r"cannot be written to .*: make room there, or set TMPDIR"):
            trace_memory(lambda: None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
