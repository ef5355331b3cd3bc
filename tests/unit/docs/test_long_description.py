"""What a package index shows: the README, without links to files that the index does not have."""

import subprocess
import sys
from email import message_from_string
from pathlib import Path

from tests.pages import ROOT, links, text_of

MADE = "import sys, setuptools.build_meta as made; made.prepare_metadata_for_build_wheel(sys.argv[1])"


def test_the_description_has_the_readme_and_no_dead_link(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", MADE, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    (metadata,) = tmp_path.glob("*.dist-info/METADATA")
    message = message_from_string(text_of(metadata))
    assert message["Description-Content-Type"] == "text/markdown"
    shown = message.get_payload()
    assert isinstance(shown, str)
    readme = text_of(ROOT / "README.md")
    assert [link for link in links(shown) if "://" not in link] == []
    assert [link for link in links(readme) if "://" in link] == links(shown)
    assert shown.count("\n") == readme.count("\n")
    assert "The demo explains the rest" in shown
