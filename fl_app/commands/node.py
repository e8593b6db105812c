"""Take part in a federation with rows that stay here: a node that answers with this dpforest, never the code of a run.

It stays until it is interrupted, and keeps the limits of its owner's file whatever a server asks.
"""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path

EXAMPLES = """\
dpforest node --config node.toml --check
dpforest node --superlink superlink.example:9092 --config node.toml
dpforest node status --config node.toml"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The owner's file, and which SuperLink."""
    parser.add_argument("--config", type=Path, required=True, metavar="NODE.TOML", help="what the node's owner says")
    parser.add_argument("--superlink", metavar="HOST:PORT", help="the SuperLink's Fleet API")
    parser.add_argument("--check", action="store_true", help="read file, table and limits, say what is wrong, and end")
    parser.add_argument("--insecure", action="store_true", help="without TLS: for trying things out on one machine")


def execute(options: argparse.Namespace) -> int:
    """Check, or serve until interrupted; exit code 1 if something is wrong."""
    from fl_app.terminal.quiet import quiet_frameworks
    from fl_app.terminal.screen import log_to_screen

    if not options.check and options.superlink is None:
        options.parser.error("one of --superlink HOST:PORT and --check is needed")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # also into a file: whoever starts a service reads on
    quiet_frameworks()
    log_to_screen()
    return _check(options.config) if options.check else _serve(options)


def _check(path: Path) -> int:
    from fl_app.node.check import check_node
    from fl_app.node.owner_file import OwnerFile

    lines, failed = check_node(OwnerFile.read(path))
    print("\n".join(lines))
    return int(failed)


def _serve(options: argparse.Namespace) -> int:
    from fl_app.node.owner_file import OwnerFile
    from fl_app.node.serve import serve
    from fl_app.terminal.interrupts import interruptible

    with interruptible():
        try:
            serve(OwnerFile.read(options.config), options.superlink, options.insecure)
        except KeyboardInterrupt:
            print("the node has left")
    return 0
