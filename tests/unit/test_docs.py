"""The pages that are made from the code, or run as it."""

import doctest
from pathlib import Path

from tfwave.passes.catalogue import catalogue_page

DOCS = Path(__file__).parents[2] / "docs"


def test_the_catalogue_page_is_fresh() -> None:
    assert (DOCS / "passes.md").read_text() == catalogue_page(), "run `make docs`"


def test_the_page_on_own_passes_runs() -> None:
    failed, tried = doctest.testfile(
        str(DOCS / "write_a_pass.md"), module_relative=False, optionflags=doctest.IGNORE_EXCEPTION_DETAIL
    )
    assert failed == 0
    assert tried > 10
