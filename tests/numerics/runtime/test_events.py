"""Events as TensorFlow reads them, and what becomes of a training that cannot write them."""

import builtins
import importlib
from pathlib import Path
from typing import Any

import pytest

from tests.bundles import small_bundle
from tests.events import told_events
from tfwave.planner.captured import plan_bundle
from tfwave.report.drawn.figure import encoded, new_figure
from tfwave.report.order_text import order_text
from tfwave.report.told import tell_plan
from tfwave.runtime.events import Events

pytestmark = pytest.mark.tensorflow


def test_tensorflow_reads_what_was_told(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    events = Events(tmp_path / "new" / "report")
    assert not tmp_path.joinpath("new").exists()
    for epoch in range(2):
        events.scalar("loss", 0.5 + epoch, epoch)
    events.histogram("seconds", [1.0, 1.0, 4.0], 0)
    events.text("order", "**first**", 0)
    events.image("step", encoded(new_figure), 0)
    events.flush()
    found = told_events(tmp_path / "new" / "report")
    assert found["scalars"] == {"loss": [0.5, 1.5]}
    ((buckets,),) = found["histograms"].values()
    assert (buckets[0][0], buckets[-1][1]) == (1.0, 4.0)
    assert [count for _, _, count in buckets if count] == [2.0, 1.0]
    assert found["text"] == {"order": [["**first**"]]}
    assert found["images"] == {"step": [[[900, 450], [900, 450]]]}
    events.close()


def test_a_directory_that_cannot_be_written_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.joinpath("file").write_text("no directory")
    events = Events(tmp_path / "file")
    for step in range(2):
        events.scalar("loss", 0.5, step)
    events.flush()
    events.close()
    (message,) = own(caplog)
    assert "no more TensorBoard events" in message
    assert str(tmp_path / "file") in message


def own(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "tfwave"]


def test_a_plan_is_told_without_pictures_where_nothing_can_draw_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.import_module

    def missing(name: str, package: str | None = None) -> Any:
        if name.startswith("matplotlib"):
            raise builtins.ModuleNotFoundError(f"No module named '{name}'")
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", missing)
    plan, events = plan_bundle(small_bundle(), "tac"), Events(tmp_path)
    tell_plan(events, "train", plan, {"timeline": new_figure})
    found = told_events(tmp_path)
    assert (found["text"], found["images"]) == ({"tfwave/order/train": [[order_text(plan)]]}, {})
    (message,) = own(caplog)
    assert "'tfwave[plot]'" in message
    events.close()
