"""A party's records under boosting: codes, scores and clipped sums."""

from __future__ import annotations

import numpy as np

from dpforest.boosting import kernels
from dpforest.boosting.bins import count_marginals
from dpforest.boosting.booster import Start
from dpforest.boosting.columns import Columns
from dpforest.boosting.linear import Basis, LinearRecords, Standard
from dpforest.boosting.model import score_scale
from dpforest.boosting.settings import BoostPlan
from dpforest.boosting.trees import Structure
from dpforest.errors import DPForestError
from dpforest.ledger import Ledger
from dpforest.noise import Noise
from dpforest.schema import Schema


def release_marginals(
    X: np.ndarray,
    y: np.ndarray,
    schema: Schema,
    plan: BoostPlan,
    ledger: Ledger,
    noise: Noise,
    largest: int | None = None,
) -> np.ndarray:
    """Noised histograms of one party's records, times the plan's ``marginal_unit``; see `count_marginals`.

    Parameters
    ----------
    X : ndarray of shape (n_records, n_features)
    y : ndarray of shape (n_records,)
        Class indices, or targets.
    schema : Schema
        Public description of the rows.
    plan : BoostPlan
        Of the run.
    ledger : Ledger
        Of the party.
    noise : Noise
        Of the party.
    largest : int, optional
        Counts are cut off here before noise is added, which changes no sensitivity.

    Returns
    -------
    ndarray of int64, shape ``bins.marginal_shape(schema, bins)``

    Raises
    ------
    BudgetExceeded
        The ledger has not enough left; no record was read.
    """
    ledger.require([plan.marginal_entry])
    counts = count_marginals(X, y, schema, plan.settings.bins) * plan.marginal_unit
    if largest is not None:
        np.minimum(counts, largest, out=counts)
    return plan.marginals.release(counts, plan.marginal_entry, ledger, noise)


def release_moments(
    X: np.ndarray,
    schema: Schema,
    plan: BoostPlan,
    standard: Standard,
    ledger: Ledger,
    noise: Noise,
    largest: int | None = None,
) -> np.ndarray:
    """Noised `Standard.moments` of one party's records.

    Parameters
    ----------
    X : ndarray of shape (n_records, n_features)
    schema : Schema
        Public description of the rows.
    plan : BoostPlan
    standard : Standard
        The units so far.
    ledger : Ledger
        Of the party.
    noise : Noise
        Of the party.
    largest : int, optional
        Sums are cut off at this absolute value before noise is added, which changes no sensitivity.

    Returns
    -------
    ndarray of int64, shape (2 n_numeric,)

    Raises
    ------
    DPForestError
        There is no linear part.
    BudgetExceeded
        The ledger has not enough left; no record was read.
    """
    linear = plan.linear
    if linear is None:
        raise DPForestError("moments are for a linear part, and this plan has none")
    ledger.require([linear.moment_entry])
    columns = Columns(schema)
    sums = standard.moments(X[:, columns.numeric], columns, linear.moment_unit)
    if largest is not None:
        np.clip(sums, -largest, largest, out=sums)
    return linear.moments.release(sums, linear.moment_entry, ledger, noise)


class Records:
    """Records with the score that the model so far gives each.

    Parameters
    ----------
    X : ndarray of shape (n_records, n_features)
    y : ndarray of shape (n_records,)
        Class indices, or targets.
    schema : Schema
    plan : BoostPlan
    start : Start
    scores : ndarray of float32, shape (n_records, n_outputs), optional
        From earlier rounds; those of `Start` by default.
    """

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        schema: Schema,
        plan: BoostPlan,
        start: Start,
        scores: np.ndarray | None = None,
    ) -> None:
        self._plan = plan
        self.start = start
        self._is_classification = schema.is_classification
        columns = Columns(schema)
        self._codes = columns.codes(X, start.cuts)
        self._linear: LinearRecords | None = None
        if start.standard is not None:
            self._linear = LinearRecords(X, self._codes, Basis(columns, start.standard))
        self._y = y if schema.is_classification else score_scale(y, schema)
        if scores is None:
            scores = np.tile(start.base.astype(np.float32), (len(y), 1))
        self.scores = scores

    def add(self, structure: Structure, weights: np.ndarray, coefficients: np.ndarray) -> None:
        """Take a finished round into the scores.

        Parameters
        ----------
        structure : Structure
        weights : ndarray of float32, shape (n_trees, n_leaves, n_outputs)
            Of the leaves.
        coefficients : ndarray of float32, shape (size, n_outputs)
            What the linear part changed by; not used without one.
        """
        kernels.add_weights(structure.grouped(self._codes), structure.feature, structure.split, weights, self.scores)
        if self._linear is not None:
            self._linear.add(coefficients, self.scores)

    def release(self, structure: Structure, ledger: Ledger, noise: Noise, largest: int | None = None) -> np.ndarray:
        """Noised sums of the records' gradients and counts in each leaf, and those of the linear part.

        Parameters
        ----------
        structure : Structure
            As many trees as the plan says.
        largest : int, optional
            Sums are cut off at this absolute value before noise is added, which changes no sensitivity.

        Returns
        -------
        ndarray of int64, 1-D
            One vector; `Layout` says what is where.

        Raises
        ------
        BudgetExceeded
            The ledger has not enough left; no record was read.
        """
        plan = self._plan
        ledger.require([plan.round_entry])
        n_outputs = self.scores.shape[1]
        gradients = np.empty(self.scores.shape, dtype=np.int32)
        of_loss = kernels.class_gradients if self._is_classification else kernels.squared_gradients
        of_loss(self.scores, self._y, self.start.clip, plan.unit, plan.norm, gradients)
        sums = np.zeros((structure.n_trees, structure.n_leaves, n_outputs + 1), dtype=np.int64)
        codes = structure.grouped(self._codes)
        counts = np.broadcast_to(np.int64(plan.count_unit), len(codes))
        kernels.add_records(codes, structure.feature, structure.split, gradients, counts, sums)
        parts = [sums.ravel()]
        if self._linear is not None and plan.linear is not None:
            parts.append(self._linear.sums(gradients, plan.unit, plan.linear.unit).ravel())
        sums = np.concatenate(parts)
        if largest is not None:
            np.clip(sums, -largest, largest, out=sums)
        return plan.sums.release(sums, plan.round_entry, ledger, noise)
