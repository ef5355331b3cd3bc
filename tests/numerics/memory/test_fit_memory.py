"""Steps that are made to fit train the same, bit for bit, in what is promised, and where plain ones do not run."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.numerics.processes import said_in_pool
from tfwave.cli.app import app

pytestmark = pytest.mark.tensorflow

NAMES = ("resnet", "bert", "vgg", "inception", "unet", "lstm", "sliced", "function")
PLANNED, POOL = 24, 38
"""MiB: what the plan is made for, and the pool, which is in pieces; the plain step peaks at 42."""


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fitted")


@pytest.fixture(scope="module")
def found(bundles: Path) -> dict[str, Any]:
    """Each with the optimizer off and on."""
    told: dict[str, Any] = {}
    for optimizer in ("off", "on"):
        chosen = {"TFWAVE_TEST_OPTIMIZER": optimizer}
        told[optimizer] = said_in_pool(
            256, "tests.numerics.memory.fitted_job", str(bundles / optimizer), **chosen
        )
    return told


@pytest.mark.parametrize("optimizer", ["off", "on"])
@pytest.mark.parametrize("name", NAMES)
def test_losses_and_weights_are_those_of_the_plain_step(
    found: dict[str, Any], optimizer: str, name: str
) -> None:
    """Also random numbers, and moving averages; with tensors offloaded and made again, and after that."""
    ran = found[optimizer][name]
    assert all(ran["away"])
    assert ran["different"] > 1, "it trains"
    assert ran["losses"]
    assert ran["values"]
    assert ran["undone"]
    assert ran["stashed"] > 0
    assert ran["left"] == 0


@pytest.mark.parametrize("optimizer", ["off", "on"])
def test_the_peak_is_what_the_plan_promised(found: dict[str, Any], optimizer: str) -> None:
    ran = found[optimizer]["resnet"]
    plain, fitted = ran["peaks"]
    assert fitted == pytest.approx(ran["promised"], rel=0.1)
    assert fitted < 0.6 * plain


@pytest.mark.parametrize("optimizer", ["off", "on"])
def test_a_tensor_that_slices_lie_in_stays_until_all_of_them_are_read(
    found: dict[str, Any], optimizer: str
) -> None:
    """Twice forward, and three times backward."""
    for told in found[optimizer]["slices"]:
        assert len(told["readers"]) == 3
        assert min(told["readers"]) >= 5
        assert not told["away"]


@pytest.mark.usefixtures("found")
def test_a_step_runs_where_the_plain_one_finds_no_room(bundles: Path) -> None:
    bundle, plan, fitted = (bundles / "off" / name for name in ("large", "plan.json", "fitted.pb"))
    graph = bundle.with_suffix(".pb")
    for command in (
        ["fit", str(bundle), "--memory", f"{PLANNED}MiB", "-o", str(plan)],
        ["rewrite", str(graph), "--plan", str(plan), "--passes", "fit_memory", "-o", str(fitted)],
    ):
        ran = CliRunner().invoke(app, command)
        assert ran.exit_code == 0, ran.output

    def losses(file: Path, mebibytes: int) -> list[str]:
        return said_in_pool(mebibytes, "tests.numerics.memory.fitted_small", str(file), str(mebibytes), "5")[
            "losses"
        ]

    assert losses(graph, POOL) == []
    assert losses(fitted, POOL) == losses(graph, 256) != []
