"""All pages of the documentation in one directory: those of docs/, of the repository, and made ones.

Sources stay as GitHub shows them: one index with lists of links, and links by path. Here the index gets the tables
of contents that Sphinx asks for, and links that leave docs/ lead to the copies.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.pages import DOCS, ROOT, WRITTEN
from tools.docs.api import api_pages
from tools.docs.commands import commands_page

INDEX = DOCS / "README.md"
OF_THE_REPOSITORY = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^()\s#]+)")
_LISTED = re.compile(r"^\* \[[^\]]+\]\((\S+)\.md\)", re.MULTILINE)


def gather(to: Path) -> None:
    """Write all pages into a directory, which is emptied first."""
    shutil.rmtree(to, ignore_errors=True)
    made = {"reference/commands": commands_page()}
    made |= {f"reference/api/{name}": text for name, text in api_pages().items()}
    for page in (*WRITTEN, *(ROOT / name for name in OF_THE_REPOSITORY)):
        _write(to / _place(page), _with_links(page))
    for name, text in made.items():
        _write(to / f"{name}.md", text)
    _write(to / "index.md", _index(_with_links(INDEX), made))
    shutil.copytree(ROOT / "examples", to / "examples", ignore=shutil.ignore_patterns("__pycache__"))


def _place(path: Path) -> Path:
    """Where a file of the repository is among the pages."""
    if path == INDEX:
        return Path("index.md")
    return path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT)


def _with_links(page: Path) -> str:
    """The text of a page with its links from the root of all pages."""
    return _LINK.sub(lambda found: f"/{_place((page.parent / found[1]).resolve())}", page.read_text())


def _index(text: str, made: Mapping[str, str]) -> str:
    """With a table of contents behind each section: of what it lists, made pages and those of the repository."""
    head, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    parts = [head]
    for section in sections:
        title, _, body = section.partition("\n")
        listed = [name.removeprefix("/") for name in _LISTED.findall(body)]
        parts += [
            f"## {title}\n{body}\n",
            _contents(title, [*listed, *(made if title == "Reference" else ())]),
        ]
    project = [Path(name).stem for name in OF_THE_REPOSITORY]
    return "".join([*parts, _contents("Project", project)])


def _contents(title: str, names: list[str]) -> str:
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *names, "```", "", ""])


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
