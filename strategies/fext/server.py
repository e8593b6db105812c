"""The server's side of FEXT-DP."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpforest.errors import DPForestError
from dpforest.explain import draw_tree, tree_rules
from dpforest.forest import Forest, Limits, concatenate, feature_importances, pack, unpack
from dpforest.growers import ResolvedSettings
from dpforest.growers.own_values import UNPROTECTED
from dpforest.ledger import ALL_ROWS, Entry
from strategies.fext.client import BAD, SCORES
from strategies.fext.rounds import plan_rounds, planned_releases, size_a_client
from strategies.fext.scores import FIRST_TREE, PublicRows, combine_client_sums
from strategies.fext.settings import DEEPEST, FextSettings, leaf_output
from strategies.forests import grown_signal, model_arrays, save_forest
from strategies.method import Arrays, Charges, ClientUpdate, ServerSide, Signal, Task

log = logging.getLogger(__name__)

# Nodes of one client's published tree, which has up to a leaf a record.
_MOST_NODES = 4_000_000
_LARGEST_SUM = 1 << 62
_RULES_SAVED = 50
_PICTURE_DEPTH = 3
IMPORTANCES_LOGGED = 30


@dataclass(frozen=True)
class _Kept:
    """One tree of the set."""

    tree: Forest
    score: float


class FextServer(ServerSide):
    """Keeps the trees that reach the threshold and sends them back."""

    def __init__(self, task: Task[FextSettings]) -> None:
        super().__init__(task)
        settings = task.settings
        self.settings = settings
        self._score = settings.score_for(task.schema)
        self._public = self._load_public()
        self._plans = plan_rounds(task) if settings.accounting == "tight" else []
        self._model = self._constant()
        self._set: list[_Kept] = []
        self._received: dict[int, Forest] = {}
        self.candidates: Forest | None = None
        self._sums: dict[int, np.ndarray] = {}
        self._round = 0
        self._exchange = 1
        self._k = math.nan
        self._facts: dict[str, Any] = {}
        self._best = -math.inf
        self._set_scores: list[float] = []
        self._empty_rounds: list[int] = []
        self._kept_by: dict[str, int] = {}
        self._bad: set[int] = set()
        self._example = ""
        self._stopped = ""

    def _load_public(self) -> PublicRows | None:
        settings = self.settings
        if settings.scored_by_clients and self.task.clients < 2:
            raise DPForestError(
                "strategy.filter_by=clients needs two clients or more, since nobody scores its own trees: use "
                "strategy.filter_by=public, or strategy.k=null for no filter"
            )
        if self.task.public_rows is None:
            if settings.filters and settings.filter_by == "public":
                raise DPForestError(
                    "strategy.k needs rows to test trees on, and there are no public ones: set evaluation.public_share "
                    "above 0, or strategy.filter_by=clients to pay for noised scores, or strategy.k=null for no filter"
                )
            if settings.patience is not None:
                raise DPForestError(
                    "strategy.patience needs public rows to see improvement on: set evaluation.public_share above 0, "
                    "or strategy.patience=null"
                )
            return None
        X, y = self.task.public_rows()
        return PublicRows(X, y, self.task.schema, self._score)

    def _constant(self) -> Forest:
        """A forest that predicts the same for every row: what there is before any tree has passed."""
        schema = self.task.schema
        if self._public is not None:
            value = self._public.best_constant()
        elif schema.target_range is not None:
            value = np.array([sum(schema.target_range) / 2])
        else:
            value = np.full(schema.n_outputs, 1 / schema.n_outputs)
        return Forest(
            schema=schema,
            output=leaf_output(schema),
            offsets=np.array([0, 1], dtype=np.int64),
            feature=np.array([-1], dtype=np.int32),
            threshold=np.zeros(1),
            left=np.array([-1], dtype=np.int32),
            value=value[None, :],
            weight=np.zeros(1),
            base=np.zeros(schema.n_outputs),
            owners=("",),
        )

    def planned(self) -> list[Entry]:
        return planned_releases(self._plans, self.task) if self._plans else []

    def signal(self) -> Signal | None:
        if not self._plans or not self.task.schema.is_classification:
            return None
        first, rounds, schema = self._plans[0], len(self._plans), self.task.schema
        assert isinstance(first.resolved, ResolvedSettings)
        rows = self.settings.public_number_of_rows(schema)
        of_round = rows if first.rows == ALL_ROWS else max(1, rows // rounds)
        return grown_signal(first.resolved, first.trees, of_round, schema, self.task.clients, rounds)

    @property
    def rounds_done(self) -> int | None:
        return self._round if self.settings.scored_by_clients else None

    def charges(self, exchange: int, client: int, update: ClientUpdate | None = None) -> Charges:
        if not self._plans:
            return Charges()
        scoring = self.settings.scored_by_clients and not self._is_growing(exchange)
        number = (exchange + 1) // 2 if self.settings.scored_by_clients else exchange
        # A client refuses a round that is not in the plan.
        plans = self._plans[number - 1 : number]
        return Charges(each=[entry for plan in plans for entry in plan.exchange_entries(self.task, scoring)])

    def unprotected(self) -> list[str]:
        return list(UNPROTECTED) if self.settings.accounting == "published" else []

    def initial_arrays(self) -> Arrays:
        return model_arrays(self._model, pack(self._model))

    @property
    def exchanges(self) -> int:
        return self.task.rounds * (2 if self.settings.scored_by_clients else 1)

    def is_round_end(self, exchange: int) -> bool:
        return not self._is_growing(exchange)

    def participants(self, exchange: int, clients: list[int]) -> list[int]:
        self._exchange = exchange
        if not self._bad and self.settings.attack_share:
            rng = np.random.default_rng(np.random.SeedSequence(self.task.seed, spawn_key=(2,)))
            number = round(self.settings.attack_share * len(clients))
            self._bad = set(rng.permutation(clients)[:number].tolist())
            log.info("bad clients (%s): %s", self.settings.attack, ", ".join(map(str, sorted(self._bad))))
        return clients

    def arrays_for(self, exchange: int, client: int) -> Arrays | None:
        if self.settings.scored_by_clients and exchange % 2 == 0:
            assert self.candidates is not None
            return pack(self.candidates)
        return None

    def config(self, exchange: int, client: int) -> dict[str, Any]:
        return {BAD: True} if client in self._bad else {}

    def check(self, update: ClientUpdate) -> None:
        # What is asked for decides, never what comes.
        if self.settings.scored_by_clients and not self._is_growing(self._exchange):
            self._sums[update.client] = self._read_sums(update.arrays.get(SCORES, np.empty(0)))
        else:
            self._received[update.client] = self._read_trees(update)

    def aggregate(self, exchange: int, updates: list[ClientUpdate]) -> Arrays | None:
        growing, scored = self._is_growing(exchange), self.settings.scored_by_clients
        if growing or not scored:
            self.candidates = concatenate([self._received[update.client] for update in updates])
            self._received.clear()
            self._facts = {}
        if growing:
            self._sums.clear()
            return None
        assert self.candidates is not None
        self._round += 1
        self._note_example(self.candidates)
        scores = self._scores(self.candidates)
        passed = self._filter(self.candidates, scores)
        changed = self._update_set(passed)
        self._evaluate_set(changed)
        return self.initial_arrays() if changed else None

    def _is_growing(self, exchange: int) -> bool:
        """Whether an exchange only collects trees, because a second one scores them."""
        return self.settings.scored_by_clients and exchange % 2 == 1

    def _scores(self, candidates: Forest) -> list[float]:
        """Score of every candidate; sets the threshold of the round."""
        settings = self.settings
        if not settings.filters:
            self._k = -math.inf
            return [math.nan] * candidates.n_trees if self._public is None else self._public.score_trees(candidates)
        if settings.scored_by_clients:
            owners = [int(owner) for owner in candidates.owners]
            scores, constant = combine_client_sums(self._sums, owners, self.task.schema, self._score)
        else:
            assert self._public is not None
            scores, constant = self._public.score_trees(candidates), self._public.constant_score()
        self._k = constant if settings.k == "auto" else float(settings.k)  # type: ignore[arg-type]
        return scores

    def _filter(self, candidates: Forest, scores: list[float]) -> list[_Kept]:
        passed: list[_Kept] = []
        words: dict[bool, list[str]] = {True: [], False: []}
        for tree, score in enumerate(scores):
            owner = candidates.owners[tree]
            passes = not self.settings.filters or score >= self._k
            words[passes].append(f"client {owner}: {score:.3f}")
            if passes:
                passed.append(_Kept(candidates.tree(tree), score))
                self._kept_by[owner] = self._kept_by.get(owner, 0) + 1
        kept, rejected = "; ".join(words[True]), "; ".join(words[False])
        self._best = max(self._best, *scores)
        self._facts = {
            "k": self._k,
            "trees_kept": len(passed),
            "trees_rejected": len(words[False]),
            "kept": kept,
            "rejected": rejected,
            "best_tree": max(scores),
            "median_tree": float(np.median(scores)),
        }
        if self.settings.filters:
            for verb, side, trees in (("kept", "at least", kept), ("rejected", "below", rejected)):
                if trees:
                    log.info("round %d: %s, %s %s k = %.3f: %s", self._round, verb, self._score, side, self._k, trees)
        return passed

    def _update_set(self, passed: list[_Kept]) -> bool:
        """Whether the set changed."""
        if not passed:
            self._empty_rounds.append(self._round)
            what = "the set of the rounds before" if self._set else "the constant prediction"
            log.warning("round %d: no tree reaches k = %.3f; %s stays", self._round, self._k, what)
            return False
        kept = passed if self.settings.keep == "round" else [*self._set, *passed]
        most = self.settings.most_trees
        if most is not None and len(kept) > most:
            # A stable sort keeps the earlier of equals; the set stays in the order of arrival.
            best = sorted(range(len(kept)), key=lambda i: -kept[i].score)[:most]
            kept = [kept[i] for i in sorted(best)]
        self._set = kept
        forest = concatenate([item.tree for item in kept])
        if self.settings.calibrate and self._public is not None and not self.task.schema.is_classification:
            forest = self._public.calibrated(forest)
        provenance = {"method": "fext", "accounting": self.settings.accounting, "round": self._round}
        self._model = replace(forest, provenance=provenance)
        return True

    def _evaluate_set(self, changed: bool) -> None:
        self._facts |= {"set_size": len(self._set), "set_changed": changed}
        if self._public is not None:
            score = self._public.score(self._model)
            self._set_scores.append(score)
            self._facts["set_score"] = score
        if len(self._plans) == self._round < self.task.rounds:
            self._stopped = f"after round {self._round}: the budget is spent"
        patience = self.settings.patience
        if patience is not None:
            best = int(np.argmax(self._set_scores)) + 1
            if self._round - best >= patience:
                self._stopped = f"after round {self._round}: no better {self._score} of the set since round {best}"
        if self._stopped:
            log.info("stopped %s", self._stopped)

    def progress(self) -> str:
        if not self._facts:
            return "trees collected"
        total = self._facts["trees_kept"] + self._facts["trees_rejected"]
        return f"kept {self._facts['trees_kept']} of {total} trees, set of {self._facts['set_size']}"

    def round_facts(self) -> dict[str, Any]:
        return self._facts

    @property
    def finished(self) -> bool:
        return bool(self._stopped)

    def report(self) -> dict[str, Any]:
        names = self.task.schema.feature_names
        importances = feature_importances(self._model)
        order = np.argsort(-importances, kind="stable")
        words = [f"{names[i]} {100 * importances[i]:.1f} %" for i in order if importances[i] > 0]
        if len(words) > IMPORTANCES_LOGGED:
            words[IMPORTANCES_LOGGED:] = [f"and {len(words) - IMPORTANCES_LOGGED} more in metrics.json"]
        log.info("importance (mean decrease in impurity): %s", ", ".join(words) or "none, the model is a constant")
        if not self._set and self._facts:
            log.warning(
                "no tree reached k = %.3f in any round; the best had %s %.3f: lower strategy.k, or use k=auto, fewer "
                "rounds or a larger epsilon", self._k, self._score, self._best,
            )  # fmt: skip
        facts: dict[str, Any] = {
            "trees": len(self._set),
            "nodes": self._model.n_nodes,
            "importances": {name: float(value) for name, value in zip(names, importances, strict=True)},
            "score": self._score,
            "k": None if math.isinf(self._k) else self._k,
            "trees_kept_by_client": dict(sorted(self._kept_by.items(), key=lambda item: int(item[0]))),
            "rounds_without_a_kept_tree": self._empty_rounds,
            "stopped": self._stopped,
        }
        if self._bad:
            facts["bad_clients"] = sorted(self._bad)
        if self._example:
            facts["a_record_that_a_tree_prints"] = self._example
        return facts

    def save(self, folder: Path) -> None:
        save_forest(self._model, folder)
        rules = [str(rule) for rule in tree_rules(self._model, 0, _RULES_SAVED)]
        head = f"First of {self._model.n_trees} trees, its rules of most records.\n\n"
        (folder / "rules.txt").write_text(head + "\n".join(rules) + "\n", encoding="utf-8")
        draw_tree(self._model, 0, _PICTURE_DEPTH).savefig(folder / "tree.svg", metadata={"Date": None})

    def _note_example(self, candidates: Forest) -> None:
        """A rule of the published trees that describes one record alone: what they give away."""
        if self.settings.accounting != "published" or self._example:
            return
        alone = [rule for rule in tree_rules(candidates, 0) if rule.weight == 1]
        if alone:
            closest = max(alone, key=lambda rule: np.isfinite([ends for _, *ends in rule.bounds]).sum())
            self._example = f"{closest.text}: one record, its exact target, between values of records"
            log.warning("UNPROTECTED, for example: %s", self._example)

    def _read_trees(self, update: ClientUpdate) -> Forest:
        """One client's trees; raises InvalidForest if they are not sound."""
        limits = Limits(trees=1, nodes=_MOST_NODES, depth=DEEPEST)
        if self._plans:
            # Not more than was planned: a set of huge trees would be refused by all clients.
            limits = Limits.complete(*size_a_client(self._plans[0].resolved))
        forest = unpack(update.arrays, self.task.schema, leaf_output(self.task.schema), limits=limits)
        return forest.with_owner(str(update.client))

    def _read_sums(self, sums: np.ndarray) -> np.ndarray:
        assert self.candidates is not None
        expected = FIRST_TREE[self.task.schema.is_classification] + self.candidates.n_trees
        if (
            sums.shape != (expected,)
            or sums.dtype.kind != "i"
            or (sums > _LARGEST_SUM).any()
            or (sums < -_LARGEST_SUM).any()
        ):
            raise DPForestError(f"scores have shape {sums.shape} of {sums.dtype}, expected {expected} whole numbers")
        return sums
