"""What guarantees about a client's whole data have in common, whatever is learned.

A client's vector of length 1 among n, averaged, carries noise of standard deviation ``1 / S`` in each number after all
releases of a run together, ``S = n mu`` where the noise is that of one (a trusted server's, or shares under secure
aggregation): everything at the level of a client depends on this one public number. About ``S ** 2`` numbers can be
learned. Where each client adds all noise, ``S = sqrt(n) mu``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from dpforest.errors import DPForestError, NothingToLearn
from dpforest.guarantee import TrustModel
from dpforest.ledger import Budget, check_delta_for, rounded_up, spendable_mu
from strategies.method import Task
from strategies.secure_aggregation.sharing import noise_shares

# The signal below which not even a handful of numbers stands out of the noise.
_LEAST_SIGNAL = 2.0
_LARGEST_EPSILON = 1e4


def client_mu(budget: Budget) -> float:
    """What all releases of a run may cost together, as Gaussian differential privacy; infinite for no noise.

    Raises
    ------
    DPForestError
        The budget has no delta.
    """
    if math.isinf(budget.epsilon):
        return math.inf
    if not budget.delta:
        raise DPForestError(
            "privacy.delta is 0, but what protects a client's whole data is Gaussian noise: set it well below "
            "1 / clients, such as 1e-5"
        )
    return spendable_mu(budget)


def signal(task: Task[Any]) -> float:
    """How far the mean of the clients' unit vectors stands out of the noise of a whole run: S of the module."""
    noises = 1 if task.trust is TrustModel.CENTRAL else task.clients
    return task.clients * client_mu(task.budget) / math.sqrt(noises / noise_shares(task))


def check_clients(task: Task[Any]) -> None:
    """Refuse a run in which nothing could be learned, or whole clients may be published.

    Raises
    ------
    NothingToLearn
        Says from which epsilon on something could be.
    DPForestError
        Delta is too large for so many clients.
    """
    if task.clients < 2:
        raise NothingToLearn(
            f"privacy.unit=client with {task.clients} client: all rows are one client's, and a guarantee that hides "
            "its whole data leaves nothing to learn; make each person a client (partition=subject), or use "
            "privacy.unit=record"
        )
    check_delta_for(task.budget.delta, task.clients, "clients")
    if signal(task) >= _LEAST_SIGNAL:
        return

    def at(epsilon: float) -> float:
        return signal(replace(task, budget=Budget(epsilon, task.budget.delta)))

    epsilon = task.budget.epsilon
    while at(epsilon) < _LEAST_SIGNAL and epsilon < _LARGEST_EPSILON:
        epsilon *= 1.05
    enough = math.ceil(_LEAST_SIGNAL / at(task.budget.epsilon) * task.clients)
    raise NothingToLearn(
        f"privacy.unit=client with {task.clients} clients at epsilon {rounded_up(task.budget.epsilon)}: nothing can be "
        f"learned, since what hides one of them hides all; from epsilon {rounded_up(epsilon, 2)} on something could, "
        f"or with {enough} clients or more (privacy.trust=shared needs the fewest)"
    )
