"""What the owner of a real node allows. Read from the node's own configuration; no message can change it."""

from __future__ import annotations

import json
import math
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flwr.app import Context

from dpforest.errors import DPForestError
from fl_app.experiment import Experiment

# What a node accepts when its owner has set no limit.
_USUAL_EPSILON = 1.0
_USUAL_DELTA = 1e-5


class Refused(DPForestError):
    """The node's owner does not allow what the server asks."""


def is_simulated(context: Context) -> bool:
    """Whether this process plays a node of a simulation on this machine.

    Decided here and never by a message: a real node always draws secure noise.
    """
    if context.node_config.get("in-process") is True:
        return True
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def check_owner_allows(experiment: Experiment, context: Context, judging: bool) -> None:
    """Hold an experiment against the node's configuration.

    Parameters
    ----------
    experiment : Experiment
        What the server asks.
    context : Context
        Of the node: ``max-epsilon``, ``max-delta``, ``strategies``, ``data-path``, ``share-metrics``.
    judging : bool
        Whether test metrics are asked for.

    Raises
    ------
    Refused
        Names what is not allowed and how the owner could allow it.
    """
    own = context.node_config
    simulated = is_simulated(context)
    privacy, method = experiment.privacy, experiment.method
    # Epsilon means nothing to a method without a budget: if it sends anything, only its name in `strategies` allows it.
    if method.uses_budget and ("max-epsilon" in own or not simulated):
        _check_limit("epsilon", privacy.epsilon, float(own.get("max-epsilon", _USUAL_EPSILON)), "max-epsilon")
    if simulated:
        return
    if method.uses_budget:
        _check_limit("delta", privacy.delta, float(own.get("max-delta", _USUAL_DELTA)), "max-delta")
    named = str(own.get("strategies", "")).replace(",", " ").split()
    if method.name not in named and (named or not method.protects_itself(experiment.settings)):
        raise Refused(
            f"this node does not take part in strategy {method.name} ({experiment.trust}); its owner can allow it in "
            f'the node configuration: strategies="{method.name}"'
        )
    if experiment.dataset.get("path") is not None or isinstance(experiment.dataset.get("schema"), str):
        raise Refused("this node opens no file that a server names; its owner sets data-path in the node configuration")
    if judging and own.get("share-metrics") is not True:
        raise Refused("this node does not share metrics (node configuration share-metrics=true allows it)")


def spend_lifetime_budget(experiment: Experiment, context: Context) -> None:
    """Add a run to the node's ``budget-file``, if its owner keeps one.

    Then ``max-epsilon`` and ``max-delta`` hold for all runs together: what different runs release about the same rows
    adds up. A run of a method without a budget is written down with no epsilon and does not count.

    Raises
    ------
    Refused
        The run would bring the total above ``max-epsilon``, or the file cannot be read or written.
    """
    file = context.node_config.get("budget-file")
    if file is None:
        return
    path = Path(str(file))
    try:
        runs: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        counts = experiment.method.uses_budget
        for name, usual in (("epsilon", _USUAL_EPSILON), ("delta", _USUAL_DELTA)) if counts else ():
            earlier = (float(run[name]) for run in runs if run[name] is not None)
            total = math.fsum([getattr(experiment.privacy, name), *earlier])
            limit = float(context.node_config.get(f"max-{name}", usual))
            _check_limit(f"{name} of this and all earlier runs,", total, limit, f"max-{name}")
        runs.append(
            {
                "when": datetime.now(UTC).isoformat(timespec="seconds"),
                "run": context.run_id,
                "strategy": experiment.method.name,
                "epsilon": experiment.privacy.epsilon if counts else None,
                "delta": experiment.privacy.delta if counts else None,
                "unit": experiment.method.unit,
                "trust": experiment.trust,
            }
        )
        partial = path.with_name(path.name + ".partial")
        partial.write_text(json.dumps(runs, indent=1), encoding="utf-8")
        os.replace(partial, path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, Refused):
            raise
        raise Refused(f"this node cannot keep its budget-file: {type(error).__name__}") from error


def _check_limit(what: str, asked: float, limit: float, option: str) -> None:
    # Written so that a limit that is no number allows nothing; sums of shares round.
    if not asked <= limit * (1 + 1e-9):
        raise Refused(f"{what} {asked:g} is above this node's {option} {limit:g}")
