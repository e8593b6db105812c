"""All attacks on a finished run, as one document: what was found, next to what the guarantee allows."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np

from dpforest import __version__
from dpforest.attacks import FALSE_POSITIVES, Shadows, most_area, most_true_positives
from dpforest.guarantee import RECORD_UNIT, most_balanced_accuracy
from fl_app.attack.inference import infer
from fl_app.attack.informed import informed
from fl_app.attack.lines import line
from fl_app.attack.model import Model
from fl_app.attack.rebuilding import rebuild_rows
from fl_app.attack.shadows import Records, Shadowed, shadow_model, shadow_runs, statistics_of
from fl_app.attack.target import Target
from fl_app.config.compose import compose_config, to_experiment
from fl_app.engine.experiment import Experiment, Privacy
from fl_app.results.attack import FILE, MODELS_LIKE_IT, OUTPUTS, THIS, THIS_MODEL, WITHOUT_NOISE, own_lines

MODELS = 64
_SEED = 0
_MOST_RECORDS = 4000
# From here on an attack is said to have broken something that protects nothing.
_BROKEN = {WITHOUT_NOISE: 0.55, "fext_published": 0.8}
_ATTACKS = {
    OUTPUTS: "likelihood ratio of the outputs",
    FILE: "likelihood ratio of outputs and of what else the file says",
}


def attack(target: Target, models: int = MODELS) -> dict[str, Any]:
    """Attack a run by all that there is.

    Parameters
    ----------
    target : Target
    models : int
        Shadow models; the positive controls have half as many each.

    Returns
    -------
    dict
        As ``attack.json`` holds it; see `fl_app.results.shapes.check_attack`.

    Raises
    ------
    DPForestError
        There are too few records or models.
    """
    began = time.perf_counter()
    rng = np.random.default_rng(_SEED)
    records = Records.of(target.pools, _MOST_RECORDS, rng)
    allowed = _allowed(target)
    shadowed = _shadow(target, target.experiment, records, models)
    lines = _of_shadows(THIS, shadowed)
    lines += _of_target(target, records, shadowed)
    controls = {name: _shadow(target, other, records, max(models // 2, 4)) for name, other in _controls(target).items()}
    of_controls = [line for name, each in controls.items() for line in _of_shadows(name, each)]
    found = informed(target, models)
    lines += found.lines
    open_model = _open_model(target)
    document: dict[str, Any] = {
        "dpforest": __version__,
        "method": target.run.method,
        "epsilon": "inf" if math.isinf(target.run.epsilon) else target.run.epsilon,
        "delta": target.run.guarantee.delta,
        "holds": target.run.guarantee.holds,
        "models": models,
        "records": len(records.client),
        "score": target.score,
        "allowed": allowed,
        "membership": lines + of_controls,
        "influence": found.influence,
        "reconstruction": rebuild_rows(target, open_model, _SEED),
        "attributes": infer(target, open_model, _SEED),
        "controls": _broken(of_controls),
    }
    reasons = ("a client's own model, which never leaves it",) if target.model.is_own else target.run.guarantee.reasons
    document["words"] = in_words(document, reasons)
    if target.model.clients_may_choose:
        document["words"].append(
            "The model attacked is the one that is saved. Clients of the run could predict by trees of their own where "
            "these fitted better, and metrics.json is of that choice: pictures of attacks show the score of this model."
        )
    return document | {"seconds": round(time.perf_counter() - began, 1)}


def _shadow(target: Target, experiment: Experiment, records: Records, models: int) -> Shadowed:
    shares = {client: pool.share for client, pool in target.pools.items()}
    return shadow_runs(experiment, target.clients, records, models, shares, _SEED)


def _without_noise(target: Target) -> Experiment | None:
    """The same run at epsilon = inf; None where it is that already."""
    if not target.spends:
        return None
    privacy = dataclasses.replace(target.experiment.privacy.without_noise(), noise="seeded")
    return dataclasses.replace(target.experiment, privacy=privacy)


def _open_model(target: Target) -> Callable[[], Model] | None:
    """The model of the same run without noise, made when it is first asked for."""
    if (without := _without_noise(target)) is None:
        return None
    trained = {client: pool.in_training for client, pool in target.pools.items()}
    return cache(partial(shadow_model, without, target.clients, target.pools, trained))


def _controls(target: Target) -> dict[str, Experiment]:
    """What an attack must break: the same method without noise, and a published method that guarantees nothing."""
    found: dict[str, Experiment] = {}
    if (without := _without_noise(target)) is not None:
        found[WITHOUT_NOISE] = without
    score = "accuracy" if target.model.schema.is_classification else "pearson"
    published = to_experiment(compose_config(["strategy=fext_published", f"strategy.score={score}"]))
    found["fext_published"] = dataclasses.replace(
        target.experiment, strategy=published.strategy, privacy=Privacy(1.0), rounds=None
    )
    return found


def _allowed(target: Target) -> dict[str, Any] | None:
    """What the guarantee allows about one record; None where nothing is guaranteed about the model.

    A client's own model never leaves it, so that no guarantee is about it.
    """
    guarantee = target.run.guarantee
    if not guarantee.holds or target.model.is_own:
        return None
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if guarantee.unit != RECORD_UNIT:
        # A client with one record more is two steps away: without the one client, with the other.
        epsilon, delta = 2 * epsilon, min(1.0, delta * (1 + math.exp(min(epsilon, 700.0))))
    return {
        "area": most_area(epsilon, delta),
        "balanced_accuracy": most_balanced_accuracy(epsilon, delta),
        "true_positives": {f"{rate:g}": float(most_true_positives(rate, epsilon, delta)) for rate in FALSE_POSITIVES},
    }


def _of_shadows(name: str, shadowed: Shadowed) -> list[dict[str, Any]]:
    """What each attack reaches on models like the one attacked, each in turn by the others."""
    n_models, n_records = shadowed.members.shape
    models = np.repeat(np.arange(n_models), n_records)
    lines = []
    for level, statistics in shadowed.statistics.items():
        scores = Shadows(statistics, shadowed.members).leave_one_out()
        lines.append(line(name, level, _ATTACKS[level], MODELS_LIKE_IT, scores, shadowed.members, models))
    return lines


def _of_target(target: Target, records: Records, shadowed: Shadowed) -> list[dict[str, Any]]:
    """The same on the released model itself, where some records were not in it."""
    trained = records.trained
    if trained.all():
        return []
    own = statistics_of(target.model, records)
    each = np.arange(len(trained))
    return [
        line(THIS, level, _ATTACKS[level], THIS_MODEL,
             Shadows(statistics, shadowed.members).ratios(own[level]), trained, each)
        for level, statistics in shadowed.statistics.items()
    ]  # fmt: skip


def _broken(of_controls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each control with the strongest attack on it, and whether that broke it."""
    found = []
    for name in dict.fromkeys(each["of"] for each in of_controls):
        best = max((each for each in of_controls if each["of"] == name), key=lambda each: each["area"][0])
        found.append({"name": name, "attack": best["attack"], "area": best["area"],
                      "broke": best["area"][1] >= _BROKEN[name]})  # fmt: skip
    return found


def in_words(document: Mapping[str, Any], reasons: tuple[str, ...]) -> list[str]:
    """What follows, and what does not."""
    own = own_lines(document)
    best = max(own, key=lambda each: each["area"][0])
    reached = f"AUC {_interval(best['area'])} by {best['attack']} ({best['level']})"
    words = []
    if document["allowed"] is None:
        why = f" ({'; '.join(reasons)})" if reasons else ""
        words.append(
            f"Nothing is guaranteed{why}: there is nothing to hold, and the figures show what leaks: {reached}."
        )
    else:
        most = document["allowed"]["area"]
        over = [each for each in own if each["area"][1] > most]
        words.append(f"Of the AUC {most:.3f} that epsilon allows, these attacks reached {reached}.")
        words += [
            f"That is more than epsilon allows, by {each['attack']} ({each['level']}), with 95 per cent confidence: "
            "audit the method."
            for each in over
        ]
    for control in document["controls"]:
        did = "broke it, as they must" if control["broke"] else "did not break it"
        words.append(f"On {control['name']} the same attacks {did} (AUC {_interval(control['area'])}).")
    if not any(control["broke"] for control in document["controls"]):
        words.append("So the attacks were too weak to tell: their figures on this run say nothing about it.")
    elif not all(control["broke"] for control in document["controls"]):
        words.append("So of this method the attacks get little even without noise, and cannot tell what noise does.")
    words.append("What these attacks did not get, a better one may: only epsilon bounds it.")
    return words


def _interval(three: list[float]) -> str:
    return f"{three[0]:.3f} [{three[1]:.3f}, {three[2]:.3f}]"
