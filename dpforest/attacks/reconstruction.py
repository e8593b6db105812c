"""Training rows guessed from the counts of a released forest.

A forest that says how many records lie in each leaf says much about all of them together (Ferry et al. 2024 and
arXiv 2502.05307 for forests with noise, TimberStrike, arXiv 2506.07605, for boosted trees). Rows are sought that agree
with the noised counts, by simulated annealing: where a solver of constraints finds nothing in a minute, this finds rows
in seconds. How many rows there are is given to the attacker.

What is guessed of a row is the cell of each column that the forest asks, between two of its thresholds. A guess is
compared with the true rows after the best matching of both. Two things that need no model set the scale: rows drawn
from the marginals of other people's, and other people's rows themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from dpforest.attacks.kernels import anneal, place_rows
from dpforest.attacks.released import nodes_of
from dpforest.errors import DPForestError
from dpforest.forest import Forest

# Rows that are matched; with more of them the matching takes longer than the attack.
MOST_MATCHED = 300
_HOTTEST = 30.0
# What counts without noise are taken to have, or no move would ever be taken back.
_LEAST_VARIANCE = 0.05
_MOVES_AT_ONCE = 100_000


@dataclass(frozen=True)
class Cells:
    """The cells into which a forest's thresholds divide its columns.

    Parameters
    ----------
    features : ndarray of integers, shape (n_asked,)
        The columns that are asked.
    thresholds : list of ndarray
        Of each, ascending.
    """

    features: np.ndarray
    thresholds: list[np.ndarray]

    @classmethod
    def of(cls, forest: Forest, trees: np.ndarray) -> Cells:
        """Those of some trees.

        Raises
        ------
        DPForestError
            They ask nothing, or sets of categories.
        """
        nodes = nodes_of(forest, trees)
        asked = nodes[forest.feature[nodes] >= 0]
        if (forest.feature[asked] >= forest.schema.n_features).any():
            raise DPForestError("rows are rebuilt from splits on numbers, and these trees ask sets of categories")
        features = np.unique(forest.feature[asked])
        if not len(features):
            raise DPForestError("the trees ask nothing, so nothing can be rebuilt from them")
        cuts = [np.unique(forest.threshold[asked[forest.feature[asked] == f]].astype(np.float32)) for f in features]
        return cls(features, cuts)

    @property
    def sizes(self) -> np.ndarray:
        """Cells of each column."""
        return np.array([len(cuts) + 1 for cuts in self.thresholds])

    def codes(self, X: np.ndarray) -> np.ndarray:
        """Cell of each row in each asked column, shape (n_rows, n_asked)."""
        rows = np.asarray(X, dtype=np.float32)
        pairs = zip(self.features, self.thresholds, strict=True)
        return np.stack([np.searchsorted(cuts, rows[:, f], side="left") for f, cuts in pairs], axis=1).astype(np.int32)


@dataclass(frozen=True)
class Known:
    """What is known to the attacker apart from the forest.

    Parameters
    ----------
    rows : int
        How many rows there are.
    marginals : list of ndarray
        Chance of each cell of each asked column; the last one is of the classes.
    """

    rows: int
    marginals: list[np.ndarray]

    @classmethod
    def of(cls, rows: int, cells: Cells, X: np.ndarray, y: np.ndarray, n_classes: int) -> Known:
        """With the marginals of these (other people's) rows; a cell that none of them has keeps a small chance."""
        columns = [*cells.codes(X).T, y.astype(np.int64)]
        sizes = [*cells.sizes, n_classes]
        counts = [np.bincount(column, minlength=size) + 0.5 for column, size in zip(columns, sizes, strict=True)]
        return cls(rows, [each / each.sum() for each in counts])

    def without_prior(self) -> Known:
        """The same attacker without any idea of the marginals."""
        return Known(self.rows, [np.full(len(each), 1 / len(each)) for each in self.marginals])

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Rows drawn column by column, the class last; shape (rows, n_asked + 1)."""
        columns = [rng.choice(len(each), self.rows, p=each) for each in self.marginals]
        return np.stack(columns, axis=1).astype(np.int32)


def rebuild(
    forest: Forest,
    trees: np.ndarray,
    counts: np.ndarray,
    known: Known,
    variance: float,
    seed: int,
    moves: int = 2_000_000,
) -> np.ndarray:
    """Rows that agree with the counts of a forest's leaves.

    Samples rows by their posterior chance at a falling temperature: a move gives a row another cell of one column by
    the marginals, another class, or another tree where trees hold disjoint rows.

    Parameters
    ----------
    forest : Forest
    trees : ndarray of integers
        The trees whose rows are sought.
    counts : ndarray of shape (n_nodes, n_classes) or (n_nodes, 1)
        As `dpforest.attacks.released.leaf_counts`.
    known : Known
    variance : float
        Of the noise of a count, which is public.
    seed : int
    moves : int

    Returns
    -------
    ndarray of int32, shape (rows, n_asked + 1)
        Cells, and the class last.
    """
    cells = Cells.of(forest, trees)
    rng = np.random.default_rng(seed)
    rows = known.draw(rng)
    column_of = np.full(forest.schema.n_features + 1, -1, dtype=np.int32)
    column_of[cells.features] = np.arange(len(cells.features))
    nodes = nodes_of(forest, trees)
    column = np.full(forest.n_nodes, -1, dtype=np.int32)
    split = np.zeros(forest.n_nodes, dtype=np.int32)
    inner = nodes[forest.feature[nodes] >= 0]
    column[inner] = column_of[forest.feature[inner]]
    for feature, cuts in zip(cells.features, cells.thresholds, strict=True):
        own = inner[forest.feature[inner] == feature]
        split[own] = np.searchsorted(cuts, forest.threshold[own].astype(np.float32))
    roots = forest.offsets[trees].astype(np.int64)
    disjoint = len(trees) > 1 and counts[nodes[forest.is_leaf[nodes]]].sum() <= 1.2 * known.rows
    tree = rng.integers(len(trees), size=known.rows) if disjoint else np.zeros(known.rows, dtype=np.int64)
    paths = np.zeros((forest.n_nodes, len(cells.features) // 64 + 1), dtype=np.uint64)
    for depth in np.unique(forest.depths[inner]):
        parents = inner[forest.depths[inner] == depth]
        here = paths[parents]
        here[np.arange(len(parents)), column[parents] // 64] |= np.uint64(1) << (column[parents] % 64).astype(np.uint64)
        paths[forest.left[parents]] = paths[forest.left[parents] + 1] = here
    cumulative = np.ones((len(known.marginals), max(map(len, known.marginals))))
    for place, chance in enumerate(known.marginals):
        cumulative[place, : len(chance)] = np.cumsum(chance)
    width = np.array([len(each) for each in known.marginals])
    by_class = counts.shape[1] > 1
    over, leaf = -counts.astype(np.float64), np.empty((known.rows, len(trees)), dtype=np.int64)
    tree, left = tree.astype(np.int64), forest.left.astype(np.int64)
    place_rows(rows, tree, disjoint, roots, column, split, left, by_class, over, leaf)
    temperature = _HOTTEST ** (1 - np.arange(moves) / moves)
    scale = 2 * max(variance, _LEAST_VARIANCE) * temperature
    for start in range(0, moves, _MOVES_AT_ONCE):
        block = scale[start : start + _MOVES_AT_ONCE]
        uniform = rng.random((len(block), 4))
        anneal(rows, tree, disjoint, roots, column, split, left, by_class, over, leaf, paths, cumulative, width, block,
               uniform)  # fmt: skip
    return rows


def agreement(guess: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Share of cells that agree after the best matching of guessed to true rows, and of rows that agree in full.

    Parameters
    ----------
    guess, truth : ndarray of shape (n_rows, n_columns)
        At most `MOST_MATCHED` of the true rows are matched, the first ones.
    """
    truth = truth[:MOST_MATCHED]
    apart = cdist(truth, guess, "hamming")
    right, left = linear_sum_assignment(apart)
    matched = apart[right, left]
    return float(1 - matched.mean()), float((matched == 0).mean())
