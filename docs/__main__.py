"""``python -m docs``: build the site in ``docs/_build/html``; a warning, such as one of a broken link, is an error."""

from __future__ import annotations

import sys
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent


def main() -> int:
    """Build; exit code 1 if anything is wrong."""
    try:
        from sphinx.cmd.build import build_main
    except ImportError:
        print('The site needs pip install "dpforest[docs]"')
        return 1
    target = _FOLDER / "_build"
    options = ["-b", "html", "-q", "-W", "--keep-going", "-d", str(target / "doctrees"), *sys.argv[1:]]
    if failed := build_main([*options, str(_FOLDER), str(target / "html")]):
        return failed
    print(f"the site is in {target / 'html' / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
