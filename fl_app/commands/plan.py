"""Say what a run can be expected to do, before it spends anything: no data is needed but the schema.

The noise of each release against what the schema's rows can add, trees that stand out of it, the least epsilon of use,
seconds and bytes, and the score of a run on made-up rows. Options are those of dpforest run, and clients=N. Exit code 1
if the run would be refused for its epsilon.
"""

from __future__ import annotations

import argparse
import logging

EXAMPLES = """\
dpforest plan strategy=boost dataset=table dataset.schema=schema.yaml clients=30 privacy.epsilon=1
dpforest plan strategy=one_shot dataset=table dataset.schema=schema.yaml clients=30 privacy.epsilon=0.1 --no-score
dpforest plan strategy=dp_sgd dataset=watch privacy.epsilon=1 privacy.delta=1e-6"""
_CLIENTS = "clients="
FAILED = 2  # exit code where no answer can be given


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is planned."""
    parser.add_argument("overrides", nargs="*", metavar="NAME=VALUE", help="options of a run, and clients=N")
    parser.add_argument("--no-score", action="store_true", help="no run on made-up rows: an answer within seconds")


def execute(options: argparse.Namespace) -> int:
    """Print the forecast; the exit code says whether the run would begin."""
    from fl_app.terminal.quiet import quiet_frameworks
    from fl_app.terminal.screen import log_to_screen

    quiet_frameworks()
    log_to_screen(logging.WARNING)  # a run on made-up rows is not news
    return _plan(options)


def _plan(options: argparse.Namespace) -> int:
    from fl_app.config.compose import compose_config, to_experiment
    from fl_app.engine.experiment import ConfigurationError
    from fl_app.forecast.forecast import forecast
    from fl_app.forecast.text import forecast_text
    from fl_app.terminal.screen import screen_width

    named = [text.removeprefix(_CLIENTS) for text in options.overrides if text.startswith(_CLIENTS)]
    if named and not named[-1].isdecimal():
        raise ConfigurationError(f"clients={named[-1]} must be a whole number, such as clients=30")
    experiment = to_experiment(compose_config([text for text in options.overrides if not text.startswith(_CLIENTS)]))
    experiment.method.requires(experiment.method.name)
    found = forecast(experiment, int(named[-1]) if named else None, is_scored=not options.no_score)
    print(forecast_text(found, screen_width()))
    return int(bool(found.refused))
