"""The informed attacker on a run: knows all other rows, and for which record it asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import delayed

from dpforest.attacks import FALSE_POSITIVES, Shadows, boosting_influence, count_ratio
from dpforest.attacks.rates import mean_estimate
from dpforest.growers.budget import leaf_epsilon
from dpforest.growers.candidates import rows_of_trees
from dpforest.guarantee import PrivacyUnit
from dpforest.noise import Seeded
from fl_app.attack.lines import line, plain
from fl_app.attack.shadows import Records, parallel, shadow_runs
from fl_app.attack.target import Target
from fl_app.engine.experiment import Experiment
from fl_app.results.attack import FILE, INFORMED, MODELS_LIKE_IT, THIS, THIS_MODEL
from strategies.boost.settings import plan_of
from strategies.method import ClientTask
from strategies.one_shot.client import grow_trees
from strategies.secure_aggregation.sharing import noise_shares

_CANARIES = 40
# Epsilon of a count that stands for one without noise, of which a ratio is infinite.
_CERTAIN = 50.0
_SEED = 1


@dataclass(frozen=True)
class Informed:
    """Lines of the table of membership, and of boosting what each record moved."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    influence: dict[str, Any] | None = None


def informed(target: Target, models: int) -> Informed:
    """What an attacker gets who knows all rows but one: by exact likelihood ratios where the method's are known."""
    name, settings = target.run.method, target.experiment.settings
    if name == "one_shot" and settings.selection != "noisy_counts":
        return Informed([_of_counts(target, models)])
    if target.spends and name == "boost" and target.model.schema.is_classification:
        task = target.experiment.task(target.clients)
        # A linear part leaves no record of its rounds in the forest, and a client's own scale none of its rows.
        if task.unit is PrivacyUnit.RECORD and plan_of(task).linear is None:
            return _of_boosting(target)
    return Informed([_of_canaries(target, models)])


def _of_canaries(target: Target, models: int) -> dict[str, Any]:
    """Shadow runs that have all other rows in common with the attacked one."""
    records = Records.of(target.pools, _CANARIES, np.random.default_rng(_SEED), only_trained=True)
    half = dict.fromkeys(target.pools, 0.5)
    shadowed = shadow_runs(target.experiment, target.clients, records, models, half, _SEED)
    scores = Shadows(shadowed.statistics[FILE], shadowed.members).leave_one_out()
    groups = np.repeat(np.arange(models), scores.shape[1])
    name = "likelihood ratio of shadow models with the same other rows"
    return line(THIS, INFORMED, name, MODELS_LIKE_IT, scores, shadowed.members, groups)


def _of_counts(target: Target, models: int) -> dict[str, Any]:
    """Exact ratios of the noised leaf counts of one client, grown again and again with a record and without."""
    client = min(target.pools, key=lambda each: target.pools[each].trained)
    pool = target.pools[client]
    X, y = pool.X[: pool.trained], pool.y[: pool.trained]
    canaries = np.random.default_rng(_SEED).choice(len(y), min(_CANARIES, len(y)), replace=False)
    plain_experiment = target.experiment.to_dict()
    done = parallel(len(canaries))(
        delayed(_count_ratios)(plain_experiment, target.clients, X, y, int(canary), models) for canary in canaries
    )
    scores = np.concatenate(done)
    members = np.tile(np.arange(models) % 2 == 0, len(canaries))
    name = "exact likelihood ratio of the leaf counts"
    return line(THIS, INFORMED, name, MODELS_LIKE_IT, scores, members, np.arange(len(scores)))


def _count_ratios(
    plain_experiment: Mapping[str, Any], clients: int, X: np.ndarray, y: np.ndarray, canary: int, models: int
) -> np.ndarray:
    """Ratios of one record; every other time it is in."""
    experiment = Experiment.from_dict(plain_experiment)
    task = experiment.task(clients)
    last = np.append(np.delete(np.arange(len(y)), canary), canary)
    X, y = X[last], y[last]
    ratios = np.empty(models)
    for number in range(models):
        rows = slice(None, len(y) if number % 2 == 0 else len(y) - 1)
        seed = np.random.SeedSequence([_SEED, canary, number])
        ledger = experiment.protection.ledger(experiment.budget, task.schema)
        own = ClientTask.of(
            task,
            ledger=ledger,
            noise=lambda what, seed=seed: Seeded(seed),
            rng=lambda what: np.random.default_rng(0),
            simulated=True,
        )
        grown = grow_trees(own, X[rows], y[rows])
        epsilon = min(leaf_epsilon(grown.settings, grown.epsilon, task.schema.n_features), _CERTAIN)
        # Whoever knows all other rows is granted which of them each tree was grown on.
        parts = rows_of_trees(grown.settings, len(y[rows]), Seeded(seed))
        leaf = grown.forest.apply(X[-1:])[0]
        leaves = grown.forest.apply(X[:-1])
        others = np.empty(len(parts))
        for tree, part in enumerate(parts):
            mine = np.zeros(len(y[rows]), dtype=bool)
            mine[part] = True
            mine = mine[: len(y) - 1]
            others[tree] = np.sum(mine & (leaves[:, tree] == leaf[tree]) & (y[:-1] == y[-1]))
        ratios[number] = count_ratio(grown.forest.value[leaf, int(y[-1])], others, epsilon)
    return ratios


def _of_boosting(target: Target) -> Informed:
    """Exact mu of each record by the released trees."""
    task = target.experiment.task(target.clients)
    plan = plan_of(task)
    assert target.model.forest is not None
    clip = plan.clip(task.schema, 0.0, task.clients)
    X = np.concatenate([pool.X[: pool.trained] for pool in target.pools.values()])
    y = np.concatenate([pool.y[: pool.trained] for pool in target.pools.values()])
    found = boosting_influence(target.model.forest, plan, X, y, clip, noise_shares(task))
    sizes = found.records
    influence = {
        "kind": "epsilon" if found.is_pure else "mu",
        "paid": found.paid,
        "largest": float(sizes.max()),
        "mean": float(sizes.mean()),
    }
    name = "most that its epsilon allows, a record" if found.is_pure else "exact Gaussian test, a record"
    return Informed([{
        "of": THIS,
        "level": INFORMED,
        "attack": name,
        "whose": THIS_MODEL,
        "area": plain(mean_estimate(found.areas())),
        "balanced_accuracy": plain(mean_estimate(found.balanced_accuracies())),
        "true_positives": {
            f"{rate:g}": plain(mean_estimate(found.true_positives(rate))) for rate in FALSE_POSITIVES
        },
        "members": len(sizes),
        "others": len(sizes),
    }], influence)  # fmt: skip
