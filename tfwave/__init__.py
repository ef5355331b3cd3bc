"""Moves the tensors and the memory of a TensorFlow job in the right order, on the stock pip wheel.

The names below load on first use; importing tfwave does not import TensorFlow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tfwave.version import __version__ as __version__

if TYPE_CHECKING:
    from tfwave import balance as balance
    from tfwave import colocate as colocate
    from tfwave import distribute as distribute
    from tfwave import embedding as embedding
    from tfwave import keras as keras
    from tfwave.bundle.bundle import Bundle as Bundle
    from tfwave.bundle.bundle import load_bundle as load_bundle
    from tfwave.bundle.bundle import save_bundle as save_bundle
    from tfwave.capture.call import capture_function as capture_function
    from tfwave.capture.session import capture_run as capture_run
    from tfwave.capture.session import capture_session as capture_session
    from tfwave.errors import TfwaveError as TfwaveError
    from tfwave.fitting.function import fit_memory as fit_memory
    from tfwave.graph.item import GraphItem as GraphItem
    from tfwave.graph.load import load_graph as load_graph
    from tfwave.graph.rewriter import GraphRewriter as GraphRewriter
    from tfwave.passes.base import GraphPass as GraphPass
    from tfwave.passes.pipeline import Pipeline as Pipeline
    from tfwave.passes.text import parse_pipeline as parse_pipeline
    from tfwave.plan.io import load_plan as load_plan
    from tfwave.plan.io import save_plan as save_plan
    from tfwave.plan.plan import Plan as Plan
    from tfwave.planner.captured import advise_overlap as advise_overlap
    from tfwave.planner.captured import plan_bundle as plan_bundle
    from tfwave.rewrite.steps.copies import step_name as step_name
    from tfwave.runtime.control.client import ControlClient as ControlClient
    from tfwave.runtime.control.credentials import Credentials as Credentials
    from tfwave.runtime.control.limits import ControlLimits as ControlLimits
    from tfwave.runtime.live.grappler import in_grappler as in_grappler
    from tfwave.runtime.live.install import install as install
    from tfwave.runtime.server import Server as Server

_HOMES = {
    "Bundle": "tfwave.bundle.bundle",
    "ControlClient": "tfwave.runtime.control.client",
    "ControlLimits": "tfwave.runtime.control.limits",
    "Credentials": "tfwave.runtime.control.credentials",
    "GraphItem": "tfwave.graph.item",
    "GraphPass": "tfwave.passes.base",
    "GraphRewriter": "tfwave.graph.rewriter",
    "Pipeline": "tfwave.passes.pipeline",
    "Plan": "tfwave.plan.plan",
    "Server": "tfwave.runtime.server",
    "TfwaveError": "tfwave.errors",
    "advise_overlap": "tfwave.planner.captured",
    "capture_function": "tfwave.capture.call",
    "capture_run": "tfwave.capture.session",
    "capture_session": "tfwave.capture.session",
    "fit_memory": "tfwave.fitting.function",
    "in_grappler": "tfwave.runtime.live.grappler",
    "install": "tfwave.runtime.live.install",
    "load_bundle": "tfwave.bundle.bundle",
    "load_graph": "tfwave.graph.load",
    "load_plan": "tfwave.plan.io",
    "parse_pipeline": "tfwave.passes.text",
    "plan_bundle": "tfwave.planner.captured",
    "save_bundle": "tfwave.bundle.bundle",
    "save_plan": "tfwave.plan.io",
    "step_name": "tfwave.rewrite.steps.copies",
}

_PACKAGES = ("balance", "colocate", "distribute", "embedding", "keras")

__all__ = ["__version__", *_HOMES, *_PACKAGES]  # noqa: PLE0604  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"tfwave.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'tfwave' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
