"""The one place that makes a page of facts: HTML for a browser, Markdown for a chat or pull request."""

import math
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwave.errors import TfwaveError
from tfwave.files import write_whole
from tfwave.report.page.facts import Facts
from tfwave.report.page.gather import gather
from tfwave.report.page.given import Given

if TYPE_CHECKING:
    from jinja2 import Environment

CHARTS = "vendor/echarts-6.1.0.min.js"
SCRIPTS = ("page.js", "table.js", "timeline.js", "charts.js", "memory.js", "start.js")
"""The page's own, in the order in which they are needed."""

_PACKAGE = "tfwave.report.page"
_SUFFIXES = (".html", ".htm")
_MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]<>#|~!&"} | {"\n": " ", "\r": " "})


def write_page(given: Given, path: Path) -> Path:
    """Write a page to a file, and the same facts beside it; gives the path of those.

    The same inputs give the same bytes.

    Raises:
        TfwaveError: the name does not end in .html, or it cannot be written; or as `gather`.
    """
    if path.suffix.lower() not in _SUFFIXES:
        raise TfwaveError(f"cannot write the page '{path}': its name must end in {' or '.join(_SUFFIXES)}")
    return write_facts(gather(given), path)


def write_facts(facts: Facts, path: Path) -> Path:
    """The same for facts that were gathered elsewhere, and a name that ends in .html."""
    markdown = path.with_suffix(".md")
    write_whole(path, html(facts).encode())
    write_whole(markdown, as_markdown(facts).encode())
    return markdown


def html(facts: Facts) -> str:
    """One page that needs nothing else: script, style and data are in it."""
    own = "\n".join(_text(f"templates/{name}") for name in SCRIPTS)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            facts=facts,
            data=_plain({section.name: _data(asdict(section)) for section in facts.sections}),
            style=_text("templates/page.css"),
            charts=_text(CHARTS),
            script=own,
        )
    )


def as_markdown(facts: Facts) -> str:
    """The same facts, with the summaries of long tables."""
    return _environment().get_template("page.md.j2").render(facts=facts)


def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    found: Any = Environment(
        loader=PackageLoader(_PACKAGE),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    found.filters["markdown"] = _escaped
    return found


def _escaped(value: object) -> str:
    """As Markdown shows it as it is."""
    return "" if value is None else str(value).translate(_MARKDOWN)


def _data(section: dict[str, Any]) -> dict[str, Any]:
    """What the script draws of a section; the rest is in the page, or in the Markdown alone."""
    return {name: section[name] for name in ("chart", "table")}


def _plain(value: Any) -> Any:
    """For JSON, which knows no number that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _text(name: str) -> str:
    return files(_PACKAGE).joinpath(name).read_text(encoding="utf-8")
