"""Registering a Grappler plugin, without TensorFlow: what it answers differs between its versions."""

from types import SimpleNamespace

import pytest

from tfwave.errors import EnvironmentUnsupported
from tfwave.runtime.live import grappler_plugin
from tfwave.runtime.live.grappler_plugin import Plugin

FAILED_PRECONDITION = 9
SHIFT = 2


def register(patch: pytest.MonkeyPatch, word: int) -> Plugin:
    """With a TensorFlow that answers with a status of this word."""
    answer = SimpleNamespace(init=lambda callback: SimpleNamespace(word=word))
    patch.setattr(grappler_plugin, "_CInterface", lambda: answer)
    return Plugin(lambda call: None)


@pytest.mark.parametrize("word", [0, 1], ids=["as of 2.19", "as of 2.20"])
def test_the_status_is_ok(word: int, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, word)


@pytest.mark.parametrize("tag", [0, 1], ids=["as of 2.19", "as of 2.20"])
def test_the_status_is_a_failure(tag: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EnvironmentUnsupported, match="interface for Grappler plugins"):
        register(monkeypatch, FAILED_PRECONDITION << SHIFT | tag)
