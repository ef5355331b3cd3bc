"""The documentation as a site: what Sphinx makes of it, without a warning."""

import re
import sys
import warnings
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.golden.api import public_modules
from tests.golden.cli import public_commands
from tests.pages import WRITTEN, text_of
from tools.docs.site import build


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made without TensorFlow."""
    root = tmp_path_factory.mktemp("site")
    with warnings.catch_warnings(), patch.dict(sys.modules, {"tensorflow": None}):
        warnings.filterwarnings("ignore", module="myst_parser")
        assert build(root) == 0
    return root


def test_every_page_is_in_the_contents_beside_it(site: Path) -> None:
    pages = {str(page.relative_to(site / "pages")) for page in (site / "pages").rglob("*.md")}
    contents = set(re.findall(r'class="reference internal" href="([^"#]+)\.html"', index(site)))
    assert {f"{name}.md" for name in contents} == pages - {"index.md"}
    assert len(pages) > len(WRITTEN)


def test_each_public_name_has_its_section(site: Path) -> None:
    for module, things in public_modules().items():
        text = text_of(site / "pages" / "reference" / "api" / f"{module.path}.md")
        assert re.findall(r"^## `(\w+)`$", text, re.MULTILINE) == [thing.name for thing in things]


def test_each_command_has_its_section_with_its_flags(site: Path) -> None:
    text = text_of(site / "pages" / "reference" / "commands.md")
    lines = public_commands().splitlines()
    assert re.findall(r"^## `(tfwave .+)`$", text, re.MULTILINE) == [
        x for x in lines if not x.startswith(" ")
    ]
    flags = re.findall(r"(?<= )--[a-z-]+", "\n".join(lines))
    assert (
        re.findall(r"(?<=`)--[a-z-]+", "\n".join(row for row in text.splitlines() if row[0:1] == "|"))
        == flags
    )


def test_links_that_leave_the_pages_lead_into_the_site(site: Path) -> None:
    assert "SECURITY.html" in text_of(site / "html" / "how-to" / "cluster.html")
    assert list((site / "html" / "_downloads").rglob("kubeflow_tfjob.yaml"))


def index(site: Path) -> str:
    return text_of(site / "html" / "index.html")
