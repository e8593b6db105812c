"""One node that is sent single messages, simulated or real."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from hand_made import CLIENTS

from fl_app.client_app import app
from fl_app.engine.experiment import Experiment
from strategies.flower_compat import SimulatedContext
from strategies.messages import ARRAYS, CONFIG
from strategies.node.budget_file import BudgetFile

_runs = itertools.count(1)
ALL_RUNS = "all runs together would spend more than this node's owner allows"


def node(simulated: bool = False, **settings: Any) -> Context:
    """A node that plays client 0, in a Flower run of its own."""
    kind = SimulatedContext if simulated else Context
    config = {"partition-id": 0} | settings
    return kind(run_id=next(_runs), node_id=1000, node_config=config, state=RecordDict(), run_config={})


def ask(
    context: Context,
    experiment: Experiment | str,
    kind: str = MessageType.TRAIN,
    arrays: Mapping[str, Any] | None = None,
    /,
    **config: Any,
) -> RecordDict:
    """Send one message and return the content of the reply; a setting of None is left out."""
    text = experiment if isinstance(experiment, str) else experiment.to_json()
    settings = {"experiment": text, "run": "run 1", "clients": CLIENTS, "round": 1} | config
    content = RecordDict({CONFIG: ConfigRecord({k: v for k, v in settings.items() if v is not None})})
    if arrays is not None:
        plain = {k: v if isinstance(v, Array) else Array(np.ascontiguousarray(v)) for k, v in arrays.items()}
        content[ARRAYS] = ArrayRecord(plain)
    return app(Message(content, 1000, kind), context).content


def error(reply: RecordDict) -> str:
    assert set(reply) == {CONFIG}, "a refusal carries no arrays and no metrics"
    return str(reply[CONFIG]["error"])


def own(dataset: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
    """The node configuration of an owner who says where the data is, and allows what `make` asks."""
    return {"data-path": str(dataset["path"]), "max-epsilon": 2.0, **settings}


def spent_nothing(budget_file: Path) -> bool:
    """Whether no run is in a budget file; that a message came is."""
    return not budget_file.exists() or not BudgetFile(budget_file).runs()
