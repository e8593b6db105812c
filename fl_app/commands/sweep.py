"""Run every combination of several values in one warm simulation, and write results.csv and a report of all.

Values are listed (seed=0,1,2), counted (seed=range(5)) or found (strategy=glob(one_shot*)). Options that only some of
the strategies have go to those. An experiment file brings lists of its own.
"""

from __future__ import annotations

import argparse

from fl_app.commands import run

EXAMPLES = """\
dpforest sweep strategy=one_shot,standalone privacy.epsilon=0.1,1,10 'seed=range(5)'
dpforest sweep experiment=compare_watch
dpforest sweep strategy=one_shot,boost strategy.min_leaf=3 strategy.bins=32,64
dpforest sweep --config-dir mine experiment=mine
dpforest sweep 'seed=range(20)' engine.kind=in_process hydra/launcher=joblib
dpforest sweep 'strategy.depth=range(3,9)' hydra/sweeper=optuna hydra.sweeper.n_trials=20"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What a sweep takes."""
    run.add_sweep_arguments(parser)


def execute(options: argparse.Namespace) -> int:
    """Run all; exit code 1 if any failed, but for those in which nothing can be learned."""
    options.multirun = True
    return run.execute(options)
