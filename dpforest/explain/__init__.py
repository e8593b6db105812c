"""What a forest says, for people: rules, paths of single predictions, pictures, and how stable importances are.

All of it is computed from a finished forest, whose numbers were noised before they left the data: post-processing,
which costs no budget. Mean decrease in impurity is `dpforest.forest.feature_importances`.
"""

from dpforest.explain.path import Step, TreePath, explain_prediction
from dpforest.explain.picture import draw_tree, to_dot
from dpforest.explain.rules import Rule, tree_rules
from dpforest.explain.stability import Stability, compare_importances, mean_stability

__all__ = [
    "Rule",
    "Stability",
    "Step",
    "TreePath",
    "compare_importances",
    "draw_tree",
    "explain_prediction",
    "mean_stability",
    "to_dot",
    "tree_rules",
]
