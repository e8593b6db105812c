"""Settings of federated boosting, and what both sides derive from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np

from dpforest.boosting import BoostPlan, BoostSettings, ClientPlan, make_client_plan, make_plan
from dpforest.boosting.client_level import n_moment_columns
from dpforest.boosting.settings import MAX_DEPTH
from dpforest.errors import DPForestError
from dpforest.forest import Limits
from dpforest.guarantee import CLIENT_UNIT, NO_SERVER, RECORD_UNIT, PrivacyUnit, TrustModel
from dpforest.schema import MOST_ROWS
from dpforest.settings import Auto, FromZero, Range
from strategies.client_level import client_mu, signal
from strategies.method import Protection, Task, Work
from strategies.secure_aggregation import Terms
from strategies.secure_aggregation.sharing import (
    SecureTerms,
    SharingSettings,
    noise_shares,
    shared_protection,
    terms_for,
)
from strategies.trusted_server import SUMS_TRUST

# More leaves than any run has, for the chance that noise exceeds what fits a secure sum.
_MOST_LEAVES = 2**14
# How many times the public number of records a client may have before its sums are cut off.
_ROOM = 8
_FALLBACK_ROWS = 10_000


@dataclass(frozen=True)
class FederatedBoostSettings(BoostSettings, SharingSettings):
    """How trees are boosted (see `BoostSettings`), and with whom the noise is shared (see `SharingSettings`).

    Parameters
    ----------
    evaluate_every
        Rounds between evaluations of the model; 0: only the finished one.
    scale
        With ``privacy.unit=client``: ``own`` puts each client's rows on its own scale, by its own rows, as a new person
        does with its own, without labels; ``moments`` cuts features where noised means of all clients say, as for
        records. ``auto``: ``own`` where few people take part, by public facts; a regression is always ``moments``.
    linear_share
        For records, as in `BoostSettings`. With ``scale=own``: share of a client's vector for a linear model of
        standardised values, the rest being for trees of ranks; ``auto``: three quarters. 1 is a linear model alone.
    balance
        With ``privacy.unit=client``: exponent of a class's rows by which its rows weigh less in a client's vector: 0
        counts rows, 1 classes.
    server_noise
        With ``privacy.trust=central``, what the server draws the noise from. ``seeded`` holds in simulations only:
        where real nodes take part, it is ``secure``.
    """

    evaluate_every: FromZero = 0
    scale: Literal["auto", "own", "moments"] = "auto"
    linear_share: Annotated[float, Range(0, 1)] | Auto = "auto"
    balance: Annotated[float, Range(0, 1)] = 0.5
    server_noise: Literal["secure", "seeded"] = "secure"


def protections(settings: FederatedBoostSettings) -> tuple[Protection, ...]:
    """Records, or a client's whole data, under noise of each client, of all together, or of a trusted server."""
    return (
        Protection(RECORD_UNIT, NO_SERVER, True),
        shared_protection(RECORD_UNIT, settings),
        shared_protection(CLIENT_UNIT, settings),
        Protection(CLIENT_UNIT, NO_SERVER, True),
        Protection(RECORD_UNIT, SUMS_TRUST),
        Protection(CLIENT_UNIT, SUMS_TRUST),
    )


def plan_of(task: Task[FederatedBoostSettings]) -> BoostPlan:
    """What every client does and pays.

    Raises
    ------
    DPForestError
        The budget or the number of clients does not fit the settings.
    """
    if task.settings.scale == "own":
        raise DPForestError(
            "scale=own is for privacy.unit=client: one record moves the mean and the ranks of all "
            "rows of its client, so that standardising them by themselves does not hide a record"
        )
    shares = noise_shares(task)
    if task.trust is not TrustModel.CENTRAL:
        return make_plan(task.settings, task.budget, task.rounds, task.schema, task.clients, shares)
    # A trusted server noises a total as one party would that had all records.
    rows = task.schema.rows and min(task.schema.rows * max(1, task.clients), MOST_ROWS)
    return make_plan(task.settings, task.budget, task.rounds, replace(task.schema, rows=rows))


def noises(task: Task[FederatedBoostSettings]) -> int:
    """How many parts with noise are in a sum over all clients."""
    return 1 if task.trust is TrustModel.CENTRAL else max(1, task.clients)


def client_plan_of(task: Task[FederatedBoostSettings]) -> ClientPlan:
    """`plan_of` where a client's whole data is the unit.

    Raises
    ------
    DPForestError
        Likewise.
    """
    settings = task.settings
    return make_client_plan(
        settings,
        task.schema,
        rounds=task.rounds,
        mu=client_mu(task.budget),
        signal=signal(task),
        clients=task.clients,
        shares=noise_shares(task),
        scale=settings.scale,
        linear_share=None if settings.linear_share == "auto" else settings.linear_share,
        balance=settings.balance,
    )


def client_level_terms(task: Task[FederatedBoostSettings], plan: ClientPlan) -> Terms:
    """Terms of the secure sums of a run where a client's whole data is the unit."""
    schema = task.schema
    numbers = int(np.prod(plan.vector_shape(schema, 1 << MAX_DEPTH)))
    draws = task.clients * (task.rounds * numbers + 2 * n_moment_columns(schema))
    largest = math.sqrt(max(plan.longest, plan.marginal_unit**2 * n_moment_columns(schema)))
    return terms_for(task, task.rounds + (not plan.own), [plan.marginals, plan.sums], draws, largest).terms


def secure_terms(task: Task[FederatedBoostSettings], plan: BoostPlan) -> SecureTerms:
    """Terms of the secure sums of a run: one for the histograms, those for moments, and one a round.

    Raises
    ------
    DPForestError
        There are too few clients for so many dropouts and colluders, or too much noise for 64 bits.
    """
    # The linear part is small against so many leaves, but where a table has very many columns.
    outputs, linear = task.schema.n_outputs + 1, plan.rounds * plan.n_coefficients(task.schema)
    draws = task.clients * outputs * (plan.trees * _MOST_LEAVES + linear)
    of_linear = (plan.linear.unit, plan.linear.moment_unit) if plan.linear else ()
    largest = _ROOM * (task.schema.rows or _FALLBACK_ROWS) * max(plan.unit, plan.marginal_unit, *of_linear)
    mechanisms = [plan.marginals, plan.sums, *([plan.linear.moments] if plan.linear else [])]
    return terms_for(task, task.rounds + 1 + plan.moment_rounds, mechanisms, draws, largest)


def work(task: Task) -> Work:
    """The trees of one round, whose depth the server's message says."""
    plan = plan_of(task) if task.unit is PrivacyUnit.RECORD else client_plan_of(task)
    return Work(nodes=Limits.complete(plan.trees_per_round, MAX_DEPTH).nodes)
