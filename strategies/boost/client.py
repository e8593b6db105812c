"""The client's side of federated boosting."""

from __future__ import annotations

import numpy as np
from flwr.app import Array, ArrayRecord

from dpforest.boosting import BoostPlan, Records, Standard, Start, release_marginals, release_moments
from dpforest.guarantee import PrivacyUnit, TrustModel
from strategies.boost.client_level import noise_of, sums_update, train_client_level
from strategies.boost.settings import plan_of, secure_terms
from strategies.boost.wire import HISTOGRAMS, MOMENTS, asked_mechanism, caught_up, read_round, read_standard
from strategies.forests import ForestClient
from strategies.messages import RowsChanged
from strategies.method import Arrays, ClientTask, Update
from strategies.secure_aggregation.sharing import secure_update

_SCORES = "boost"


class BoostClient(ForestClient):
    """Sends noised sums of its records' gradients, or masked sums with a share of the noise."""

    def train(self, task: ClientTask, X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        if task.unit is PrivacyUnit.CLIENT:
            return train_client_level(task, X, y, arrays)
        plan = plan_of(task)
        mechanism = asked_mechanism(plan, task.config.get("step"))
        if task.trust is TrustModel.SHARED:
            secure = secure_terms(task, plan)
            return secure_update(
                task, secure.terms, arrays, lambda: _noised_sums(task, plan, X, y, arrays, secure.largest_sum).ravel()
            )
        return sums_update(task, mechanism, plan, _noised_sums(task, plan, X, y, arrays, None))


def _noised_sums(
    task: ClientTask, plan: BoostPlan, X: np.ndarray, y: np.ndarray, arrays: Arrays, largest: int | None
) -> np.ndarray:
    step, noise = task.config.get("step"), noise_of(task)
    if step == HISTOGRAMS:
        return release_marginals(X, y, task.schema, plan, task.ledger, noise("histograms"), largest)
    if step == MOMENTS:
        standard = read_standard(arrays, task.schema)
        return release_moments(X, task.schema, plan, standard, task.ledger, noise("moments"), largest)
    asked = read_round(arrays, task.schema, plan)
    recalled = _recall(task, X, y, plan, asked.start is None)
    records, rounds = caught_up(asked, recalled, lambda start: Records(X, y, task.schema, plan, start))
    noised = records.release(asked.structure, task.ledger, noise("sums"), largest)
    _remember(task, records, rounds)
    return noised


def _remember(task: ClientTask, records: Records, rounds: int) -> None:
    """Keep the scores: any process may play this client in the next round."""
    start, standard = records.start, records.start.standard
    units = {} if standard is None else {"centre": standard.centre, "scale": standard.scale}
    arrays = units | {
        "cuts": start.cuts,
        "base": start.base,
        "clip": np.array([start.clip]),
        "scores": records.scores,
        "rounds": np.array([rounds]),
    }
    task.state[_SCORES] = ArrayRecord({name: Array(array) for name, array in arrays.items()})


def _recall(
    task: ClientTask, X: np.ndarray, y: np.ndarray, plan: BoostPlan, is_needed: bool
) -> tuple[Records, int] | None:
    kept = task.state.array_records.get(_SCORES)
    if kept is None:
        return None
    arrays = {name: array.numpy() for name, array in kept.items()}
    if len(arrays["scores"]) != len(y):
        raise RowsChanged
    if not is_needed:
        return None
    standard = Standard(arrays["centre"], arrays["scale"]) if "centre" in arrays else None
    start = Start(arrays["cuts"], arrays["base"], float(arrays["clip"][0]), standard)
    return Records(X, y, task.schema, plan, start, arrays["scores"].copy()), int(arrays["rounds"][0])
