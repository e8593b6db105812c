"""Pictures of one tree: with matplotlib, or as text for Graphviz."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpforest.explain.wording import outcome, question, records
from dpforest.forest import Forest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 1.9, 1.15  # inches of a leaf, and of a level


def to_dot(forest: Forest, tree: int = 0, depth: int | None = None) -> str:
    """One tree in Graphviz's language.

    Parameters
    ----------
    forest : Forest
        Whose trees are averaged.
    tree : int
    depth : int, optional
        Draw no deeper; a node that is cut off says what it predicts on average.

    Returns
    -------
    str
        In the language DOT, for Graphviz.

    Examples
    --------
    >>> import numpy as np
    >>> from dpforest import PrivateForestClassifier
    >>> X, y = np.repeat([[0.1], [0.9]], 500, axis=0), np.repeat(["low", "high"], 500)
    >>> model = PrivateForestClassifier(trees=1, depth=1, bounds=[(0, 1)], classes=["high", "low"], random_state=0)
    >>> forest = model.fit(X, y).forest_
    >>> to_dot(forest).startswith("digraph")
    True
    """
    alone = forest.tree(tree)
    lines = ["digraph tree {", '  node [shape=box, style=rounded, fontname="sans-serif"];']
    for node in _nodes_down_to(alone, depth):
        label = _label(alone, node, depth).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'  {node} [label="{label}"];')
        if _is_open(alone, node, depth):
            left = int(alone.left[node])
            lines.append(f'  {node} -> {left} [label="yes"];')
            lines.append(f'  {node} -> {left + 1} [label="no"];')
    return "\n".join([*lines, "}"]) + "\n"


def draw_tree(forest: Forest, tree: int = 0, depth: int | None = 3, axes: Axes | None = None) -> Figure:
    """One tree as a matplotlib figure; colours go with the predicted value.

    Parameters
    ----------
    forest : Forest
        Whose trees are averaged.
    tree : int
    depth : int, optional
        Draw no deeper.
    axes : Axes, optional
        Where to draw; a figure of a fitting size by default.

    Returns
    -------
    Figure
        ``savefig`` writes it as SVG, PDF or PNG.
    """
    from matplotlib.figure import Figure

    alone = forest.tree(tree)
    nodes = _nodes_down_to(alone, depth)
    place = _places(alone, nodes, depth)
    if axes is None:
        ends = sum(not _is_open(alone, node, depth) for node in nodes)
        levels = int(alone.depths[nodes].max()) + 1
        figure = Figure(figsize=(max(3.0, _WIDTH * ends), max(1.5, _HEIGHT * levels)), layout="constrained")
        axes = figure.add_subplot()
    from matplotlib import colormaps

    colours = colormaps["Blues" if not forest.schema.is_classification else "Pastel1"]
    for node in nodes:
        x, y = place[node]
        if _is_open(alone, node, depth):
            left = int(alone.left[node])
            for child, word in ((left, "yes"), (left + 1, "no")):
                to_x, to_y = place[child]
                axes.plot([x, to_x], [y, to_y], color="0.6", linewidth=1, zorder=1)
                axes.text((x + to_x) / 2, (y + to_y) / 2, word, fontsize=7, color="0.4", ha="center", va="center",
                          bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
        # Names may have dollar signs in them.
        axes.text(x, y, _label(alone, node, depth), fontsize=8, ha="center", va="center", zorder=2, parse_math=False,
                  bbox={"boxstyle": "round", "fc": colours(_shade(alone, node)), "ec": "0.4"})  # fmt: skip
    axes.set_xlim(-0.7, max(x for x, _ in place.values()) + 0.7)
    axes.set_ylim(min(y for _, y in place.values()) - 0.5, 0.5)
    axes.set_axis_off()
    picture = axes.get_figure(root=True)
    assert isinstance(picture, Figure)
    return picture


def _nodes_down_to(tree: Forest, depth: int | None) -> np.ndarray:
    return np.flatnonzero(tree.depths <= depth) if depth is not None else np.arange(tree.n_nodes)


def _is_open(tree: Forest, node: int, depth: int | None) -> bool:
    return bool(tree.left[node] >= 0 and (depth is None or tree.depths[node] < depth))


def _label(tree: Forest, node: int, depth: int | None) -> str:
    says = f"{outcome(tree, tree.value[node])}\n{records(tree.weight[node])}"
    if not _is_open(tree, node, depth):
        return says
    return f"{question(tree, int(tree.feature[node]), -np.inf, float(tree.threshold[node]))}?\n{says}"


def _shade(tree: Forest, node: int) -> float:
    if tree.schema.is_classification:
        return float(np.argmax(tree.value[node]) % 9) / 9 + 0.01
    values = tree.value[tree.is_leaf, 0]
    spread = float(values.max() - values.min())
    return 0.05 + 0.45 * (float(tree.value[node, 0]) - float(values.min())) / spread if spread else 0.05


def _places(tree: Forest, nodes: np.ndarray, depth: int | None) -> dict[int, tuple[float, float]]:
    """Ends side by side from left to right, parents above the middle of their children."""
    x: dict[int, float] = {}
    ends = 0
    stack = [0]
    while stack:
        node = stack.pop()
        if _is_open(tree, node, depth):
            stack += [int(tree.left[node]) + 1, int(tree.left[node])]
        else:
            x[node] = float(ends)
            ends += 1
    for node in reversed(nodes.tolist()):
        if _is_open(tree, node, depth):
            left = int(tree.left[node])
            x[node] = (x[left] + x[left + 1]) / 2
    return {node: (x[node], -float(tree.depths[node])) for node in nodes.tolist()}
