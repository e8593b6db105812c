"""Which trees a user keeps, by its own validation rows; nothing of it leaves the user (section 4.2.2)."""

from __future__ import annotations

import numpy as np


def keep_incrementally(votes: np.ndarray, y: np.ndarray, ties: bool) -> list[int]:
    """Trees in the order in which they came, each kept if the accuracy rises with it (or stays, with ``ties``).

    Parameters
    ----------
    votes : ndarray of shape (n_trees, n_rows, n_classes)
        Each tree's answer on the validation rows.
    y : ndarray of int, shape (n_rows,)
        Their classes; without rows there is nothing to measure them by, and all trees are kept.
    """
    if not len(y):
        return list(range(len(votes)))
    kept: list[int] = []
    total, best = np.zeros(votes.shape[1:]), -1.0 if ties else 0.0
    for tree, answer in enumerate(votes):
        accuracy = _accuracy(total + answer, y)
        if accuracy > best or (ties and accuracy == best):
            kept.append(tree)
            total, best = total + answer, accuracy
    # Not one tree was ever right: better all than none.
    return kept or list(range(len(votes)))


def keep_greedily(votes: np.ndarray, y: np.ndarray) -> list[int]:
    """At each step the tree that helps most, whatever the order, as long as there is one that does no harm.

    Of equally accurate sets the one is taken that is surer of the right classes.
    """
    if not len(y):
        return list(range(len(votes)))
    rows = np.arange(len(y))
    kept: list[int] = []
    left = list(range(len(votes)))
    total, best = np.zeros(votes.shape[1:]), -1.0
    while left:
        sums = total + votes[left]
        accuracy = (sums.argmax(axis=2) == y).mean(axis=1)
        surety = sums[:, rows, y].mean(axis=1) / (len(kept) + 1)
        place = int(np.lexsort((-surety, -accuracy))[0])
        if accuracy[place] < best:
            break
        best, total = float(accuracy[place]), sums[place]
        kept.append(left.pop(place))
    return sorted(kept)


def _accuracy(total: np.ndarray, y: np.ndarray) -> float:
    return float((total.argmax(axis=1) == y).mean())
