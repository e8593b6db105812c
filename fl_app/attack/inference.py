"""Attribute inference on a run: members against others, and the model against people alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpforest.attacks import Guesser, hidden_columns
from dpforest.attacks.rates import mean_estimate
from fl_app.attack.lines import plain
from fl_app.attack.model import Model
from fl_app.attack.target import Pool, Target
from fl_app.results.attack import THIS_MODEL, WITHOUT_NOISE

_COLUMNS = 3
_MOST = 400
_CERTAIN = 1e-6


def infer(target: Target, open_model: Callable[[], Model] | None, seed: int) -> dict[str, Any]:
    """What attribute inference reaches on the run, and on the same run without noise.

    Half of the clients are the other people; cells of the other half's records are guessed. With one client, its
    records that did not train are the other people.

    Returns
    -------
    dict
        ``lines``, and ``note``.
    """
    if target.model.wants_own_scale:
        return {
            "lines": [],
            "note": "Nothing was inferred: the model asks rows on a client's own scale, where one cell is several, and "
            "moves with all rows of the client.",
        }
    rng = np.random.default_rng(seed)
    clients = sorted(target.pools)
    victims, people = clients[: (len(clients) + 1) // 2], clients[(len(clients) + 1) // 2 :]
    others = [(pool.X, pool.y) for client in people if (pool := target.pools[client])]
    others = others or [(pool.X[pool.trained :], pool.y[pool.trained :]) for pool in target.pools.values()]
    others_X, others_y = (np.concatenate(parts) for parts in zip(*others, strict=True))
    columns = hidden_columns(others_X, others_y, _COLUMNS, seed) if len(others_y) > 1 else []
    if not columns:
        return {"lines": [], "note": "Nothing was inferred: there are no rows of others to learn from."}
    models = {THIS_MODEL: target.model}
    if open_model is not None:
        models[WITHOUT_NOISE] = open_model()
    parts = {
        "members": _sample(target, victims, lambda pool: np.arange(pool.trained), rng),
        "others": _sample(target, victims, lambda pool: np.arange(pool.trained, len(pool.y)), rng),
    }
    right: dict[tuple[str, str, str], list[np.ndarray]] = {}
    for hidden in columns:
        guesser = Guesser(hidden, others_X, others_y, seed)
        for whose, (X, y, owner) in parts.items():
            if not len(y):
                continue
            truth = hidden.cells(X)
            guesses = {("", "marginals of others"): guesser.by_marginals(X),
                       ("", "people alike among others"): guesser.by_others(X, y)}  # fmt: skip
            for of, model in models.items():
                guesses[of, "people alike, and the model"] = guesser.by_model(X, y, _fits(model, owner))
            for (of, name), guess in guesses.items():
                right.setdefault((of, name, whose), []).append(guess == truth)
    lines = [
        {"of": of, "attack": name, "needs_model": bool(of), "whose": whose,
         "cells": plain(mean_estimate(np.mean(each, axis=0)))}
        for (of, name, whose), each in right.items()
    ]  # fmt: skip
    names = [target.model.schema.feature_names[hidden.feature] for hidden in columns]
    return {
        "lines": lines,
        "note": f"The columns that say most about the target: {', '.join(names)}; quarters of each.",
    }


def _sample(
    target: Target, clients: list[int], rows_of: Callable[[Pool], np.ndarray], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Records of some clients, with whose they are."""
    most = max(1, _MOST // len(clients))
    X, y, owner = [], [], []
    for client in clients:
        pool = target.pools[client]
        rows = rng.permutation(rows_of(pool))[:most]
        X.append(pool.X[rows])
        y.append(pool.y[rows])
        owner.append(np.full(len(rows), client))
    return np.concatenate(X), np.concatenate(y), np.concatenate(owner)


def _fits(model: Model, owner: np.ndarray) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Log likelihood of targets by the model that each record's client has a part in."""

    def fits(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        score = np.empty(len(y))
        groups = [(owner == client, int(client)) for client in np.unique(owner)] if model.is_own else [
            (np.ones(len(y), dtype=bool), -1)
        ]  # fmt: skip
        for rows, client in groups:
            found = model.predict(X[rows], client)
            if model.schema.is_classification:
                chance = found[np.arange(rows.sum()), y[rows].astype(np.int64)]
                score[rows] = np.log(np.maximum(chance, _CERTAIN))
            else:
                assert model.schema.target_range is not None
                low, high = model.schema.target_range
                score[rows] = -10 * np.abs(found - y[rows]) / (high - low)
        return score

    return fits
