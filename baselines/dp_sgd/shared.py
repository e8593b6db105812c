"""DP-SGD whose noise the clients share: every step is a secure sum of the clipped gradients of all rows of all clients.

No row is drawn by chance, so there is no amplification by sampling; in return every step has all the signal there is,
and the noise of one. A first secure sum, of the rows' features and their squares, standardises the features. What one
release costs is proven in `dpforest.mechanisms.row_vectors`.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from baselines.dp_sgd.settings import DpSgdSettings, public_rows
from baselines.mlp.ghost import block_for, clipped_gradients_for
from baselines.mlp.inputs import model_inputs, n_inputs, targets, to_unit_range, whole_row_sums
from dpforest.ledger import Entry, check_delta_for, spendable_mu
from dpforest.mechanisms import DiscreteGaussianSums, scaled_sums, squared_norm, whole_sum
from dpforest.noise import Seeded
from strategies.messages import BadMessage
from strategies.method import Arrays, ClientTask, Task, Update
from strategies.secure_aggregation.sharing import SecureTerms, noise_shares, secure_update, terms_for

STEP = "step"
STANDARDIZE, GRADIENTS = "standardize", "gradients"
# What the bound of a row becomes in whole numbers, at least.
_LEAST_UNITS = 1 << 16
# How many times the public number of rows a client may have before its sums are cut off.
_ROOM = 8


@dataclass(frozen=True)
class SharedPlan:
    """What every client does and pays.

    Parameters
    ----------
    steps : int
        Of the run.
    records : int
        Public number of rows of all clients, by which sums are divided.
    row_units, units : int
        What 1 becomes in the sums for the standardisation, and the clip in those of gradients.
    row_sums, gradients : DiscreteGaussianSums
        Of one release.
    row_entry, entry : Entry
        Ledger lines of the standardisation (None without), and of one step.
    """

    steps: int
    records: int
    row_units: int
    row_sums: DiscreteGaussianSums | None
    row_entry: Entry | None
    units: int
    gradients: DiscreteGaussianSums
    entry: Entry

    def planned(self) -> list[Entry]:
        """All releases of one client."""
        return [*([self.row_entry] if self.row_entry else []), dataclasses.replace(self.entry, times=self.steps)]


def shared_plan(task: Task[DpSgdSettings]) -> SharedPlan:
    """The plan of a run, by public facts alone.

    Parameters
    ----------
    task : Task
        With settings that are settled (`DpSgdSettings.settled`).

    Raises
    ------
    DPForestError
        The budget has no delta, or so much or so little noise does not fit whole numbers.
    """
    settings, shares = task.settings, noise_shares(task)
    rows = public_rows(task.schema)
    check_delta_for(task.budget.delta, rows)
    mu = spendable_mu(task.budget)
    steps = task.rounds * settings.recipe(task.schema).steps
    width, size = n_inputs(task.schema), settings.architecture(task.schema).size
    share = float(settings.standardize_share) if settings.standardize == "private" else 0.0
    row_units, row_sums, row_entry = 1, None, None
    if share:
        row_units, row_sums = scaled_sums(
            _LEAST_UNITS, lambda unit: (2 * width + 1) * unit**2, mu * math.sqrt(share), shares
        )
        note = f"a row adds {2 * width + 1} numbers of size 1 at most, and 1 is {row_units} in whole numbers"
        row_entry = row_sums.entry("noised sums of features and of their squares", note=note)
    units, gradients = scaled_sums(
        _LEAST_UNITS, lambda unit: squared_norm(unit, size), mu * math.sqrt((1 - share) / steps), shares
    )
    entry = gradients.entry("noised sum of clipped gradients", note=f"the clip is {units} in whole numbers")
    return SharedPlan(steps, task.clients * rows, row_units, row_sums, row_entry, units, gradients, entry)


def secure_terms(task: Task[DpSgdSettings], plan: SharedPlan) -> SecureTerms:
    """Terms of the secure sums of a run: one for the standardisation, and one a step."""
    sums = plan.steps + (plan.row_sums is not None)
    widest = max(task.settings.architecture(task.schema).size, 2 * n_inputs(task.schema) + 1)
    largest = _ROOM * (task.schema.rows or 1) * max(plan.units, plan.row_units)
    mechanisms = [plan.gradients, *([plan.row_sums] if plan.row_sums else [])]
    return terms_for(task, sums, mechanisms, task.clients * sums * widest, largest)


def shared_update(task: ClientTask[DpSgdSettings], X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
    """A client's answer to a message."""
    plan = shared_plan(task)
    secure = secure_terms(task, plan)

    def noised() -> np.ndarray:
        if task.config.get(STEP) == STANDARDIZE:
            return _noised_row_sums(task, plan, X, secure.largest_sum)
        return _noised_gradients(task, plan, X, y, arrays, secure.largest_sum)

    return secure_update(task, secure.terms, arrays, noised)


def _noised_row_sums(task: ClientTask[DpSgdSettings], plan: SharedPlan, X: np.ndarray, largest: int) -> np.ndarray:
    if plan.row_sums is None or plan.row_entry is None:
        raise BadMessage("this run has no sums of features")
    task.ledger.require([plan.row_entry])
    sums = np.clip(whole_row_sums(to_unit_range(X, task.schema), plan.row_units), -largest, largest)
    return plan.row_sums.release(sums, plan.row_entry, task.ledger, task.noise("standardize"))


def _noised_gradients(
    task: ClientTask[DpSgdSettings], plan: SharedPlan, X: np.ndarray, y: np.ndarray, arrays: Arrays, largest: int
) -> np.ndarray:
    settings, noise, clip = task.settings, task.noise("gradients"), float(task.settings.clip)
    architecture = settings.architecture(task.schema)
    flat = architecture.flatten(architecture.check_weights(arrays))
    task.ledger.require([plan.entry])
    inputs = model_inputs(X, task.schema, plan.row_sums is not None, arrays)
    dtype = "float32" if isinstance(noise, Seeded) else "float64"
    gradients = clipped_gradients_for(architecture, block_for(task.schema.rows or 1), dtype)
    total = gradients.sum(flat, inputs, targets(y, task.schema), clip, task.rng("dropout"))
    whole = whole_sum(total, clip, plan.units, largest)
    return plan.gradients.release(whole, plan.entry, task.ledger, noise)
