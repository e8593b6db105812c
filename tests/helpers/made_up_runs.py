"""Run folders as a sweep leaves them, made up: scores are a formula of method, epsilon, seed and client."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from dpforest.guarantee import CLIENT_UNIT, RECORD_UNIT, Guarantee, Trust, Unit
from dpforest.ledger import Budget, Entry, Ledger
from fl_app.results.finished import FinishedRun

CLASSES = ("rest", "walk", "run")


def write_run(
    folder: Path,
    strategy: str = "one_shot",
    epsilon: float = 1.0,
    seed: int = 0,
    accuracy: Sequence[float] = (0.8, 0.7, 0.9),
    *,
    unit: str = RECORD_UNIT,
    trust: str = "nobody but the client is trusted",
    dataset: dict[str, Any] | None = None,
    evaluation: dict[str, Any] | None = None,
    partition: dict[str, Any] | None = None,
    public_rows: int | None = None,
    unprotected: str = "",
    noised: bool = True,
    noise_in_ledger: bool = True,
    target: bool = False,
    rounds: int = 1,
    classes: Sequence[str] = CLASSES,
    features: Sequence[str] = ("ax", "ay"),
    memorization: bool = False,
    delta: float | None = None,
    **settings: Any,
) -> Path:
    """Write a finished run; ``accuracy`` is of each client, who all have 100 test rows (R^2 for a ``target``)."""
    folder.mkdir(parents=True)
    if delta is None:
        delta = 1e-6 if strategy.startswith("dp_") else 0.0
    # What has no use for a budget has an infinite one in its ledger, whatever the configuration says.
    ledger = Ledger(Budget(epsilon if noised else math.inf, delta), unit, trust)
    if noised and noise_in_ledger and math.isfinite(epsilon):
        ledger.charge(
            Entry("class counts of the leaves", "discrete Laplace", epsilon, sensitivity=1, scale=1 / epsilon)
        )
    if unprotected or not noised:
        ledger.unprotected(unprotected or "weights", "they are sent as they are")
    guarantee = ledger.guarantee()
    config = {
        "strategy": {"name": strategy, **settings},
        "dataset": {"name": "watch", "features": "standard", **(dataset or {})},
        "partition": {"kind": "subject", "clients": None, **(partition or {})},
        "evaluation": {"split": "row", "part": "test", "fold": 0, **(evaluation or {})},
        "privacy": {
            "epsilon": "inf" if math.isinf(epsilon) else epsilon,
            "delta": delta,
            "noise": "seeded",
            "unit": guarantee.unit.kind and str(guarantee.unit.kind),
            "trust": guarantee.trust.kind and str(guarantee.trust.kind),
        },
        "seed": seed,
        "rounds": None,
        "overrides": [f"strategy={strategy}", f"seed={seed}"],
    }
    score = float(np.mean(accuracy))
    own = [{"r2": a, "mse": 1 - a} if target else {"accuracy": a, "balanced_accuracy": a} for a in accuracy]
    metrics: dict[str, Any] = {"r2": score, "mse": 1 - score} if target else {"accuracy": score}
    if not target:
        right = round(100 * score)
        k = len(classes)
        metrics["confusion"] = np.where(np.eye(k, dtype=bool), right, (100 - right) // max(k - 1, 1)).tolist()
        metrics |= {"classes": list(classes), "balanced_accuracy": score, "worst_client": min(accuracy)}
    if public_rows is not None:
        metrics["public_rows"] = public_rows
    if memorization:
        metrics |= {"memorization_rate": {"10": 0.5}, "owner_accuracy": {"0": score, "1": score / 2}}
    weights = np.arange(len(features), 0, -1) / sum(range(1, len(features) + 1))
    metrics |= {"clients": len(accuracy), "rounds": rounds, "bytes_down": 1000 * rounds, "bytes_up": 5000 * rounds}
    metrics |= {"seconds": 1.5, "failures": 0, "test_rows": 100 * len(accuracy), "bytes_of_rows": 10**6}
    metrics["importances"] = dict(zip(features, weights.tolist(), strict=True))
    privacy = guarantee.to_dict() | {
        "record": "one window of 1 s",
        "note": "",
        "evaluation": "test metrics were reported in clear",
        "noise": "seeded: for simulation only",
        "clients": {str(client): ledger.to_dict() for client in range(len(accuracy))},
    }
    name = "r2" if target else "accuracy"
    table = {"round": range(1, rounds + 1), "answered": 3, "asked": 3, "bytes_down": 1000, "bytes_up": 5000}
    table[name] = [score * (1 - 0.5**n) for n in range(1, rounds + 1)]
    if target:
        table["mse"] = [1 - value for value in table["r2"]]
    pd.DataFrame(table).to_csv(folder / "rounds.csv", index=False)
    clients = [{"client": c, "trains": True, **values, "test_rows": 100, "bytes_up": 1} for c, values in enumerate(own)]
    pd.DataFrame(clients).to_csv(folder / "clients.csv", index=False)
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    (folder / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    (folder / "privacy.json").write_text(json.dumps(privacy), encoding="utf-8")
    return folder


def write_sweep(
    folder: Path,
    methods: Sequence[str] = ("one_shot", "dp_sgd"),
    epsilons: Sequence[float] = (0.1, 1.0, 10.0),
    seeds: int = 3,
    clients: int = 3,
    **options: Any,
) -> Path:
    """Write a sweep: the first method is the best, and every method gains with epsilon."""
    number = 0
    for place, method in enumerate(methods):
        unit = CLIENT_UNIT if method == "dp_fedavg" else RECORD_UNIT
        for epsilon in epsilons:
            for seed in range(seeds):
                base = 0.9 - 0.05 * place - 0.2 / (1 + epsilon)
                each = [
                    base + 0.01 * math.sin(7 * seed + 3 * client) - 0.02 * client / clients for client in range(clients)
                ]
                write_run(folder / str(number), method, epsilon, seed, each, unit=unit,
                          noised=method not in ("fedavg", "centralized"), **options)  # fmt: skip
                number += 1
    return folder


def a_run(folder: Path, strategy: str, unit: Unit = RECORD_UNIT, epsilon: float = 1.0, **more: Any) -> FinishedRun:
    """A finished run of three rounds that is in no folder; ``unproven`` for one without a valid guarantee."""
    dataset = {"name": more.pop("dataset", "hapt"), "path": None, "classes": more.pop("classes", 6)}
    seed, accuracy, draw = more.pop("seed", 0), more.pop("accuracy", 0.8), more.pop("draw", None)
    reasons = ("weights",) if more.pop("unproven", False) else ()
    total = math.inf if strategy == "fedavg" else epsilon
    guarantee = Guarantee(math.inf if reasons else total, 1e-5, unit, Trust("server trusted", "it sees all"), reasons)
    rounds = {"round": [1, 2, 3, 4], "bytes_down": 100, "bytes_up": 50, "accuracy": [None, 0.4, 0.6, accuracy]}
    return FinishedRun.of(
        folder / f"{strategy}-{epsilon}-{seed}-{dataset['classes']}",
        config={
            "strategy": {"name": strategy, **more},
            "dataset": dataset,
            "partition": {"kind": "subject"},
            "evaluation": {"split": "row", "part": "test", "fold": 0, "seed": draw},
            "privacy": {"epsilon": epsilon, "delta": 1e-5},
            "seed": seed,
            "rounds": None,
        },
        metrics={"accuracy": accuracy, "balanced_accuracy": 0.5, "bytes_down": 400, "bytes_up": 200, "seconds": 1.0,
                 "bytes_of_rows": 5000},
        privacy=guarantee.to_dict()
        | {"record": "window", "clients": {"0": {"budget": {"epsilon": total, "delta": 1e-5}}}},
        rounds=pd.DataFrame(rounds),
        clients=pd.DataFrame({"client": [0], "trains": [True], "accuracy": [accuracy], "test_rows": [9]}),
    )  # fmt: skip
