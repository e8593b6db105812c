"""The server's door for ``flwr run``: a simulation or a federation of SuperNodes."""

from __future__ import annotations

import logging
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from dpforest.errors import DPForestError
from fl_app.config.compose import compose_config, split_overrides, to_experiment
from fl_app.engine.experiment import ConfigurationError
from fl_app.jobs.record import default_output, run_job
from fl_app.results.mlflow import build_tracker
from fl_app.terminal.screen import log_to_screen
from strategies.federation.roster import roster, wait_for_nodes
from strategies.method import TooFewClients

app = ServerApp()
log = logging.getLogger(__name__)


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the experiment that the run configuration describes."""
    log_to_screen()
    try:
        overrides = split_overrides(str(context.run_config.get("overrides", "")))
        config = compose_config(overrides)
        if config.output is not None:
            raise ConfigurationError(
                "output is given apart from overrides: --run-config \"overrides='...' output='/dir'\""
            )
        experiment = to_experiment(config)
        experiment.method.requires(experiment.method.name)
        nodes = roster(grid, wait_for_nodes(grid, 1, experiment.timeout), experiment.timeout)
        # The working directory is that of the SuperLink, so relative folders would go astray.
        base = Path(str(context.run_config.get("output") or Path.home() / "dpforest-runs")).expanduser()
        tracker = build_tracker(config.tracking, "flwr run", base)
        run_job(experiment, grid, default_output(experiment, base.absolute()), nodes, overrides, tracker=tracker)
    except (DPForestError, TooFewClients) as error:
        log.error("error: %s", error)
        # Flower must see it fail: at an exit it would lose the last messages, this one too, let `flwr run` wait until
        # the heartbeats stop, and call a simulation completed.
        raise error.with_traceback(None) from None
