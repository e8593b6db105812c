"""The client's side of FEXT-DP."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from flwr.app import ArrayRecord

from dpforest.errors import DPForestError
from dpforest.forest import Forest, Limits, pack, unpack
from dpforest.forest.codec import fill_inner_nodes
from dpforest.growers import balance_votes, finish_classifier, grow_classifier
from dpforest.growers.budget import leaf_epsilon
from dpforest.growers.own_values import UNPROTECTED, grow_with_own_values
from dpforest.growers.regression import ResolvedRegression, grow_regressor
from dpforest.ledger import ALL_ROWS
from strategies.fext.rounds import SCORES_WHAT, RoundPlan, plan_rounds, score_mechanism
from strategies.fext.scores import client_sums
from strategies.fext.settings import DEEPEST, FextSettings, leaf_output
from strategies.forests import ForestClient, model_arrays, read_model
from strategies.messages import to_arrays_record
from strategies.method import Arrays, ClientTask, Released, Unprotected, Update
from strategies.row_parts import PartLedger, part_of_rows

BAD = "bad-client"
SCORES = "scores"
# Kept on the client between rounds.
_PARTS, _OWN, _ASIDE = "fext-parts", "fext-own", "fext-aside"
_SET_ASIDE = -1
_WHY = "Oliveira et al., algorithm 1"
_MOST_ASIDE = 500
# Candidate trees that a client scores in one exchange.
_CANDIDATES = Limits(trees=10_000, nodes=5_000_000, depth=DEEPEST)


class FextClient(ForestClient):
    """Grows a tree a round, scores others' trees where it is asked to, and picks what it predicts with."""

    def train(self, task: ClientTask[FextSettings], X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        settings = task.settings
        number, scoring = task.round, False
        if settings.scored_by_clients:
            number, scoring = (task.round + 1) // 2, task.round % 2 == 0
        if settings.accounting == "published":
            return self._grow_published(task, X, y)
        plans = plan_rounds(task)
        if number > len(plans):
            raise DPForestError(f"round {number} is not in the plan: the budget is for {len(plans)}")
        plan = plans[number - 1]
        parts = _parts(task, len(y), len(plans))
        mine = parts != _SET_ASIDE if plan.rows == ALL_ROWS else parts == number - 1
        ledger = PartLedger(task.ledger, plan.rows, plan.prefix)
        if scoring:
            return self._score(task, plan, ledger, X[mine], y[mine], arrays)
        forest = _attacked(task, _grow(task, plan, ledger, X[mine], _attacked_targets(task, y[mine])))
        _remember(task, forest, X[parts == _SET_ASIDE], y[parts == _SET_ASIDE])
        return Update(Released(task.ledger, pack(forest)))

    def predict(self, task: ClientTask, X: np.ndarray, arrays: Arrays) -> np.ndarray:
        forest = self._chosen(task, read_model(arrays, task.schema))
        return forest.predict_proba(X) if task.schema.is_classification else forest.predict(X)

    def may_choose_own_model(self, task: ClientTask) -> bool:
        return _compares(task)

    def _grow_published(self, task: ClientTask[FextSettings], X: np.ndarray, y: np.ndarray) -> Update:
        settings = task.settings
        parts = _parts(task, len(y), 1)
        mine = np.flatnonzero(parts != _SET_ASIDE)
        rng = task.rng("rows")
        mine = np.sort(rng.permutation(mine)[: max(1, round(settings.row_share * len(mine)))])
        depth = DEEPEST if settings.depth == "auto" else int(settings.depth)
        tree = grow_with_own_values(
            X[mine],
            _attacked_targets(task, y[mine]),
            task.schema,
            task.budget.epsilon,
            task.rng("tree"),
            sensitivity=settings.gain_sensitivity,
            sign_as_printed=settings.sign_as_printed,
            depth=depth,
            min_leaf=settings.min_leaf,
        )
        forest = _attacked(task, tree)
        _remember(task, forest, X[parts == _SET_ASIDE], y[parts == _SET_ASIDE])
        return Update(Unprotected(task.ledger, dict.fromkeys(UNPROTECTED, _WHY), pack(forest)))

    def _score(
        self, task: ClientTask, plan: RoundPlan, ledger: PartLedger, X: np.ndarray, y: np.ndarray, arrays: Arrays
    ) -> Update:
        """Noised sums about every candidate tree of the round, charged for as many trees as there are."""
        forest = unpack(arrays, task.schema, leaf_output(task.schema), limits=_CANDIDATES)
        mechanism = score_mechanism(plan.scores, forest.n_trees, task.schema.is_classification)
        entry = mechanism.entry(SCORES_WHAT)
        ledger.require([entry])
        scores = mechanism.release(client_sums(forest, X, y), entry, ledger, task.noise("scores"))
        return Update(Released(task.ledger, {SCORES: scores}))

    @staticmethod
    def _chosen(task: ClientTask, forest: Forest) -> Forest:
        """The set of trees, or the client's own latest ones where they fit the rows set aside better."""
        kept, aside = task.state.get(_OWN), task.state.get(_ASIDE)
        if not (isinstance(kept, ArrayRecord) and isinstance(aside, ArrayRecord)):
            return forest
        own = read_model({name: array.numpy() for name, array in kept.items()}, task.schema)
        X, y = aside["X"].numpy(), aside["y"].numpy()
        gain = _squared_errors(forest, X, y) - _squared_errors(own, X, y)
        return own if gain.mean() > 2 * gain.std() / np.sqrt(len(gain)) else forest


def _compares(task: ClientTask) -> bool:
    """Whether the client chooses between the set and its own trees.

    A real node does not: its only predictions are those whose test metrics it sends, and a server could find out what
    the rows set aside are by asking which of two models they prefer, as often as it likes.
    """
    return task.simulated and task.settings.own_model == "compare"


def _parts(task: ClientTask[FextSettings], n_rows: int, rounds: int) -> np.ndarray:
    """What each row is for: a round (from 0), or `_SET_ASIDE`; drawn once and the same in all rounds of a run.

    Each row draws for itself, so that one row more leaves all others where they were.
    """
    settings = task.settings
    disjoint = settings.round_budget == "disjoint" and rounds > 1
    if not disjoint and not _compares(task):
        return np.zeros(n_rows, dtype=np.int16)

    def draw() -> np.ndarray:
        rng = task.rng("parts")
        parts = rng.integers(rounds, size=n_rows).astype(np.int16) if disjoint else np.zeros(n_rows, dtype=np.int16)
        if _compares(task):
            parts[rng.random(n_rows) < settings.own_share] = _SET_ASIDE
        return parts

    return part_of_rows(task, _PARTS, n_rows, draw)


def _grow(task: ClientTask, plan: RoundPlan, ledger: PartLedger, X: np.ndarray, y: np.ndarray) -> Forest:
    """Finished private trees; what is done to noised counts is free."""
    noise = task.noise("trees")
    if isinstance(plan.resolved, ResolvedRegression):
        return grow_regressor(X, y, task.schema, plan.resolved, plan.trees, ledger, noise)
    counts = grow_classifier(X, y, task.schema, plan.resolved, plan.trees, ledger, noise)
    leaf = leaf_epsilon(plan.resolved, plan.trees, task.schema.n_features)
    return balance_votes(finish_classifier(counts, plan.resolved, leaf), counts, task.settings.balance)


def _remember(task: ClientTask, forest: Forest, X: np.ndarray, y: np.ndarray) -> None:
    """Keep the latest own trees, and the rows to compare them on."""
    if not _compares(task) or not len(y):
        return
    task.state[_OWN] = to_arrays_record(model_arrays(forest, pack(forest)))
    if _ASIDE not in task.state:
        task.state[_ASIDE] = to_arrays_record({"X": X[:_MOST_ASIDE], "y": y[:_MOST_ASIDE]})


def _squared_errors(forest: Forest, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Squared error of the target of each row, or of its class probabilities (Brier 1950)."""
    if forest.schema.is_classification:
        return ((forest.predict_proba(X) - np.eye(forest.schema.n_outputs)[y]) ** 2).sum(axis=1)
    return (forest.predict(X) - y) ** 2


def _attacked_targets(task: ClientTask[FextSettings], y: np.ndarray) -> np.ndarray:
    """What a bad client learns instead of its targets."""
    settings = task.settings
    if settings.attack != "label_flip" or not task.config.get(BAD):
        return y
    if task.schema.is_classification:
        return (y + 1) % task.schema.n_outputs
    assert task.schema.target_range is not None
    return sum(task.schema.target_range) - y


def _attacked(task: ClientTask[FextSettings], forest: Forest) -> Forest:
    """What a bad client sends instead of its trees."""
    settings = task.settings
    if settings.attack in ("none", "label_flip") or not task.config.get(BAD):
        return forest
    leaf = forest.is_leaf
    n_leaves, width = int(leaf.sum()), forest.schema.n_outputs
    rng = task.rng("attack")
    value = forest.value.copy()
    if forest.schema.is_classification:
        at_random = settings.attack == "random_leaves"
        classes = rng.integers(width, size=n_leaves) if at_random else np.full(n_leaves, width - 1)
        value[leaf] = np.eye(width)[classes]
    else:
        assert forest.schema.target_range is not None
        low, high = forest.schema.target_range
        votes = rng.uniform(low, high, size=n_leaves) if settings.attack == "random_leaves" else np.full(n_leaves, high)
        value[leaf] = votes[:, None]
    attacked = replace(forest, value=value)
    fill_inner_nodes(attacked)
    return attacked
