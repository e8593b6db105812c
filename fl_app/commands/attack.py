"""Measure what an attacker gets from a finished run: membership, training rows, attributes.

Needs the rows of the run, as they are on this machine. Figures come with what epsilon allows, and with what the same
attacks get from what must break; what they do not get, a better attack may. The run's statement then cites them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLES = """\
dpforest attack runs/2026-01-31_12-00-00-one_shot-watch
dpforest attack RUN --models 16 --output quick.json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run, the effort, and the file to write."""
    parser.add_argument("run", type=Path, help="folder of a finished run")
    parser.add_argument("--models", type=int, metavar="N", help="shadow models (default: 64); fewer widen intervals")
    parser.add_argument("--output", type=Path, metavar="FILE", help="file to write (default: attack.json in the run)")


def execute(options: argparse.Namespace) -> int:
    """Attack, print the tables and write them; exit code 1 if the run cannot be attacked."""
    from fl_app.attack.measure import MODELS, attack
    from fl_app.attack.target import Target
    from fl_app.attack.text import attack_table
    from fl_app.jobs.record import add_statement
    from fl_app.results.attack import ATTACK, write_attack
    from fl_app.terminal.quiet import quiet_frameworks

    quiet_frameworks()
    output = options.output or options.run / ATTACK
    found = attack(Target.of(options.run), MODELS if options.models is None else options.models)
    write_attack(found, output)
    if options.output is None:
        add_statement(options.run)
    print(attack_table(found))
    print(f"\nwritten: {output}")
    return 0
