"""What record-level DP-SGD releases about a client's rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TypeVar

from baselines.dp_sgd.settings import DpSgdSettings
from baselines.mlp.inputs import n_inputs
from baselines.mlp.settings import products
from baselines.mlp.sides import standardize_entries
from dpforest.guarantee import NO_SERVER, RECORD_UNIT, TrustModel
from dpforest.ledger import Entry
from dpforest.mechanisms import GaussianSums
from strategies.forests import LEAST_ROWS
from strategies.method import Protection, Task, Work
from strategies.secure_aggregation.sharing import shared_protection

STEPS_WHAT = "noised gradients, from which the sent weights follow"
SomeTask = TypeVar("SomeTask", bound=Task)


def protections(settings: DpSgdSettings) -> tuple[Protection, ...]:
    """Records, under noise of each client, or of all together."""
    return (Protection(RECORD_UNIT, NO_SERVER, True), shared_protection(RECORD_UNIT, settings))


def settled_task(task: SomeTask) -> SomeTask:
    """The task with numbers for every ``auto``; see `DpSgdSettings.settled`."""
    return replace(task, settings=task.settings.settled(task))


def steps_mechanism(task: Task[DpSgdSettings], multiplier: float) -> GaussianSums:
    """Of one step.

    A row is in a batch with the public probability q, independently of the others, and then moves the sum of clipped
    gradients by ``clip`` at most.
    """
    settings = task.settings
    mu = 1 / multiplier if multiplier else math.inf
    return GaussianSums(float(settings.clip), mu, settings.probability(task.schema))


def steps_entry(task: Task[DpSgdSettings], multiplier: float) -> Entry:
    """All noised gradients of the run, in all rounds in which a client takes part.

    The sampled Gaussian mechanism, composed over the steps.
    """
    settings = task.settings
    return steps_mechanism(task, multiplier).entry(
        STEPS_WHAT,
        times=settings.recipe(task.schema).steps * settings.rounds_a_client(task.rounds, task.clients),
        note="paid in advance for all rounds in which the client can take part",
    )


def run_entries(task: Task, multiplier: float) -> list[Entry]:
    """All that a client releases over the run."""
    return [
        *standardize_entries(task.settings, task.budget, n_inputs(task.schema)),
        steps_entry(task, multiplier),
    ]


def work(task: Task[DpSgdSettings]) -> Work:
    """The steps of a round on batches whose size follows from the number of rows that there are, or one on all rows."""
    task = settled_task(task)
    settings, rows = task.settings, max(task.schema.rows or 0, LEAST_ROWS)
    size = settings.architecture(task.schema).size
    if task.trust is TrustModel.SHARED:
        return Work(products=products(size, 1, rows))
    steps = settings.recipe(task.schema).steps
    return Work(products=products(size, steps, steps * settings.probability(task.schema) * rows))
