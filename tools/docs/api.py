"""The public API as Markdown, a page for each module, read from the sources: nothing is imported."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import griffe

from tests.golden.api import is_public, members, public_modules

_LITERAL = re.compile(r"::$", re.MULTILINE)
_STARS = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}
_NAMED = {"parameters", "attributes", "other parameters", "raises", "returns", "yields"}


def api_pages() -> dict[str, str]:
    """Markdown by the name of the module."""
    return {module.path: _page(module, things) for module, things in public_modules().items()}


def _page(module: griffe.Object, things: Iterable[griffe.Object]) -> str:
    parts = [f"# `{module.path}`", *_told(module)]
    for thing in things:
        parts += [f"## `{thing.name}`", *_thing(thing)]
    return "\n\n".join(parts) + "\n"


def _thing(thing: griffe.Object) -> Iterator[str]:
    if isinstance(thing, griffe.Attribute):
        yield _code(f"{thing.name} = {thing.value}")
        yield from _told(thing)
        return
    assert isinstance(thing, griffe.Function | griffe.Class)
    yield _code("\n".join(_signatures(thing)))
    yield from _told(thing)
    if isinstance(thing, griffe.Class):
        yield from _members(thing)


def _members(thing: griffe.Class) -> Iterator[str]:
    """Methods with all that is said of them; fields and properties as a list."""
    public = [member for member in members(thing) if is_public(member.name)]
    told = _attributes_told(thing)
    fields = [member for member in public if isinstance(member, griffe.Attribute) and member.name not in told]
    if fields:
        yield "\n".join(_field(field) for field in fields)
    for method in public:
        if isinstance(method, griffe.Function):
            yield f"### `{thing.name}.{method.name}`"
            yield _code("\n".join(_signatures(method)))
            yield from _told(method)


def _attributes_told(thing: griffe.Class) -> set[str]:
    """By the section of its docstring."""
    sections = thing.docstring.parse("google") if thing.docstring else ()
    return {item.name for section in sections if section.kind.value == "attributes" for item in section.value}


def _field(field: griffe.Attribute) -> str:
    kind = "" if field.annotation is None else f": {field.annotation}"
    told = "" if field.docstring is None else f": {' '.join(field.docstring.value.split())}"
    return f"* `{field.name}{kind}`{told}"


def _signatures(thing: griffe.Function | griffe.Class) -> Iterator[str]:
    """Of a function with overloads all of these."""
    overloads = thing.overloads if isinstance(thing, griffe.Function) else None
    return (_signature(one) for one in overloads or [thing])


def _signature(thing: griffe.Function | griffe.Class) -> str:
    """In one line, if that is short."""
    taken = [_parameter(parameter) for parameter in thing.parameters if parameter.name != "self"]
    given = f" -> {thing.returns}" if isinstance(thing, griffe.Function) and thing.returns else ""
    line = f"{thing.name}({', '.join(taken)}){given}"
    lines = "".join(f"    {text},\n" for text in taken)
    return line if len(line) <= 100 else f"{thing.name}(\n{lines}){given}"


def _parameter(parameter: griffe.Parameter) -> str:
    stars = _STARS.get(parameter.kind or griffe.ParameterKind.positional_or_keyword, "")
    annotation = "" if parameter.annotation is None else f": {parameter.annotation}"
    default = "" if stars or parameter.default is None else f" = {parameter.default}"
    return f"{stars}{parameter.name}{annotation}{default}"


def _told(thing: griffe.Object) -> Iterator[str]:
    """The docstring, section by section."""
    for section in thing.docstring.parse("google") if thing.docstring else ():
        if section.kind.value in _NAMED:
            yield f"**{section.kind.value.capitalize()}**"
            yield "\n".join(_item(item) for item in section.value)
        else:
            yield _prose(str(section.value))


def _item(item: Any) -> str:
    names = [str(part) for part in (getattr(item, "name", ""), getattr(item, "annotation", "")) if part]
    name = next(iter(names), "")
    described = _prose(item.description).replace("\n", "\n  ")
    return f"* `{name}`: {described}" if name else f"* {described}"


def _prose(text: str) -> str:
    """A docstring's literal blocks are Markdown's, but for the second colon."""
    return _LITERAL.sub(":", text.strip())


def _code(text: str) -> str:
    return f"```python\n{text}\n```"
