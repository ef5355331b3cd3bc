"""The pages for people, and what is in them: headings, links, snippets, commands."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
WRITTEN = tuple(sorted(page for page in DOCS.rglob("*.md") if DOCS / "_build" not in page.parents))
"""All below docs/, but for what `make docs` makes of it."""
GUIDES = (ROOT / "README.md", *WRITTEN)
"""What a user reads to use tfwave."""
PAGES = (*GUIDES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md")

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_INDENTED = re.compile(r"^(?: {4})+ *(tfwave .+)$", re.MULTILINE)
_INLINE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[[^\]]+\]\(([^()\s]+)\)")


def text_of(page: Path) -> str:
    """The whole page."""
    return page.read_text(encoding="utf-8")


def all_guides() -> str:
    """All that a user reads, in one text."""
    return "\n".join(map(text_of, GUIDES))


def named(page: Path) -> str:
    """The page, as tests and links call it."""
    return str(page.relative_to(ROOT))


def snippets(text: str, language: str) -> list[str]:
    """Fenced blocks of a language."""
    return [code for of, code in _FENCED.findall(text) if of == language]


def links(text: str) -> list[str]:
    """Where the prose leads to."""
    return _LINK.findall(_INLINE.sub("code", _FENCED.sub("", text)))


def anchors(text: str) -> set[str]:
    """What a link to a heading may name, as GitHub makes it."""
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCED.sub("", text)):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        again = (f"{slug}-{count}" for count in range(1, len(found) + 1))
        found.add(next(name for name in (slug, *again) if name not in found))
    return found


def inline(text: str) -> list[str]:
    """What is set as code in the prose, each on one line."""
    return [" ".join(code.split()) for code in _INLINE.findall(_FENCED.sub("", text))]


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command line of tfwave, in a block or in the prose."""
    lines = _INDENTED.findall(_FENCED.sub("", text).replace("\\\n", " "))
    lines += [code.replace("\\|", "|") for code in inline(text) if code.startswith("tfwave ")]
    return (shlex.split(line, comments=True) for line in lines)
