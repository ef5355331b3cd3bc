"""The catalogue of passes: one module of `grappler_passes` each, imported when asked for."""

import importlib
import pkgutil

from tfwave.errors import PassError
from tfwave.passes.base import GraphPass

CATALOGUE = "grappler_passes"


def pass_names() -> tuple[str, ...]:
    """The passes of the catalogue, sorted."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(importlib.import_module(CATALOGUE).__path__)))


def find_pass(name: str) -> type[GraphPass]:
    """A pass by name, or by ``module:Class`` where it is not one of the catalogue.

    Raises:
        PassError: there is none; says which there are.
    """
    module, colon, class_name = name.partition(":")
    if colon:
        return _own_pass(module, class_name)
    if name not in pass_names():
        raise PassError(
            f"there is no pass '{name}': choose one of {', '.join(pass_names())}, or name your own as module:Class"
        )
    members = vars(importlib.import_module(f"{CATALOGUE}.{name}")).values()
    return next(c for c in members if _is_pass(c) and c.name == name)


def _own_pass(module: str, class_name: str) -> type[GraphPass]:
    try:
        found = getattr(importlib.import_module(module), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise PassError(f"there is no pass '{module}:{class_name}': {error}") from error
    if not _is_pass(found):
        raise PassError(f"'{module}:{class_name}' is not a pass: derive it from tfwave.GraphPass")
    return found


def _is_pass(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, GraphPass) and thing is not GraphPass
