"""The times of a Keras model's layers, as the burst planner takes them."""

from pathlib import Path
from typing import Any

import keras
import pytest
from typer.testing import CliRunner

from tfwave.burst.network import Network
from tfwave.burst.profile import read_profile
from tfwave.burst.section import plan_layers
from tfwave.cli.app import app
from tfwave.errors import TfwaveError
from tfwave.keras.bursts.load import load_model
from tfwave.keras.bursts.nodes import nodes_of
from tfwave.keras.bursts.times import profile_model

pytestmark = pytest.mark.tensorflow
L = keras.layers


def branching() -> Any:
    inputs = keras.Input((8, 8, 3), name="images")
    x = L.Conv2D(4, 3, padding="same", name="conv")(inputs)
    y = L.BatchNormalization(name="norm")(x)
    z = L.Dropout(0.5, name="drop")(x)
    joined = L.Concatenate(name="join")([y, z])
    return keras.Model(inputs, L.Dense(5, name="dense")(L.Flatten(name="flat")(joined)), name="branching")


def test_a_profile_has_what_the_planner_needs() -> None:
    model = branching()
    before = [value.copy() for value in model.get_weights()]
    told: list[str] = []
    found = profile_model(model, [2, 4], repeats=1, progress=told.append)
    layers = {layer.name: layer for layer in found.layers}
    assert [layer.name for layer in found.layers] == told
    assert {name: layer.reads for name, layer in layers.items()} == {
        "images": (),
        "conv": ("images",),
        "norm": ("conv",),
        "drop": ("conv",),
        "join": ("norm", "drop"),
        "flat": ("join",),
        "dense": ("flat",),
    }
    assert layers["join"].output_bytes == 8 * 8 * 8 * 4
    assert layers["conv"].weight_bytes == (3 * 3 * 3 * 4 + 4) * 4
    assert layers["norm"].weight_bytes == 2 * 4 * 4
    assert layers["images"].seconds == {2: 0, 4: 0}
    assert all(second > 0 for name in ("conv", "norm", "dense") for second in layers[name].seconds.values())
    assert all((a == b).all() for a, b in zip(before, model.get_weights(), strict=True))
    plan = plan_layers(found, 2, 4, Network(1e9, 1e-5))
    assert [layer.name for layer in plan.layers] == told


def test_integers_are_read_too() -> None:
    model = keras.Sequential([keras.Input((6,), dtype="int32"), L.Embedding(10, 4), L.LSTM(3), L.Dense(1)])
    found = profile_model(model, [2], repeats=1)
    assert [len(layer.reads) for layer in found.layers] == [0, 1, 1, 1]


def test_what_cannot_be_profiled_is_refused_by_name() -> None:
    twice = keras.Input((4,))
    dense = L.Dense(4, name="shared")
    with pytest.raises(TfwaveError, match="calls the layer 'shared' twice"):
        nodes_of(keras.Model(twice, dense(dense(twice))))
    with pytest.raises(TfwaveError, match="are not known"):
        nodes_of(keras.Sequential([L.Dense(1)], name="shapeless"))
    unknown = keras.Input((None, 4))
    with pytest.raises(TfwaveError, match="give the model's inputs a known shape"):
        profile_model(keras.Model(unknown, L.Dense(1)(unknown)), [1])
    with pytest.raises(TfwaveError, match="nothing to measure"):
        profile_model(branching(), [])


def test_the_command_profiles_a_file_and_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    branching().save(tmp_path / "m.keras")
    (tmp_path / "own_model.py").write_text(
        "from tests.numerics.distribute.test_burst_profile import branching as make\n"
        "def broken():\n    raise AttributeError('no width')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for model in (tmp_path / "m.keras", "own_model:make"):
        out = tmp_path / "profile.json"
        arguments = ["burst", "profile", str(model), "--batches", "1,2", "--repeats", "1", "-o", str(out)]
        ran = CliRunner().invoke(app, arguments)
        assert ran.exit_code == 0
        assert "7 layers of 'branching'" in ran.stdout
        assert sorted(read_profile(out).layers[1].seconds) == [1, 2]
    (tmp_path / "damaged.keras").write_text("no model")
    for model, says in (
        (tmp_path / "gone.keras", "there is no file '.*gone.keras'"),
        (tmp_path / "damaged.keras", "damaged.keras' cannot be read: "),
        ("own_model:gone", "there is no function 'own_model:gone'"),
        ("own_model:broken", "'own_model:broken' cannot be made: AttributeError: no width"),
        ("json:dumps", "'json:dumps' cannot be made: TypeError: "),
    ):
        with pytest.raises(TfwaveError, match=says):
            load_model(str(model))
