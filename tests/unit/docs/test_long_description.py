"""What a package index is told: the README, without links to files that it does not have, and what is needed."""

import subprocess
import sys
from email import message_from_string
from email.message import Message

import pytest
from packaging.requirements import Requirement

from tests.pages import ROOT, links, text_of

MADE = "import sys, setuptools.build_meta as made; made.prepare_metadata_for_build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def message(tmp_path_factory: pytest.TempPathFactory) -> Message:
    folder = tmp_path_factory.mktemp("metadata")
    subprocess.run([sys.executable, "-c", MADE, str(folder)], cwd=ROOT, check=True, capture_output=True)
    (metadata,) = folder.glob("*.dist-info/METADATA")
    return message_from_string(text_of(metadata))


def test_a_version_that_ends_every_help_in_a_traceback_is_not_taken(message: Message) -> None:
    """Typer 0.15.3 and older takes any Click, and knows none from 8.2 on."""
    needed = map(Requirement, message.get_all("Requires-Dist", []))
    (typer,) = [each for each in needed if each.name == "typer"]
    assert "0.15.3" not in typer.specifier


def test_the_description_has_the_readme_and_no_dead_link(message: Message) -> None:
    assert message["Description-Content-Type"] == "text/markdown"
    shown = message.get_payload()
    assert isinstance(shown, str)
    readme = text_of(ROOT / "README.md")
    assert [link for link in links(shown) if "://" not in link] == []
    assert [link for link in links(readme) if "://" in link] == links(shown)
    assert shown.count("\n") == readme.count("\n")
    assert "The demo explains the rest" in shown
