"""Numba kernels of boosting: clipped integer gradients, sums a leaf, and scores of records.

Trees are complete and in breadth-first order: the children of node ``v`` are ``2 v + 1`` and ``2 v + 2``. Codes are
those of `dpforest.growers.kernels.bin_rows`: a record goes left of threshold ``b`` exactly if its code is ``b`` or
less.
"""

from __future__ import annotations

import numpy as np

from dpforest.compiled import compiled
from dpforest.mechanisms.whole import whole

_BLOCK = 512


@compiled()
def count_cells(codes, counts):
    """Add every record to one cell a feature of ``counts``, shape (n_features, n_bins)."""
    for i in range(codes.shape[0]):
        for f in range(codes.shape[1]):
            counts[f, codes[i, f]] += 1


@compiled(inline="always")
def _find_leaves(cells, n_features, start, count, depth, feature, split, node):
    """Leaf (0-based) of records ``start`` to ``start + count`` in one tree; unsigned, see `forest.kernels`."""
    node[:count] = 0
    for _ in range(depth):
        for i in range(np.uint64(count)):
            v = node[i]
            code = cells[(np.uint64(start) + i) * n_features + np.uint64(feature[v])]
            node[i] = np.uint32(2) * v + np.uint32(1) + np.uint32(code > split[v])
    first = np.uint32((1 << depth) - 1)
    for i in range(count):
        node[i] -= first


@compiled()
def add_weights(codes, feature, split, weights, scores):
    """Add to ``scores`` what the records' leaves hold.

    Parameters
    ----------
    codes : uint8 array of shape (n_records, n_features)
    feature : uint16 array of shape (n_trees, 2 ** depth - 1)
    split : uint8 array of the same shape
    weights : float32 array of shape (n_trees, 2 ** depth, n_outputs)
    scores : float32 array of shape (n_records, n_outputs)
    """
    cells, n_features = codes.reshape(-1), np.uint64(codes.shape[1])
    depth = _depth_of(weights.shape[1])
    node = np.zeros(_BLOCK, dtype=np.uint32)
    for start in range(0, codes.shape[0], _BLOCK):
        count = min(_BLOCK, codes.shape[0] - start)
        for t in range(feature.shape[0]):
            _find_leaves(cells, n_features, start, count, depth, feature[t], split[t], node)
            for i in range(count):
                row, leaf = scores[start + i], weights[t, node[i]]
                for k in range(row.shape[0]):
                    row[k] += leaf[k]


@compiled()
def add_records(codes, feature, split, gradients, counts, sums):
    """Add each record to one leaf of every tree of ``sums``.

    Parameters
    ----------
    gradients : int32 or float64 array of shape (n_records, n_outputs)
    counts : int64 or float64 array of shape (n_records,)
        What a record adds to the last column.
    sums : int64 or float64 array of shape (n_trees, 2 ** depth, n_outputs + 1)
    """
    cells, n_features = codes.reshape(-1), np.uint64(codes.shape[1])
    depth = _depth_of(sums.shape[1])
    n_outputs = gradients.shape[1]
    node = np.zeros(_BLOCK, dtype=np.uint32)
    for start in range(0, codes.shape[0], _BLOCK):
        count = min(_BLOCK, codes.shape[0] - start)
        for t in range(feature.shape[0]):
            _find_leaves(cells, n_features, start, count, depth, feature[t], split[t], node)
            for i in range(count):
                row, leaf = gradients[start + i], sums[t, node[i]]
                for k in range(n_outputs):
                    leaf[k] += row[k]
                leaf[n_outputs] += counts[start + i]


@compiled(inline="always")
def _depth_of(n_leaves):
    depth = 0
    while (1 << depth) < n_leaves:
        depth += 1
    return depth


@compiled()
def class_gradients(scores, y, clip, unit, order, out):
    """Gradients of the log loss by the scores, clipped, in whole units.

    Parameters
    ----------
    scores : float32 array of shape (n_records, n_classes)
    y : int64 array of shape (n_records,)
    clip : float
        Norm above which a gradient is shortened.
    unit : int
        What ``clip`` becomes. No row of ``out`` exceeds it in norm, by exact integer arithmetic.
    order : {1, 2}
        Of the norm.
    out : int32 array of shape (n_records, n_classes)
    """
    n_classes = scores.shape[1]
    g = np.empty(n_classes)
    for i in range(scores.shape[0]):
        row = scores[i]
        largest = row[0]
        for c in range(1, n_classes):
            largest = max(largest, row[c])
        total = 0.0
        for c in range(n_classes):
            g[c] = np.exp(np.float64(row[c] - largest))
            total += g[c]
        for c in range(n_classes):
            g[c] /= total
        g[y[i]] -= 1.0
        _clip_to_units(g, clip, unit, order, out[i])


@compiled()
def squared_gradients(scores, y, clip, unit, order, out):
    """`class_gradients` of half the squared error, for targets ``y`` of shape (n_records,)."""
    g = np.empty(1)
    for i in range(scores.shape[0]):
        g[0] = scores[i, 0] - y[i]
        _clip_to_units(g, clip, unit, order, out[i])


@compiled(inline="always")
def _clip_to_units(g, clip, unit, order, out):
    norm = 0.0
    for k in range(g.shape[0]):
        norm += g[k] * g[k] if order == 2 else abs(g[k])
    if order == 2:
        norm = np.sqrt(norm)
    if not norm < np.inf:  # also NaN, which no rounding keeps within the bound
        out[:] = 0
        return
    scale = unit / max(norm, clip)
    for k in range(g.shape[0]):
        out[k] = np.int32(whole(scale * g[k], unit, False))
    # Rounding to the nearest may have left the ball: one step towards zero brings it back in.
    while _norm_of_units(out, order) > (unit * unit if order == 2 else unit):
        for k in range(g.shape[0]):
            out[k] -= np.sign(out[k])


@compiled(inline="always")
def _norm_of_units(row, order):
    total = np.int64(0)
    for k in range(row.shape[0]):
        total += np.int64(row[k]) * np.int64(row[k]) if order == 2 else np.int64(abs(row[k]))
    return total


@compiled()
def shorten(cells, table, offsets, one, factors):
    """What brings each record's ``phi`` to a norm of 1 at most; see `dpforest.boosting.linear`.

    Parameters
    ----------
    cells : uint8 array of shape (n_records, n_numeric)
    table : float64 array of shape (n_numeric, n_cells)
    offsets : int64 array of shape (n_categorical + 1,)
    one : float
        Of the constant and of a category at hand.
    factors : float64 array of shape (n_records,)
    """
    for i in range(cells.shape[0]):
        squares = one * one * offsets.shape[0]
        for f in range(cells.shape[1]):
            squares += table[f, cells[i, f]] ** 2
        factors[i] = 1 / max(1.0, np.sqrt(squares))


@compiled()
def add_linear(cells, table, categories, offsets, one, reach, gradients, largest, sums):
    """Add ``reach * gradient x phi`` of each record, cut off towards zero, to ``sums`` of shape (size, n_outputs).

    Parameters
    ----------
    categories : uint8 array of shape (n_records, n_categorical)
        Places of values; one behind the last of a column counts as the first.
    reach : float64 array of shape (n_records,)
    gradients : int32 array of shape (n_records, n_outputs)
    largest : int
        What no number exceeds in size.
    """
    n_outputs = gradients.shape[1]
    constant = sums.shape[0] - 1
    for i in range(cells.shape[0]):
        row = gradients[i]
        for f in range(cells.shape[1]):
            factor, to = table[f, cells[i, f]] * reach[i], sums[f]
            for k in range(n_outputs):
                to[k] += whole(factor * row[k], largest, True)
        for c in range(categories.shape[1] + 1):
            place = constant if c == categories.shape[1] else _coefficient(categories[i, c], offsets, c)
            for k in range(n_outputs):
                sums[place, k] += whole(one * reach[i] * row[k], largest, True)


@compiled()
def add_linear_scores(cells, table, categories, offsets, one, coefficients, scores):
    """Add ``phi @ coefficients`` to the scores of the records.

    Parameters
    ----------
    coefficients : float32 array of shape (size, n_outputs)
    scores : float32 array of shape (n_records, n_outputs)
    """
    n_outputs = scores.shape[1]
    constant = coefficients.shape[0] - 1
    total = np.empty(n_outputs)
    for i in range(cells.shape[0]):
        for k in range(n_outputs):
            total[k] = one * coefficients[constant, k]
        for f in range(cells.shape[1]):
            value, of_column = table[f, cells[i, f]], coefficients[f]
            for k in range(n_outputs):
                total[k] += value * of_column[k]
        for c in range(categories.shape[1]):
            place = _coefficient(categories[i, c], offsets, c)
            for k in range(n_outputs):
                total[k] += one * coefficients[place, k]
        for k in range(n_outputs):
            scores[i, k] += np.float32(total[k])


@compiled(inline="always")
def _coefficient(code, offsets, column):
    first = offsets[column]
    return first + (np.int64(code) if code < offsets[column + 1] - first else 0)
