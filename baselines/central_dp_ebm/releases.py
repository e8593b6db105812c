"""What DP-EBM releases about a record, by the proof of its authors, and where that proof does not reach.

Nori et al. 2021, "Accuracy, Interpretability, and Differential Privacy via Explainable Boosting".

*Cells.* Once a column, the rows in each of its public cells are counted. A record adds 1 to one count, so noise of
standard deviation sigma costs mu = 1 / sigma. Cells with few rows by these counts are joined.

*Boosting.* Each round and column cuts the cells into leaves at random, and the residuals of the rows in each leaf are
added up. A record adds its residual, times the learning rate, to one of these sums. The sums are divided by the noised
counts.

Both are chains of Gaussian releases (Dong, Roth, Su 2022): a tenth of epsilon is for the cells and the rest for
boosting, with half of delta each. What they cost together, which the ledger says, is a little below the budget.

Not covered:

* Cells are joined by a share of the number of rows, which interpret-core takes as it is. So the proof is for tables
  whose number of rows is known, and `TRUST` says so.
* The values of a categorical column, and the classes, are those that rows have. `model.public_rows` has all that the
  schema lists, so that neither says anything about rows.
* A residual of two classes lies between -1 and 1, as the proof needs. That of a regression is target less prediction,
  and interpret-core neither clips it nor the prediction, which noise may carry anywhere: what a record adds has no
  bound. So a regression has no guarantee, and its ledgers say `RESIDUALS`.
"""

from __future__ import annotations

import math

from baselines.central_dp_ebm.settings import DpEbmSettings
from dpforest.errors import DPForestError
from dpforest.guarantee import Trust, TrustModel
from dpforest.ledger import Entry, gaussian_mu
from dpforest.ledger.accounting import check_delta
from dpforest.schema import Schema
from strategies.method import Task

TRUST = Trust(
    "server trusted with every row",
    "it noises the model alone, as Nori et al. 2021 prove where the number of all rows is known",
    TrustModel.CENTRAL,
)
RESIDUALS = "residuals beyond the range of the target"
WHY = "interpret-core does not clip them, and their proof needs a bound"
_CELLS_SHARE = 0.1
# Between these interpret-core looks for a noise, and its exp(epsilon) is finite.
_LEAST_MU, _MOST_MU, _MOST_EPSILON = 1e-5, 1000.0, 700.0
# interpret-core's search for the noise ends up to 5e-5 of it short; the ledger is charged for more than that.
_SEARCH = 1e-3


def unprotected(schema: Schema) -> dict[str, str]:
    """What the proof does not cover under a schema, and why."""
    return {} if schema.is_classification else {RESIDUALS: WHY}


def entries(task: Task[DpEbmSettings]) -> list[Entry]:
    """The cells and the boosting, in the ledger of every client.

    Raises
    ------
    DPForestError
        There are more than two classes, or no noise of interpret-core fits the budget.
    """
    schema, settings, budget = task.schema, task.settings, task.budget
    if len(schema.classes) > 2:
        raise DPForestError(
            f"strategy central_dp_ebm takes two classes or a target_range, and the schema has {len(schema.classes)} "
            "classes: use strategy=boost, or join classes in the schema"
        )
    if not budget.epsilon <= _MOST_EPSILON:
        raise DPForestError(
            f"strategy central_dp_ebm takes an epsilon of at most {_MOST_EPSILON:g}, not {budget.epsilon:g}: "
            "use strategy=centralized for all rows in one place without privacy"
        )
    check_delta(budget.delta)
    columns = len(schema.numeric_features) + len(schema.categories)
    residual = 1.0 if schema.target_range is None else schema.target_range[1] - schema.target_range[0]
    note = "by interpret-core, in floating point, for a known number of all rows"
    return [
        _entry(
            "noised sizes of the cells of each column",
            _mu(_CELLS_SHARE * budget.epsilon, budget.delta / 2),
            columns,
            1.0,
            f"a row adds 1 to one cell; {note}",
        ),
        _entry(
            "noised sums of residuals of each round and column",
            _mu((1 - _CELLS_SHARE) * budget.epsilon, budget.delta / 2),
            columns * settings.boosting_rounds,
            residual * settings.learning_rate,
            f"a row adds its residual times the learning rate to one leaf; {note}",
        ),
    ]


def _mu(epsilon: float, delta: float) -> float:
    mu = gaussian_mu(epsilon, delta)
    if not _LEAST_MU < mu < _MOST_MU:
        raise DPForestError(
            f"interpret-core has no noise for the share {epsilon:.3g} of epsilon at delta {delta:.3g}: "
            f"{'raise' if mu <= _LEAST_MU else 'lower'} privacy.epsilon or privacy.delta"
        )
    return mu * (1 + _SEARCH)


def _entry(what: str, mu: float, times: int, sensitivity: float, note: str) -> Entry:
    each = mu / math.sqrt(times)
    return Entry(
        what, "Gaussian noise", mu=each, times=times, note=note, sensitivity=sensitivity, scale=sensitivity / each
    )
