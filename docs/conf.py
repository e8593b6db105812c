"""How Sphinx builds the site; ``python -m docs`` does it."""

import os
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(_ROOT), str(_ROOT / "docs")]
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")

from dpforest import __version__  # noqa: E402

project = "dpforest"
author = copyright = "The dpforest developers"
version = release = __version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "directives",
]
exclude_patterns = ["_build", "README.md"]
default_role = "py:obj"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the sections "Parameters" and "Returns" say the types, with shapes and units
autodoc_default_options = {"members": True}
autodoc_preserve_defaults = True
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "examples",
    "filename_pattern": r"examples/[a-z_]+\.py$",  # not those in folders, which start processes
    "ignore_pattern": r"^_",
    "within_subsection_order": "FileNameSortKey",
    "nested_sections": False,
    "download_all_examples": False,
    "show_signature": False,
}

html_theme = "pydata_sphinx_theme"
html_title = f"dpforest {version}"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 5,
    "secondary_sidebar_items": ["page-toc"],
    "article_footer_items": [],
    "footer_start": ["copyright"],
    "footer_end": [],
}
