"""The user's side of LRF, PP-FGRF and PP-FPRF."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord

from dpforest.forest import Forest, concatenate, pack, unpack
from dpforest.forest.codec import fill_inner_nodes
from dpforest.ledger import Budget, Entry, Ledger, rounded_up
from strategies.forests import MODEL_LIMITS, ForestClient, model_arrays, read_model
from strategies.messages import BadMessage, RowsChanged, to_arrays_record
from strategies.method import Arrays, ClientTask, Released, Unprotected, Update
from strategies.pp_fprf.alone import grow_alone
from strategies.pp_fprf.member import Member
from strategies.pp_fprf.plan import FOREIGN, HASHES, SIZES, VALUES, Plan, RowPart, plan_of
from strategies.pp_fprf.selection import keep_greedily, keep_incrementally
from strategies.pp_fprf.settings import GlobalSettings, PersonalSettings, TreeSettings
from strategies.pp_fprf.similarity import hash_rows, histograms

_RUN, _PARTS, _PLACES, _MODEL = "pp-fprf", "pp-fprf-parts", "pp-fprf-places", "pp-fprf-model"
_ASIDE = -1
_TIES = 1 << 16
_WHY = "Liu et al. 2022"


class OwnForestClient(ForestClient):
    """A user that predicts with a forest of its own."""

    def predict(self, task: ClientTask, X: np.ndarray, arrays: Arrays) -> np.ndarray:
        return read_model(self.own_model(task) or {}, task.schema).predict_proba(X)

    def predict_by_owner(self, task: ClientTask, X: np.ndarray, arrays: Arrays) -> dict[int, np.ndarray] | None:
        return None  # trees are of this user, or of a group

    def own_model(self, task: ClientTask) -> Arrays | None:
        kept = _recall(task, _MODEL)
        if kept is None:
            raise BadMessage("this client has no forest of its own: it was not there when trees were given out")
        return kept


class AloneClient(OwnForestClient):
    """Grows trees on its own rows and sends nothing."""

    def train(self, task: ClientTask[TreeSettings], X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        settings = task.settings
        rows = _parts(task, len(y)) != _ASIDE
        seed = int(task.rng("growth").integers(2**62))
        forest = grow_alone(X[rows], y[rows], task.schema, settings, seed, task.rng("values"))
        _keep(task, _MODEL, model_arrays(forest, pack(forest)))
        return Update()


class GlobalClient(ForestClient):
    """Grows trees with others, level by level."""

    def train(self, task: ClientTask[GlobalSettings], X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        settings = task.settings
        parts = _parts(task, len(y))
        rows = parts != _ASIDE
        phase, seed = task.config.get("phase"), _seed(task)
        if phase not in ("propose", "vote", "count"):
            raise BadMessage(f"the message says phase={phase!r}")
        member = Member(X[rows], y[rows], parts[rows], settings.slices, task.schema, settings)
        if (places := _recall(task, _PLACES)) is not None:
            member.restore(places)
        member.follow(arrays)
        plan = plan_of(task)
        if phase == "propose":
            if not settings.published:
                raise BadMessage("with accounting=tight no values of rows are sent")
            sizes, values = member.propose(seed, task.rng("values"))
            reply = {"sizes": sizes, "values": values}
        elif phase == "vote":
            reply = _vote(task, plan, member, seed, arrays)
        else:
            reply = {"counts": _count(task, plan, member)}
        _keep(task, _PLACES, member.state())
        if settings.published:
            return Update(_unprotected(task, reply, SIZES, VALUES))
        return Update(Released(task.ledger, reply))


class PersonalClient(GlobalClient, OwnForestClient):
    """Shows whom it is similar to, grows trees with others, and keeps those that help it."""

    def train(self, task: ClientTask, X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        phase = task.config.get("phase")
        if phase == "hash":
            return Update(self._hashes(task, X, len(y)))
        if phase == "select":
            self._select(task, X, y, arrays)
            return Update()
        return super().train(task, X, y, arrays)

    @staticmethod
    def _hashes(task: ClientTask[PersonalSettings], X: np.ndarray, n_rows: int) -> Released | Unprotected:
        settings = task.settings
        hashes = hash_rows(X[_parts(task, n_rows) != _ASIDE], task.schema, settings, _seed(task))
        plan = plan_of(task)
        if plan.histograms is None:
            return _unprotected(task, {"hashes": hashes}, HASHES)
        (entry,) = plan.similarity_entries(settings.functions)
        counts = histograms(hashes, settings.buckets)
        noised = plan.histograms.release(counts, entry, task.ledger, task.noise("histograms"))
        return Released(task.ledger, {"histograms": noised})

    @staticmethod
    def _select(task: ClientTask[PersonalSettings], X: np.ndarray, y: np.ndarray, arrays: Arrays) -> None:
        settings = task.settings
        forest = unpack(arrays, task.schema, "probability", limits=MODEL_LIMITS)
        aside = _parts(task, len(y)) == _ASIDE
        if settings.prior is not None:
            forest = with_own_counts(forest, X[~aside], y[~aside], settings.prior, settings.voting == "hard")
        votes = np.swapaxes(forest.value[forest.apply(X[aside])], 0, 1)
        if settings.select == "all":
            kept = list(range(forest.n_trees))
        elif settings.select == "greedy":
            kept = keep_greedily(votes, y[aside])
        else:
            kept = keep_incrementally(votes, y[aside], ties=settings.select == "incremental_ties")
        own = concatenate([forest.tree(tree) for tree in kept])
        _keep(task, _MODEL, model_arrays(own, pack(own)))


def with_own_counts(forest: Forest, X: np.ndarray, y: np.ndarray, prior: float, hard: bool) -> Forest:
    """The same trees, with a user's own class counts in the leaves, in addition to what they say.

    For the user's own eyes: its counts are exact.

    Parameters
    ----------
    prior : float
        Rows that the leaf's own answer counts for.
    hard : bool
        Leaves have one vote for their largest class.
    """
    value = prior * forest.value
    leaves = forest.apply(X)
    np.add.at(value, (leaves, np.broadcast_to(y[:, None], leaves.shape)), 1.0)
    total = value.sum(axis=1, keepdims=True)
    value = np.where(total > 0, value / np.maximum(total, 1e-12), forest.value)
    if hard:
        value = np.eye(value.shape[1])[value.argmax(axis=1)]
    personal = replace(forest, value=value)
    fill_inner_nodes(personal)
    return personal


@dataclass(frozen=True)
class _Share:
    """Trees that are paid for together: mask over a user's trees, where the cost goes, and which rows they see."""

    trees: np.ndarray
    ledger: Ledger
    part: RowPart


def _shares(task: ClientTask[GlobalSettings], plan: Plan, member: Member) -> list[_Share]:
    settings = task.settings
    if settings.published:
        foreign = (member.masters >= 0) & (member.masters != task.client)
        (everything,) = plan.parts(len(member.trees))
        return [_Share(~foreign, task.ledger, everything), _Share(foreign, Ledger(Budget(math.inf)), everything)]
    slice_of = np.arange(len(member.trees)) % plan.slices
    parts = enumerate(plan.parts(len(member.trees)))
    return [_Share(slice_of == i, task.ledger, part) for i, part in parts]


def _vote(
    task: ClientTask[GlobalSettings], plan: Plan, member: Member, seed: int, arrays: Arrays
) -> dict[str, np.ndarray]:
    """One private choice a node; tight: with the noised size of the node."""
    settings = task.settings
    scores = member.scores(seed, arrays, settings.published)
    asked = member.asked(arrays)
    if math.isinf(plan.votes.epsilon):
        # As the mechanism does in the limit: equals at random. Else who knows nothing would vote for the first.
        scores = scores * _TIES + task.rng("ties").integers(_TIES, size=scores.shape)
    tree = member.tree_of_node()[asked]
    # What no mechanism lets through stays 0.
    reply = {"votes": np.zeros(len(tree), dtype=np.int16)}  # settings allow 10,000 candidates
    if plan.sizes is not None:
        sizes, reply["sizes"] = member.sizes()[asked], np.zeros(len(tree), dtype=np.int64)
    for share in _shares(task, plan, member):
        nodes = share.trees[tree]
        if not nodes.any():
            continue
        times = len(np.unique(tree[nodes]))
        entries = plan.part_entries(share.part, "vote", times)
        noise = task.noise(f"votes {share.part.prefix}")
        reply["votes"][nodes] = plan.votes.release(scores[nodes], entries[0], share.ledger, noise)
        _note_foreign(task, share, entries[0])
        if plan.sizes is not None:
            noise = task.noise(f"sizes {share.part.prefix}")
            reply["sizes"][nodes] = plan.sizes.release(sizes[nodes], entries[1], share.ledger, noise)
    return reply


def _count(task: ClientTask, plan: Plan, member: Member) -> np.ndarray:
    """Noised class counts of all leaves."""
    counts = member.close()
    released = np.zeros_like(counts)
    tree = member.tree_of_leaf()
    for share in _shares(task, plan, member):
        leaves = share.trees[tree]
        times = int(share.trees.sum())
        if not times:
            continue
        (entry,) = plan.part_entries(share.part, "count", times)
        noise = task.noise(f"counts {share.part.prefix}")
        released[leaves] = plan.leaves.release(counts[leaves], entry, share.ledger, noise)
        _note_foreign(task, share, entry)
    return released


def _note_foreign(task: ClientTask, share: _Share, entry: Entry) -> None:
    """Name what the paper does not count in the user's ledger too, at once: the user may not be there at the end."""
    if share.ledger is not task.ledger:
        task.ledger.unprotected(FOREIGN, f"epsilon {rounded_up(entry.epsilon * entry.times, 4)} in {entry.times} trees")


def _parts(task: ClientTask[TreeSettings], n_rows: int) -> np.ndarray:
    """Which slice each row belongs to, or `_ASIDE`; drawn once a run.

    Each row draws for itself, so that one row more leaves all others where they were.
    """
    kept = _recall(task, _PARTS)
    if kept is not None:
        if len(kept["parts"]) != n_rows:
            raise RowsChanged
        return kept["parts"]
    settings = task.settings
    aside = task.rng("parts").random(n_rows) < settings.validation_share
    n_slices = settings.slices if isinstance(settings, GlobalSettings) else 1
    parts = np.where(aside, _ASIDE, task.rng("slices").integers(n_slices, size=n_rows)).astype(np.int16)
    _keep(task, _PARTS, {"parts": parts})
    return parts


def _keep(task: ClientTask, name: str, arrays: Arrays) -> None:
    task.state[_RUN] = ConfigRecord({"run": str(task.config.get("run", ""))})
    task.state[name] = to_arrays_record(arrays)


def _recall(task: ClientTask, name: str) -> dict[str, np.ndarray] | None:
    """What was kept in this run.

    Raises
    ------
    BadMessage
        It was kept in another one.
    """
    kept = task.state.get(name)
    if not isinstance(kept, ArrayRecord):
        return None
    if task.state.config_records[_RUN]["run"] != str(task.config.get("run", "")):
        raise BadMessage("what this client has kept belongs to another run: start a new run")
    return {key: array.numpy() for key, array in kept.items()}


def _seed(task: ClientTask) -> int:
    seed = task.config.get("seed")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise BadMessage(f"the message says seed={seed!r}; expected a whole number")
    return seed


def _unprotected(task: ClientTask, arrays: Arrays, *facts: str) -> Unprotected:
    return Unprotected(task.ledger, dict.fromkeys(facts, _WHY), arrays)
