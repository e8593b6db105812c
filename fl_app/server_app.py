"""The server's door for ``flwr run``: a simulation or a federation of SuperNodes."""

from __future__ import annotations

import logging
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from dpforest.errors import DPForestError
from fl_app.config.compose import compose_config, split_overrides, to_experiment
from fl_app.engine.experiment import ConfigurationError, Experiment
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
        base = _output_base(context)
        experiment = to_experiment(config)
        experiment.method.requires(experiment.method.name)
        nodes = roster(grid, wait_for_nodes(grid, 1, experiment.timeout), experiment.timeout)
        _warn_of_few(experiment, len(nodes))
        tracker = build_tracker(config.tracking, None, base)
        run_job(experiment, grid, default_output(experiment, base), nodes, overrides, tracker=tracker)
    except (DPForestError, TooFewClients) as error:
        log.error("error: %s", error)
        # Flower must see it fail: at an exit it would lose the last messages, this one too, let `flwr run` wait until
        # the heartbeats stop, and call a simulation completed.
        raise error.with_traceback(None) from None


def _output_base(context: Context) -> Path:
    """Where run folders go.

    Raises
    ------
    ConfigurationError
        The working directory is that of the SuperLink, in which a relative folder would go astray.
    """
    base = Path(str(context.run_config.get("output") or Path.home() / "dpforest-runs")).expanduser()
    if not base.is_absolute():
        raise ConfigurationError(f"output={str(base)!r} must be an absolute folder of the machine of the SuperLink")
    return base


def _warn_of_few(experiment: Experiment, nodes: int) -> None:
    """Say that clients are made of several people each because there are fewer nodes, as Flower's default of two."""
    if experiment.source.on_nodes or experiment.partition.clients is not None:
        return
    subjects, clients = len(experiment.source.subjects()), experiment.clients_for(nodes)
    if experiment.partition.kind in ("subject", "user_types") and clients < subjects:
        log.warning(
            "%d subjects are grouped into %d clients, since so many nodes are there: start %d "
            '(--federation-config "num-supernodes=%d"), or say partition.clients=%d',
            subjects, clients, subjects, subjects, clients,
        )  # fmt: skip
