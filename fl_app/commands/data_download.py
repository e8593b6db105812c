"""Get a public data set.

Mind the licences: several allow research only. A download that broke off goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

EXAMPLES = """\
dpforest data download hugadb --to data
dpforest data download wisdm --to data --url https://example.org/wisdm.zip"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which data set, and where it goes."""
    from fl_app.data.download import CATALOGUE

    parser.add_argument("name", metavar="NAME", help=", ".join(CATALOGUE))
    parser.add_argument("--to", metavar="FOLDER", type=Path, required=True, help="the files go into FOLDER/NAME")
    parser.add_argument("--url", help="another address of the archive")


def execute(options: argparse.Namespace) -> int:
    """Fetch; 0 when the files are there."""
    from fl_app.data.download import download

    try:
        print(download(options.name, options.to, options.url))
    except KeyboardInterrupt:
        print("\nstopped: run the same command again to go on", file=sys.stderr)
        return 130
    print(f"to use it: export DPFOREST_DATA={options.to.expanduser().absolute()}")
    return 0
