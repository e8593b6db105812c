"""Boosting on one table."""

from __future__ import annotations

import numpy as np

from dpforest.boosting.booster import Booster
from dpforest.boosting.records import Records, release_marginals, release_moments
from dpforest.boosting.settings import BoostSettings, make_plan
from dpforest.forest import Forest
from dpforest.ledger import Ledger
from dpforest.noise import Noise
from dpforest.schema import Schema


def boost(
    X: np.ndarray, y: np.ndarray, schema: Schema, settings: BoostSettings, rounds: int, ledger: Ledger, noise: Noise
) -> Forest:
    """Boost private trees on all records of one party.

    Parameters
    ----------
    X : ndarray of shape (n_records, n_features)
        Inside the schema's bounds.
    y : ndarray of shape (n_records,)
        Class indices, or targets inside their range.
    schema : Schema
        Public description of the rows.
    settings : BoostSettings
        As given.
    rounds : int
        Of boosting.
    ledger : Ledger
        Its whole budget is spent.
    noise : Noise
        Of the party.

    Returns
    -------
    Forest
        The trees, and the linear part where there is one.

    Raises
    ------
    DPForestError
        The budget does not fit the settings, or is not whole.
    """
    plan = make_plan(settings, ledger.budget, rounds, schema)
    ledger.require(plan.planned())
    seed = int(noise.generator().integers(2**63))
    marginals = release_marginals(X, y, schema, plan, ledger, noise)
    if schema.rows is None:
        # What was released says more than a guess; the histograms' part of the plan stays.
        first = Booster(schema, plan, seed)
        first.read_marginals(marginals, 1)
        plan = make_plan(settings, ledger.budget, rounds, schema, records=first.records)
    booster = Booster(schema, plan, seed)
    booster.read_marginals(marginals, 1)
    while booster.needs_moments:
        booster.read_moments(release_moments(X, schema, plan, booster.standard, ledger, noise), 1)
    records = Records(X, y, schema, plan, booster.start)
    for _ in range(rounds):
        done = booster.read_sums(records.release(booster.structure, ledger, noise), 1)
        records.add(done.structure, done.weights, done.coefficients)
    return booster.forest({"method": "boost"})
