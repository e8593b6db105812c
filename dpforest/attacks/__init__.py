"""What an attacker gets from a released model, on plain arrays: membership, reconstruction, attribute inference.

An attack that finds nothing shows nothing: a better one may find more, up to what the guarantee allows
(`most_true_positives`). Each is to be run on something that must break as well.
"""

from dpforest.attacks.allowed import most_area, most_true_positives
from dpforest.attacks.attributes import Guesser, Hidden, hidden_columns
from dpforest.attacks.informed import Influence, boosting_influence, count_ratio
from dpforest.attacks.rates import FALSE_POSITIVES, Estimate, Rates, rates
from dpforest.attacks.reconstruction import Cells, Known, agreement, rebuild
from dpforest.attacks.released import Part, class_counts, count_ratios, leaf_counts, own_value_hits
from dpforest.attacks.shadows import Shadows

__all__ = [
    "FALSE_POSITIVES",
    "Cells",
    "Estimate",
    "Guesser",
    "Hidden",
    "Influence",
    "Known",
    "Part",
    "Rates",
    "Shadows",
    "agreement",
    "boosting_influence",
    "class_counts",
    "count_ratio",
    "count_ratios",
    "hidden_columns",
    "leaf_counts",
    "most_area",
    "most_true_positives",
    "own_value_hits",
    "rates",
    "rebuild",
]
