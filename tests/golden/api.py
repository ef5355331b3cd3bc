"""The public API as text, read from the sources: nothing is imported, TensorFlow least of all.

First what each public module offers, then the types that all this takes and gives, by name, wherever they live.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import griffe

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("balance", "colocate", "distribute", "embedding", "keras")
_SPOKEN = ("__call__", "__enter__", "__exit__", "__init__")
"""Methods that have a syntax of their own; the other ones of that kind say nothing of parameters."""
_MESSAGES = "tfwave.proto."
"""They have their .proto files."""
_INDENT = "    "


def public_api() -> str:
    """All public names, with signatures, fields and properties."""
    modules = public_modules()
    lines: list[str] = []
    for module, found in modules.items():
        lines += ["", f"module {module.path}", *_indented(line for thing in found for line in _lines(thing))]
    offered = [thing for found in modules.values() for thing in found]
    package = next(iter(modules)).package
    lines += ["", "types", *_indented(line for text in _types_of(offered, package) for line in text)]
    return "".join(f"{line}\n" for line in lines[1:])


@cache
def public_modules() -> dict[griffe.Object, list[griffe.Object]]:
    """What each public module offers, by name."""
    loader = griffe.GriffeLoader(search_paths=[ROOT], allow_inspection=False)
    package = loader.load("tfwave")
    assert isinstance(package, griffe.Object)
    loader.resolve_aliases(implicit=False, external=False)
    return {module: _offered(module) for module in (package, *(package[name] for name in PACKAGES))}


def _offered(module: griffe.Object) -> list[griffe.Object]:
    """What a module imports from elsewhere in tfwave under a public name, but for other modules."""
    imports = sorted(module.imports.items())
    found = [
        _at(module.package, path) for name, path in imports if path.startswith("tfwave.") and is_public(name)
    ]
    return [thing for thing in found if not thing.is_module]


def _at(package: griffe.Object, path: str) -> griffe.Object:
    found = package[path.removeprefix("tfwave.")]
    return found.final_target if found.is_alias else found


def _types_of(things: Iterable[griffe.Object], package: griffe.Object) -> list[list[str]]:
    """The lines of what the annotations of things name, and of what those of that name; not of the things."""
    left = list(things)
    seen = {thing.path: thing for thing in left}
    given = set(seen)
    while left:
        for path in _named(left.pop()):
            if path.startswith("tfwave.") and not path.startswith(_MESSAGES) and path not in seen:
                seen[path] = _at(package, path)
                left.append(seen[path])
    others = [thing for path, thing in seen.items() if path not in given and is_public(thing.name)]
    texts = {(thing.name, *_lines(thing)) for thing in others}  # two modules may have the same alias
    return [lines for _, *lines in sorted(texts)]


def _named(thing: griffe.Object) -> Iterator[str]:
    for expression in _annotations(thing):
        if isinstance(expression, griffe.Expr):
            names = (part for part in expression.iterate(flat=True) if isinstance(part, griffe.ExprName))
            yield from (name.canonical_path for name in names)


def _annotations(thing: griffe.Object) -> Iterator[str | griffe.Expr | None]:
    if isinstance(thing, griffe.Function):
        yield from (parameter.annotation for parameter in thing.parameters)
        yield thing.returns
    elif isinstance(thing, griffe.Attribute):
        yield thing.annotation
        yield thing.value if _is_alias(thing) else None
    elif isinstance(thing, griffe.Class):
        yield from thing.bases
        for member in members(thing):
            yield from _annotations(member)


def _lines(thing: griffe.Object) -> Iterator[str]:
    if isinstance(thing, griffe.Attribute):
        yield _attribute(thing)
        return
    yield from (f"@{decorator.value}" for decorator in getattr(thing, "decorators", ()))
    if isinstance(thing, griffe.Function):
        yield f"def {thing.signature()}"
    elif isinstance(thing, griffe.Class):
        bases = ", ".join(map(str, thing.bases))
        yield f"class {thing.name}({bases})" if bases else f"class {thing.name}"
        yield from _indented(line for member in members(thing) for line in _lines(member))


def _attribute(thing: griffe.Attribute) -> str:
    """A constant, a field with its default, a property; of what `__init__` sets, the name."""
    annotation = "" if thing.annotation is None else f": {thing.annotation}"
    if "property" in thing.labels:
        return f"@property {thing.name}{annotation}"
    is_set = thing.labels == {"instance-attribute"} or thing.value is None
    return f"{thing.name}{annotation}{'' if is_set else f' = {thing.value}'}"


def members(thing: griffe.Class) -> list[griffe.Object]:
    """Public ones, inherited ones too; fields in their sequence, which is that of the parameters."""
    spoken = () if "dataclass" in thing.labels else _SPOKEN
    members = (member for name, member in thing.all_members.items() if is_public(name) or name in spoken)
    return [member.final_target if member.is_alias else member for member in members]


def is_public(name: str) -> bool:
    return not name.startswith("_") or name == "__version__"


def _is_alias(thing: griffe.Attribute) -> bool:
    return thing.parent is not None and thing.parent.is_module


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"{_INDENT}{line}" for line in lines)
