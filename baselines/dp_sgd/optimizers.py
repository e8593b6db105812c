"""What a noised gradient does to the weights."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from baselines.dp_sgd.settings import DpSgdSettings
from baselines.mlp.inputs import n_inputs
from dpforest.schema import Schema

# Deviations of chance beyond which a gradient has turned.
_CERTAIN = 3.0


class Optimizer(ABC):
    """Turns gradients into steps.

    Attributes
    ----------
    rate : float
        The learning rate, as it is now.
    """

    rate: float

    @abstractmethod
    def step(self, gradient: np.ndarray) -> np.ndarray:
        """What to subtract from the weights."""


class Sgd(Optimizer):
    """Gradient descent with momentum."""

    def __init__(self, learning_rate: float, momentum: float, size: int) -> None:
        self.rate, self._momentum = learning_rate, np.float32(momentum)
        self._velocity = np.zeros(size, dtype=np.float32)

    def step(self, gradient: np.ndarray) -> np.ndarray:
        self._velocity = self._momentum * self._velocity + gradient
        return np.float32(self.rate) * self._velocity


class HalvingSgd(Sgd):
    """Gradient descent whose rate halves after a step that went too far: where the gradient has turned against it.

    A squared error bends as much as the features move together, which nobody knows in advance: a rate that suits
    independent features throws the weights ever farther where many say the same. All this follows from noised gradients
    alone, so it releases nothing more.

    Parameters
    ----------
    learning_rate, momentum, size
        As for `Sgd`.
    least : float
        Where halving ends.
    chance : float
        Standard deviation of a gradient along any direction, at most: of its noise, and of the rows that were drawn for
        it, which are others in each step. Along a step of length v it has that deviation times v, so what is farther
        below 0 than some of these is no chance. With the noise alone, heavy tails halve the rate where nothing turned.
    """

    def __init__(self, learning_rate: float, momentum: float, size: int, least: float, chance: float) -> None:
        super().__init__(learning_rate, momentum, size)
        self._least, self._chance = least, chance

    def step(self, gradient: np.ndarray) -> np.ndarray:
        along, length = float(gradient @ self._velocity), float(np.linalg.norm(self._velocity))
        if along < -_CERTAIN * self._chance * length:
            self.rate = max(self.rate / 2, min(self.rate, self._least))
            self._velocity[:] = 0
        return super().step(gradient)


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015) with its usual constants."""

    def __init__(self, learning_rate: float, size: int) -> None:
        self.rate = learning_rate
        self._first = np.zeros(size, dtype=np.float32)
        self._second = np.zeros(size, dtype=np.float32)
        self._steps = 0

    def step(self, gradient: np.ndarray) -> np.ndarray:
        self._steps += 1
        self._first += np.float32(0.1) * (gradient - self._first)
        self._second += np.float32(0.001) * (gradient**2 - self._second)
        rate = np.float32(self.rate * (1 - 0.999**self._steps) ** 0.5 / (1 - 0.9**self._steps))
        return rate * self._first / (np.sqrt(self._second) + np.float32(1e-7))


def optimizer_for(settings: DpSgdSettings, schema: Schema, rate: float, size: int, chance: float) -> Optimizer:
    """The optimizer of the settings, at rest.

    Parameters
    ----------
    rate : float
        The learning rate to begin with.
    chance : float
        See `HalvingSgd`.
    """
    if settings.optimizer == "adam":
        return Adam(rate, size)
    momentum = settings.recipe(schema).momentum
    if schema.is_classification or settings.learning_rate != "auto":
        return Sgd(rate, momentum, size)
    # A squared error of a linear model bends at most as the mean squared length of its standardised inputs.
    return HalvingSgd(rate, momentum, size, 1 / (4 * (n_inputs(schema) + 1)), chance)
