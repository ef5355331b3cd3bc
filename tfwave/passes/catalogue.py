"""What there is to say about each pass, from its docstring and fields."""

import inspect
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from typing import Any

from tfwave.passes.base import GraphPass
from tfwave.passes.registry import find_pass, pass_names

_HEAD = """# Passes

The catalogue of graph rewrites, one file of `grappler_passes/` each. `tfwave passes` prints it; `make docs` writes
this page from the docstrings. `docs/write_a_pass.md` shows how to add one of your own.
"""


@dataclass(frozen=True)
class OptionDoc:
    """One option; `default` is None where it must be given."""

    name: str
    type: str
    default: Any


@dataclass(frozen=True)
class PassDoc:
    """One pass: the first line of its docstring, all of it, its options, and whether it takes a plan."""

    name: str
    summary: str
    text: str
    options: tuple[OptionDoc, ...]
    needs_plan: bool


def catalogue() -> tuple[PassDoc, ...]:
    """All passes, sorted by name."""
    return tuple(_describe(find_pass(name)) for name in pass_names())


def catalogue_page() -> str:
    """The catalogue as Markdown."""
    return "\n".join([_HEAD, *(line for doc in catalogue() for line in _section(doc))])


def _describe(kind: type[GraphPass]) -> PassDoc:
    text = inspect.getdoc(kind) or ""
    types = kind.options()
    defaults = {field.name: None if field.default is MISSING else field.default for field in fields(kind)}
    options = tuple(OptionDoc(name, _type_name(types[name]), defaults[name]) for name in types)
    return PassDoc(kind.name, text.partition("\n")[0], text, options, len(types) < len(fields(kind)))


def _type_name(kind: Any) -> str:
    return kind.__name__ if kind in (bool, int, float, str) else str(kind).replace("typing.", "")


def _section(doc: PassDoc) -> Iterator[str]:
    yield f"## {doc.name}\n"
    yield f"{doc.text}\n"
    if doc.needs_plan:
        yield "Takes a plan (`--plan`).\n"
    if doc.options:
        yield "| option | type | default |\n|---|---|---|"
        for option in doc.options:
            default = "must be given" if option.default is None else f"`{option.default}`"
            yield f"| `{option.name}` | `{option.type}` | {default} |"
        yield ""
