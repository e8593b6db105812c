"""What is audited of an experiment: its method with its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from fl_app.engine.experiment import ConfigurationError, Experiment
from strategies.audit import Subject

_MOST_OTHERS = 8  # clients whose rows are loaded; all others have theirs
_MOST_ROWS = 2000


def subject_of(experiment: Experiment) -> Subject:
    """What is audited of an experiment.

    Raises
    ------
    DPForestError
        Its rows are with the nodes alone, or do not fit it.
    """
    if experiment.source.on_nodes:
        raise ConfigurationError(
            "an audit needs rows to try, and only nodes have any: set dataset.path (or dataset.synthetic)"
        )
    experiment.method.requires(experiment.method.name)
    clients = experiment.clients_for(experiment.partition.count(experiment.source))
    task = experiment.server_task(clients)
    trains = [client for client, role in enumerate(experiment.roles(clients)) if role == "train"]
    rows = []
    for client in trains[:_MOST_OTHERS]:
        train = experiment.client_data(client, clients).train
        rows.append((train.X[:_MOST_ROWS], train.y[:_MOST_ROWS]))
    public = task.public_rows() if task.public_rows else None
    noise: Literal["seeded", "secure"] = "secure" if experiment.noise == "secure" else "seeded"
    return Subject(experiment.method.name, replace(task, public_rows=None), rows, public, noise, experiment.seed)
