"""Measure a lower bound of epsilon on all that a client of a run sends, and hold it against the run's guarantee.

Options are those of `dpforest run`. The client's side alone is repeated, with one record and without it, on worst cases
and on your own rows; the same with half the noise shows what the audit could have seen. Exit code 1 if the guarantee
does not hold.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

EXAMPLES = """\
dpforest audit strategy=boost dataset=exercise privacy.epsilon=1
dpforest audit strategy=one_shot privacy.noise=secure --seconds 600 output=audits/one_shot
dpforest audit strategy=one_shot dataset=watch strategy.leaf_share=0.9 --canaries 1000"""
FAILED = 2  # exit code where no answer can be given


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is audited, and how long."""
    parser.add_argument(
        "overrides", nargs="*", metavar="NAME=VALUE", help="options; output=DIR keeps the result in DIR/audit.json"
    )
    parser.add_argument("--seconds", type=float, default=150.0, help="about how long it may take (default: 150)")
    parser.add_argument("--repetitions", type=int, metavar="N", help="how many, in place of --seconds")
    parser.add_argument(
        "--canaries", type=int, metavar="N", help="one whole run with N canaries in place of repetitions"
    )
    parser.add_argument("--confidence", type=float, default=0.95, help="of the bounds (default: 0.95)")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (default: one a core)")


def execute(options: argparse.Namespace) -> int:
    """Audit; the exit code says whether the guarantee was refuted."""
    from fl_app.terminal.quiet import quiet_frameworks
    from fl_app.terminal.screen import log_to_screen

    quiet_frameworks()
    log_to_screen()
    _check(options)
    return _audit(options)


def _check(options: argparse.Namespace) -> None:
    from fl_app.engine.experiment import ConfigurationError

    if not 0 < options.confidence < 1:
        raise ConfigurationError(f"--confidence {options.confidence:g} must lie between 0 and 1, such as 0.95")
    if not 0 < options.seconds < float("inf"):
        raise ConfigurationError(f"--seconds {options.seconds:g} must be a number above 0")
    if options.canaries is not None and options.repetitions is not None:
        raise ConfigurationError("--canaries takes one run and --repetitions many: give one of them")
    for name in ("repetitions", "canaries", "jobs"):
        if (value := getattr(options, name)) is not None and value < 1:
            raise ConfigurationError(f"--{name} {value} must be a whole number from 1")


def _audit(options: argparse.Namespace) -> int:
    import logging

    from fl_app.config.compose import compose_config, to_experiment
    from fl_app.engine.audit import subject_of
    from fl_app.jobs.record import add_statement
    from fl_app.results.audit_file import check_free, write_audit
    from fl_app.results.audit_text import audit_lines
    from fl_app.results.run_folder import is_finished
    from strategies.audit import audit_method, audit_method_in_one_run

    config = compose_config(options.overrides)
    folder = Path(config.output).expanduser() if config.output else None
    if folder is not None:
        check_free(folder)
    experiment = to_experiment(config)
    subject = subject_of(experiment)
    common: dict[str, Any] = {
        "confidence": options.confidence,
        "jobs": options.jobs or os.cpu_count() or 1,
        "progress": logging.getLogger("fl_app").info,
    }
    if options.canaries is not None:
        found = audit_method_in_one_run(subject, options.canaries, **common)
    else:
        found = audit_method(subject, seconds=options.seconds, repetitions=options.repetitions, **common)
    print("\n".join(audit_lines(found)))
    if folder is not None:
        print(f"result: {write_audit(found, experiment, folder)}")
        if is_finished(folder):
            add_statement(folder)
    return int(found.violated)
