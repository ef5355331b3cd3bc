"""Real TensorFlow graphs on which every graph pass is tested, built when first asked for."""

from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module

from tests.full import few_or
from tests.numerics.corpus.sample import Array, Sample

SHARE = few_or(8, 1)
"""One in so many channels of the large networks is left, and two blocks of a kind; in full all."""

Builder = Callable[[], Sample]


@cache
def load(name: str) -> Sample:
    """The sample of that name, built once per process."""
    return SAMPLES[name]()


@lru_cache(maxsize=2)
def reference(name: str, *, grappler: bool) -> tuple[Array, ...]:
    """What two steps of a sample's own graph give: a rewriting must give the same bits.

    Kept for the two latest questions only: the variables of a large network are 200 MB at full width.
    """
    sample = load(name)
    return tuple(sample.run(sample.graph, grappler=grappler))


def _function(name: str, module: str, build: str = "build") -> tuple[str, Builder]:
    return name, lambda: _builder(module, build)(name)


def _session(name: str, module: str, build: str, **options: object) -> tuple[str, Builder]:
    return name, lambda: _builder(module, build)(name, _places().LOCAL, **options)


def _tasks(name: str, module: str, build: str, **options: object) -> tuple[str, Builder]:
    return name, lambda: _builder(module, build)(name, _places().cluster(), **options)


def _builder(module: str, build: str) -> Callable[..., Sample]:
    _places().set_up()
    return getattr(import_module(f"{__name__}.{module}"), build)


def _places():
    return import_module(f"{__name__}.places")


FUNCTIONS: dict[str, Builder] = dict(
    [
        _function("keras3_step", "keras3_step"),
        _function("transformer_step", "transformer"),
        _function("lstm_step", "lstm"),
        _function("small_calls_function", "small_function", "build_calls"),
        _function("small_branches_function", "small_function", "build_branches"),
    ]
)
"""Traced functions, on logical CPUs of one process."""

SESSIONS: dict[str, Builder] = dict(
    [
        _session("resnet50_step", "tf_keras_step", "build", network="ResNet50", image=64, share=SHARE),
        _session("inception_v3_step", "tf_keras_step", "build", network="InceptionV3", image=75, share=SHARE),
        _session("lstm_step_v1", "lstm", "build_v1"),
        _session("small_ports", "small_session", "build_ports"),
        _session("small_branches", "small_session", "build_branches"),
        _session("small_control_edges", "small_session", "build_control_edges"),
        _session("small_strings", "small_session", "build_strings"),
        _session("small_calls", "small_session", "build_calls"),
    ]
)
"""Graphs of sessions, on logical CPUs of one process."""

TASKS: dict[str, Builder] = dict(
    [
        _tasks("resnet50_step_on_tasks", "tf_keras_step", "build", network="ResNet50", image=64, share=SHARE),
        _tasks("lstm_step_v1_on_tasks", "lstm", "build_v1"),
        _tasks("small_control_edges_on_tasks", "small_session", "build_control_edges"),
    ]
)
"""Graphs of sessions, on real tasks: /job:ps/task:0, /job:ps/task:1 and /job:worker/task:0."""

SAMPLES = FUNCTIONS | SESSIONS | TASKS
"""name -> what builds it anew; `load` builds it once."""

LARGE = ("inception_v3_step", "resnet50_step", "resnet50_step_on_tasks")
"""Whole networks: their tests are long."""
