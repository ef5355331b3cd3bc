"""Sphinx's settings for the site; `make docs` gathers its pages and builds it."""

from tfwave.version import __version__

project = "tfwave"
author = "the authors of tfwave"
release = __version__
extensions = ["myst_parser"]
html_theme = "furo"
html_title = f"tfwave {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
myst_heading_anchors = 3
