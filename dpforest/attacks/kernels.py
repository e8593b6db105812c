"""Numba kernels of attacks."""

from __future__ import annotations

import numpy as np

from dpforest.compiled import compiled


@compiled(inline="always")
def _leaf_of(row, root, column, split, left):
    node = root
    while left[node] >= 0:
        node = left[node] + (1 if row[column[node]] > split[node] else 0)
    return node


@compiled()
def place_rows(rows, tree, disjoint, roots, column, split, left, by_class, over, leaf):
    """Put all rows into their leaves: fills ``leaf`` and adds them to ``over``, as `anneal` keeps both."""
    n_columns = rows.shape[1] - 1
    for i in range(rows.shape[0]):
        for t in range(len(roots)):
            leaf[i, t] = _leaf_of(rows[i], roots[t], column, split, left)
            if not disjoint or tree[i] == t:
                over[leaf[i, t], rows[i, n_columns] if by_class else 0] += 1.0


@compiled()
def anneal(
    rows, tree, disjoint, roots, column, split, left, by_class, over, leaf, paths, cumulative, width, scale, uniform,
):  # fmt: skip
    """Change rows in place so that they agree with counts, as far as noise lets them.

    Parameters
    ----------
    rows : int32 array of shape (n_rows, n_columns + 1)
        Cells, and the class last.
    tree : int64 array of shape (n_rows,)
        Which tree holds a row, where trees hold disjoint rows.
    disjoint : bool
    roots : int64 array of shape (n_trees,)
    column, split, left : arrays of shape (n_nodes,)
        Column that a node asks, the cell up to which a row goes left, and the left child, -1 at a leaf.
    by_class : bool
        Whether counts are by class.
    over : float64 array of shape (n_nodes, n_classes), or one column
        How many rows too many each leaf has.
    leaf : int64 array of shape (n_rows, n_trees)
        Where each row is.
    paths : uint64 array of shape (n_nodes, n_columns // 64 + 1)
        Of each leaf a bit a column: whether it is asked on the way there.
    cumulative : float64 array of shape (n_columns + 1, most cells)
        Marginals from which a new cell is drawn: to sample from the posterior, only the likelihood decides then.
    width : int64 array of shape (n_columns + 1,)
        Cells of each column.
    scale : float64 array of shape (n_moves,)
        Twice the variance of a count's noise times the temperature.
    uniform : float64 array of shape (n_moves, 4)
        From [0, 1).
    """
    n_rows, n_columns = rows.shape[0], rows.shape[1] - 1
    n_trees = len(roots)
    fresh, touched = np.empty(n_trees, dtype=np.int64), np.empty(n_trees, dtype=np.int64)
    kinds = n_columns + (1 if by_class else 0) + (1 if disjoint else 0)
    for move in range(len(scale)):
        i = int(uniform[move, 0] * n_rows)
        kind = int(uniform[move, 1] * kinds)
        to_tree = disjoint and kind == kinds - 1
        old_class = rows[i, n_columns] if by_class else 0
        new_class = old_class
        old_tree, new_tree, old_cell = tree[i], tree[i], 0
        n_touched = 0  # trees whose count of the row a move may change
        if to_tree:
            new_tree = int(uniform[move, 2] * n_trees)
            if new_tree == old_tree:
                continue
        else:
            cell = 0
            while cell < width[kind] - 1 and cumulative[kind, cell] < uniform[move, 2]:
                cell += 1
            old_cell = rows[i, kind]
            if cell == old_cell:
                continue
            rows[i, kind] = cell
            if kind == n_columns:
                new_class = cell
            else:
                word, bit = kind // 64, np.uint64(kind % 64)
                for t in range(n_trees):
                    if (paths[leaf[i, t], word] >> bit) & np.uint64(1):
                        fresh[t] = _leaf_of(rows[i], roots[t], column, split, left)
                        touched[n_touched] = t
                        n_touched += 1
        if kind >= n_columns:  # another class, or another tree
            for t in range(n_trees):
                fresh[t], touched[t] = leaf[i, t], t
            n_touched = n_trees
        worse = 0.0
        for t in touched[:n_touched]:
            was, will = (not disjoint) or t == old_tree, (not disjoint) or t == new_tree
            if was and will and fresh[t] == leaf[i, t] and new_class == old_class:
                continue
            if was:
                worse -= 2 * over[leaf[i, t], old_class] - 1
                over[leaf[i, t], old_class] -= 1
            if will:
                worse += 2 * over[fresh[t], new_class] + 1
                over[fresh[t], new_class] += 1
        if worse <= 0 or uniform[move, 3] < np.exp(-worse / scale[move]):
            tree[i] = new_tree
            for t in touched[:n_touched]:
                leaf[i, t] = fresh[t]
            continue
        for t in touched[:n_touched]:
            was, will = (not disjoint) or t == old_tree, (not disjoint) or t == new_tree
            if was and will and fresh[t] == leaf[i, t] and new_class == old_class:
                continue
            if will:
                over[fresh[t], new_class] -= 1
            if was:
                over[leaf[i, t], old_class] += 1
        if not to_tree:
            rows[i, kind] = old_cell
