"""What of an update is sent, and how far the model goes along the mean of what was."""

from __future__ import annotations

import numpy as np

from baselines.dp_fedavg.settings import DpFedAvgSettings
from baselines.mlp.architecture import Architecture
from strategies.client_level import signal
from strategies.method import Task

# Noise that all rounds of unit vectors together put on a score; chosen on validation people.
_SCORE_NOISE = 0.8
# Length of the way that the model goes at most: further, a linear model gains nothing, and a network is spoilt.
_LONGEST_LINEAR, _LONGEST_NETWORK = 60.0, 20.0
# The same towards a target, whose public range is -1 to 1: no direction says that it is reached. On a made-up table a
# linear model erred ever more with ways of 1, 2, 4 and 8 at epsilon 1, 10 and without noise, a network without noise
# with 1, 3 and 20.
_LONGEST_TARGET = 1.0
# Of offsets of a linear model of classes: a client's are not those of all, and would take most of a direction.
_OFFSET_SCALE = 0.1


def scales(settings: DpFedAvgSettings, architecture: Architecture) -> np.ndarray:
    """Factors of the weights, shape (size,): what is bounded is an update times these, and so is what is learned."""
    factors = {name: np.ones(shape) for name, shape in architecture.shapes.items()}
    if settings.update == "unit" and not architecture.hidden and architecture.classifies:
        factors["output/bias"] *= _OFFSET_SCALE
    return architecture.flatten(factors)


def step_length(task: Task[DpFedAvgSettings]) -> float:
    """Factor on the mean of the updates.

    With inputs of length at most 1, B rounds of steps eta on unit vectors leave noise of deviation ``eta B / S`` on a
    score, with S of `strategies.client_level.signal`, whatever the number of weights. So ``eta = tau S / B`` puts tau
    on every score, and there is no step to choose.
    """
    settings = task.settings
    if settings.server_learning_rate != "auto":
        return float(settings.server_learning_rate)
    if settings.update == "clip":
        return 1.0
    if not task.schema.is_classification:
        longest = _LONGEST_TARGET
    elif settings.hidden:
        longest = _LONGEST_NETWORK
    else:
        longest = _LONGEST_LINEAR
    return min(_SCORE_NOISE * signal(task), longest) / task.rounds
