"""Write docs/passes.md again from the docstrings of the passes, and build the site of all pages.

python -m tools.docs
"""

import sys

from tests.pages import DOCS
from tfwave.passes.catalogue import catalogue_page
from tools.docs.site import build

SITE = DOCS / "_build"

if __name__ == "__main__":
    (DOCS / "passes.md").write_text(catalogue_page())
    status = build(SITE)
    if not status:
        print(f"{SITE / 'html' / 'index.html'} written")
    sys.exit(status)
