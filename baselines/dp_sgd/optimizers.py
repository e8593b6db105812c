"""What a noised gradient does to the weights."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from baselines.dp_sgd.settings import DpSgdSettings
from dpforest.ledger import Budget
from dpforest.schema import Schema


class Optimizer(ABC):
    """Turns gradients into steps."""

    @abstractmethod
    def step(self, gradient: np.ndarray) -> np.ndarray:
        """What to subtract from the weights."""


class Sgd(Optimizer):
    """Gradient descent with momentum."""

    def __init__(self, learning_rate: float, momentum: float, size: int) -> None:
        self._rate, self._momentum = np.float32(learning_rate), np.float32(momentum)
        self._velocity = np.zeros(size, dtype=np.float32)

    def step(self, gradient: np.ndarray) -> np.ndarray:
        self._velocity = self._momentum * self._velocity + gradient
        return self._rate * self._velocity


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015) with its usual constants."""

    def __init__(self, learning_rate: float, size: int) -> None:
        self._rate = learning_rate
        self._first = np.zeros(size, dtype=np.float32)
        self._second = np.zeros(size, dtype=np.float32)
        self._steps = 0

    def step(self, gradient: np.ndarray) -> np.ndarray:
        self._steps += 1
        self._first += np.float32(0.1) * (gradient - self._first)
        self._second += np.float32(0.001) * (gradient**2 - self._second)
        rate = np.float32(self._rate * (1 - 0.999**self._steps) ** 0.5 / (1 - 0.9**self._steps))
        return rate * self._first / (np.sqrt(self._second) + np.float32(1e-7))


def optimizer_for(settings: DpSgdSettings, schema: Schema, budget: Budget, size: int) -> Optimizer:
    """The optimizer of the settings, at rest."""
    rate = settings.rate(schema, budget)
    if settings.optimizer == "adam":
        return Adam(rate, size)
    return Sgd(rate, settings.recipe(schema).momentum, size)
