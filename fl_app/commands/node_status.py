"""Say what a node was asked, what it answered and refused, and what it has spent and may still spend, by run."""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLES = """\
dpforest node status --config node.toml
dpforest node status --config node.toml --csv status.csv"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The owner's file, and where a table is wanted."""
    parser.add_argument("--config", type=Path, required=True, metavar="NODE.TOML", help="what the node's owner says")
    parser.add_argument("--csv", type=Path, help="write a line a run to this file")


def execute(options: argparse.Namespace) -> int:
    """Print the table; exit code 1 if the budget file cannot be read or believed."""
    from fl_app.node.owner_file import OwnerFile
    from fl_app.node.status import node_status, write_csv

    status = node_status(OwnerFile.read(options.config))
    if options.csv is not None:
        write_csv(status, options.csv)
    print(status.text())
    return 0
