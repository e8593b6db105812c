"""Shadow runs: a run's own method on random parts of its records, in this process and others."""

from __future__ import annotations

import dataclasses
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from flwr.app import Context
from joblib import Parallel, cpu_count, delayed

from dpforest.attacks import Part, count_ratios, leaf_counts, own_value_hits
from fl_app.attack.model import Model
from fl_app.attack.target import Pool
from fl_app.engine.experiment import Experiment
from fl_app.engine.in_process import InProcessGrid
from fl_app.engine.node import ExperimentHost
from fl_app.results.attack import FILE, OUTPUTS
from fl_app.terminal.interrupts import end_with_parent
from fl_app.terminal.quiet import quiet_frameworks
from strategies.federation.result import FederatedResult
from strategies.federation.strategy import MethodStrategy
from strategies.node.app import NodeApp

# Largest log odds of a class: beyond, only rounding differs.
_CERTAIN = 1e-6
_FIRST_NODE = 1000
_FEWEST_IN_PARALLEL = 8
Statistics = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Records:
    """The records of which membership is asked.

    Parameters
    ----------
    pools : mapping of int to Pool
        By client.
    asked : mapping of int to ndarray of integers
        Of each client's pool, the records that shadow models learn from or not; the other training rows are in all.
    """

    pools: Mapping[int, Pool]
    asked: Mapping[int, np.ndarray]

    @classmethod
    def of(cls, pools: Mapping[int, Pool], most: int, rng: np.random.Generator, only_trained: bool = False) -> Records:
        """Up to so many records, spread over the clients as their rows are."""
        sizes = {client: pool.trained if only_trained else len(pool.y) for client, pool in pools.items()}
        share = min(1.0, most / max(sum(sizes.values()), 1))
        return cls(pools, {
            client: np.sort(rng.choice(size, max(1, round(share * size)), replace=False))
            for client, size in sizes.items()
        })  # fmt: skip

    @property
    def client(self) -> np.ndarray:
        """Whose each record is."""
        return np.concatenate([np.full(len(rows), client) for client, rows in self.asked.items()])

    @property
    def trained(self) -> np.ndarray:
        """Whether the attacked run learned from each record."""
        return np.concatenate([rows < self.pools[client].trained for client, rows in self.asked.items()])

    def draw(self, rng: np.random.Generator, shares: Mapping[int, float]) -> dict[int, np.ndarray]:
        """Masks of the pools: each record asked for is in with the chance of its client."""
        masks = {}
        for client, pool in self.pools.items():
            mask = pool.in_training
            rows = self.asked[client]
            mask[rows] = rng.random(len(rows)) < shares[client]
            if not mask.any():
                mask[rows[rng.integers(len(rows))]] = True
            masks[client] = mask
        return masks

    def members(self, masks: Mapping[int, np.ndarray]) -> np.ndarray:
        """Whether each record asked for is in."""
        return np.concatenate([masks[client][rows] for client, rows in self.asked.items()])


class _ShadowHost(ExperimentHost):
    """Gives each node a part of its pool to train on."""

    def __init__(self, pools: Mapping[int, Pool], masks: Mapping[int, np.ndarray]) -> None:
        self._pools, self._masks = pools, masks

    def rows(
        self, plan: Experiment, context: Context, client: int, clients: int, part: Literal["train", "test"]
    ) -> tuple[np.ndarray, np.ndarray]:
        if part == "test" or client not in self._pools:
            return super().rows(plan, context, client, clients, part)
        pool, mask = self._pools[client], self._masks[client]
        return pool.X[mask], pool.y[mask]


def shadow_model(
    experiment: Experiment, clients: int, pools: Mapping[int, Pool], masks: Mapping[int, np.ndarray]
) -> Model:
    """The model of one more run of an experiment, on parts of the clients' pools."""
    nodes = {client: _FIRST_NODE + client for client in range(clients)}
    grid = InProcessGrid(NodeApp(_ShadowHost(pools, masks)), clients)
    strategy = MethodStrategy(experiment, FederatedResult, min_clients=experiment.min_clients, nodes=nodes)
    with _quiet(), tempfile.TemporaryDirectory() as folder:
        strategy.start(grid, timeout=experiment.timeout).side.save(Path(folder))
        return Model.read(Path(folder), experiment, clients, {client: str(client) for client in pools})


def statistics_of(model: Model, records: Records) -> Statistics:
    """What a model says about each record, by what is known of the model; shape (n_records, n_statistics) each."""
    outputs, file = [], []
    asked = {client: model.asked(pool.X) for client, pool in records.pools.items()}
    in_files = _of_files(model, records.pools, asked)
    for client, rows in records.asked.items():
        pool = records.pools[client]
        found = model.predict(asked[client][rows], client)
        outputs.append(_of_outputs(found, pool.y[rows], model))
        more = in_files[client][rows] if client in in_files else _of_network(found, model)
        file.append(np.column_stack([outputs[-1], more]))
    return {OUTPUTS: np.concatenate(outputs), FILE: np.concatenate(file)}


def _of_outputs(found: np.ndarray, y: np.ndarray, model: Model) -> np.ndarray:
    """Log odds of the true class, or how near the target is; one column."""
    if not model.schema.is_classification:
        assert model.schema.target_range is not None
        low, high = model.schema.target_range
        return -np.abs(found - y)[:, None] / (high - low)
    chance = np.clip(found[np.arange(len(y)), y.astype(np.int64)], _CERTAIN, 1 - _CERTAIN)
    return (np.log(chance) - np.log1p(-chance))[:, None]


def _of_network(found: np.ndarray, model: Model) -> np.ndarray:
    """What a network says after its first choice: its second one."""
    if not model.schema.is_classification:
        return np.empty((len(found), 0))
    return np.log(np.maximum(np.sort(found, axis=1)[:, -2:-1], _CERTAIN))


def _of_files(model: Model, pools: Mapping[int, Pool], asked: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """What else than outputs forests say of each pool's records: by counts, and by thresholds; none of a network."""
    # Trees that are no single client's have learned from all clients' records.
    alone = model.is_own or model.has_owners()
    groups = [[client] for client in pools] if alone else [list(pools)]
    found: dict[int, np.ndarray] = {}
    for clients in groups:
        forest_of = model.forest_of(clients[0])
        if forest_of is None:
            return {}
        forest, trees = forest_of
        X = np.concatenate([asked[client] for client in clients])
        y = np.concatenate([pools[client].y for client in clients])
        part = Part(trees, X, y)
        both = np.zeros((len(y), 2))
        if len(trees):
            both[:, 0] = count_ratios(forest, counts_of(model, forest), part)
            both[:, 1] = own_value_hits(forest, part)
        ends = np.cumsum([len(pools[client].y) for client in clients])
        found |= dict(zip(clients, np.split(both, ends[:-1]), strict=True))
    return found


def counts_of(model: Model, forest: Any) -> np.ndarray:
    """What a forest's leaves say about numbers of records, by the public settings of its method."""
    settings = model.experiment.settings
    # Only votes of one_shot are smoothed in a way that can be undone; `auto` is laplace there.
    smooth = model.experiment.method.name == "one_shot" and settings.voting == "soft"
    smoothing = "laplace" if smooth and settings.smoothing in ("auto", "laplace") else "none"
    return leaf_counts(forest, getattr(settings, "balance", 0.0), smoothing)


@dataclass(frozen=True, eq=False)
class Shadowed:
    """Shadow runs' statistics, shape (n_models, n_records, n_statistics) each, and who was in them."""

    statistics: Statistics
    members: np.ndarray


def shadow_runs(
    experiment: Experiment, clients: int, records: Records, models: int, shares: Mapping[int, float], seed: int
) -> Shadowed:
    """Shadow runs, on all cores; the same whatever their number.

    Parameters
    ----------
    experiment : Experiment
    clients : int
    records : Records
    models : int
    shares : mapping of int to float
        Chance with which a record of a client is in.
    seed : int
    """
    plain = experiment.to_dict()
    done = parallel(models)(delayed(_one)(plain, clients, records, number, shares, seed) for number in range(models))
    levels = done[0][0]
    return Shadowed({level: np.stack([each[0][level] for each in done]) for level in levels},
                    np.stack([each[1] for each in done]))  # fmt: skip


def parallel(tasks: int) -> Parallel:
    """Processes for so many tasks: starting some takes seconds."""
    jobs = 1 if tasks < _FEWEST_IN_PARALLEL else cpu_count()
    return Parallel(n_jobs=jobs, initializer=end_with_parent, initargs=(os.getpid(),))


def _one(
    plain: dict[str, Any], clients: int, records: Records, number: int, shares: Mapping[int, float], seed: int
) -> tuple[Statistics, np.ndarray]:
    quiet_frameworks()
    rng = np.random.default_rng([seed, number])
    experiment = dataclasses.replace(Experiment.from_dict(plain), seed=int(rng.integers(2**31)), memorization=())
    masks = records.draw(rng, shares)
    model = shadow_model(experiment, clients, records.pools, masks)
    return statistics_of(model, records), records.members(masks)


@contextmanager
def _quiet() -> Iterator[None]:
    """What shadow runs say about themselves is of no use to anyone."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
