"""All pages: links lead somewhere; snippets, commands and names are those of this tfwave."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
import pytest
from typer import Typer
from typer.main import get_command

from tests.pages import (
    DOCS,
    GUIDES,
    PAGES,
    ROOT,
    WRITTEN,
    anchors,
    commands,
    inline,
    links,
    named,
    snippets,
    text_of,
)
from tfwave.cli.app import app
from tfwave.cli.server import server_command

RUN_A_SCRIPT = {"launch", "background"}
"""What follows their script is the script's."""
TABLE = DOCS / "reference" / "cli.md"

each_page = pytest.mark.parametrize("page", PAGES, ids=named)
each_guide = pytest.mark.parametrize("page", GUIDES, ids=named)


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(text_of(page)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        assert not anchor or anchor in anchors(text_of(target)), link


def test_the_index_has_every_page() -> None:
    index = DOCS / "README.md"
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in links(text_of(index))}
    assert linked == set(WRITTEN) - {index}


def test_every_example_is_on_its_page_and_on_another() -> None:
    examples = {path.name for path in (ROOT / "examples").glob("*.*")}
    table = DOCS / "reference" / "examples.md"
    assert set(re.findall(r"examples/(\w+\.\w+)`", text_of(table))) == examples
    others = "".join(text_of(page) for page in GUIDES if page != table)
    assert {name for name in examples if f"examples/{name}" in others} == examples


def test_an_example_that_is_launched_says_so_on_its_page() -> None:
    rows = re.findall(
        r"^\| `(.+) (examples/\w+\.py)` \|", text_of(DOCS / "reference" / "examples.md"), re.MULTILINE
    )
    for command, example in rows:
        assert command.startswith("tfwave launch") == ("tfwave launch" in text_of(ROOT / example)), example
    assert len(rows) > 10


@each_guide
def test_snippets_call_what_there_is(page: Path, api: griffe.Object) -> None:
    for code in snippets(text_of(page), "python"):
        if not code.startswith(">>>"):
            for call in calls(ast.parse(code)):
                taken = parameters(member(api, dotted(call.func)))
                given = {keyword.arg for keyword in call.keywords}
                assert given <= taken or "options" in taken, f"{dotted(call.func)} takes no {given - taken}"


@each_guide
def test_names_are_those_of_the_library(page: Path, api: griffe.Object) -> None:
    code = [*snippets(text_of(page), "python"), *inline(text_of(page))]
    for name in re.findall(r"(?<![\w/.\-])tfwave(?:\.[A-Za-z]\w*)+", "\n".join(code)):
        assert member(api, name) is not None, name


@each_page
def test_commands_are_there_with_their_options(page: Path) -> None:
    for line in commands(text_of(page)):
        if line[1].startswith("-"):
            continue
        command, words = leaf(line[1:])
        if line[1] in RUN_A_SCRIPT:
            words = words[: next((i for i, word in enumerate(words) if word.endswith(".py")), None)]
        assert {word for word in words if word.startswith("-")} <= options(command), line


def test_the_table_has_every_command() -> None:
    rows = {tuple(line[1:]) for line in commands(text_of(TABLE))}
    missing = [path for path in paths(get_command(app)) if not any(row[: len(path)] == path for row in rows)]
    assert missing == []


def test_the_options_of_a_row_are_those_of_its_command() -> None:
    rows = re.findall(r"^\| `tfwave ([^`]+)` \| (.+) \|$", text_of(TABLE), re.MULTILINE)
    for title, told in rows:
        command, _ = leaf(title.split())
        told_flags = " ".join(re.findall(r"`(--?[^`]+)`", told))
        flags = set(re.findall(r"(?<!\S)--?[a-z-]+", told_flags))
        assert flags - {"--help"} <= options(command), title
    assert len(rows) > 20


def test_the_options_of_a_served_task_are_on_its_page() -> None:
    single = Typer(add_completion=False)
    single.command()(server_command)
    text = text_of(DOCS / "how-to" / "cluster.md")
    rows = "\n".join(line for line in text.splitlines() if line.startswith("| `--"))
    assert set(re.findall(r"--[a-z-]+", rows)) == options(get_command(single))


@pytest.fixture(scope="module")
def api() -> griffe.Object:
    """The sources of tfwave: nothing is imported, TensorFlow least of all."""
    loader = griffe.GriffeLoader(search_paths=[ROOT], allow_inspection=False)
    package = loader.load("tfwave")
    loader.resolve_aliases(implicit=False, external=False)
    assert isinstance(package, griffe.Object)
    return package


def member(api: griffe.Object, name: str) -> griffe.Object | None:
    """What a dotted name means, if anything: what a module imports goes before a module of that name."""
    found = api
    for part in name.split(".")[1:]:
        path = found.imports.get(part, "")
        try:
            target = api[path.removeprefix("tfwave.")] if path.startswith("tfwave.") else found[part]
        except KeyError:
            return None
        found = target.final_target if target.is_alias else target
    return found


def parameters(thing: griffe.Object | None) -> set[str]:
    """Of a function, or of what makes an object of a class."""
    assert isinstance(thing, griffe.Function | griffe.Class)
    return {parameter.name for parameter in thing.parameters}


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Those of names that begin with `tfwave.`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and dotted(node.func).startswith("tfwave."):
            yield node


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def leaf(words: list[str]) -> tuple[Any, list[str]]:
    """The command that these words call, and the words behind it."""
    command: Any = get_command(app)
    while inner := getattr(command, "commands", None):
        if not words:
            return command, []
        command, words = inner[words[0]], words[1:]
    return command, words


def paths(command: Any) -> Iterator[tuple[str, ...]]:
    """The words that call each command."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from ((name, *path) for path in paths(inner)) if hasattr(inner, "commands") else [(name,)]


def options(command: Any) -> set[str]:
    """All flags that it takes."""
    flags = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    return {flag for flag in flags if flag.startswith("-")} | {"--help"}
