"""The site: Sphinx over all pages; a warning is an error."""

from pathlib import Path

from sphinx.cmd.build import main

from tests.pages import DOCS
from tools.docs.gather import gather


def build(to: Path) -> int:
    """Write the site into `to`/html, from pages in `to`/pages; not 0 if Sphinx warned, on standard error."""
    gather(to / "pages")
    return main(["-q", "-W", "--keep-going", "-c", str(DOCS), str(to / "pages"), str(to / "html")])
