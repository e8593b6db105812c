"""What a guarantee about one record says about several at once, and about other deltas.

Proofs, for data sets that differ in k records, by changing one of them after the other:

* pure: each step multiplies probabilities by exp(epsilon) at most, so k steps by exp(k epsilon).
* approximate: P0(S) <= exp(epsilon) P1(S) + delta, put into itself k times, gives k epsilon and
  delta (1 + exp(epsilon) + ... + exp((k - 1) epsilon)) (Vadhan 2017, lemma 2.2, with its
  sum kept).
* training and test rows: each of the k units is in one part. With j of them among the training rows, the others are
  k - j more steps, of pure releases about test rows; these leave delta as it is where the steps that have one come
  first. The worst j counts.
* Gaussian: what costs mu for one record costs k mu for k (Dong, Roth, Su 2022, section 2.5 on group privacy).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpforest.guarantee import Guarantee, most_balanced_accuracy
from dpforest.ledger.accounting import epsilon_of_gaussian, total_epsilon, worst_case
from dpforest.ledger.entries import TEST_ROWS, Entry

# Beyond it any epsilon is as good as infinite.
_LARGEST_MU = 1e6
# Of numbers of which exp can be taken.
_LARGEST_EXPONENT = 700.0
# From even odds: who is right more often than this about who is in the data, has learned it.
_USEFUL = 0.99
# Into how many ranges the divisions of some units between training and test rows are put.
_DIVISIONS = 64


@dataclass(frozen=True)
class GroupGuarantee:
    """What holds for several units at once.

    Parameters
    ----------
    size : int
        How many units.
    epsilon, delta : float
    formula : str
        By which these follow from the guarantee about one.
    """

    size: int
    epsilon: float
    delta: float
    formula: str

    @property
    def certainty(self) -> float:
        """How often an attacker who starts from even odds can at most be right about whether the units were there."""
        return most_balanced_accuracy(self.epsilon, self.delta)

    @property
    def is_useful(self) -> bool:
        """Whether it keeps an attacker from being all but certain."""
        return self.certainty <= _USEFUL


def group_guarantee(guarantee: Guarantee, entries: Iterable[Entry], size: int) -> GroupGuarantee:
    """What a guarantee about one unit gives to so many at once.

    Parameters
    ----------
    guarantee : Guarantee
        That holds.
    entries : iterable of Entry
        All releases behind it.
    size : int
        From 1.
    """
    if size == 1:
        return GroupGuarantee(1, guarantee.epsilon, guarantee.delta, "as guaranteed")
    entries = list(entries)
    if tested := [entry for entry in entries if entry.rows == TEST_ROWS]:
        trained = [entry for entry in entries if entry.rows != TEST_ROWS]
        return _over_both_parts(trained, tested, guarantee, size)
    if any(entry.sampling < 1 for entry in entries):
        return _approximate(guarantee, size)
    pure = [entry for entry in entries if entry.epsilon]
    gaussian = [entry for entry in entries if entry.mu]
    if not gaussian:
        return GroupGuarantee(size, size * total_epsilon(pure, 0.0), 0.0, "k x epsilon")
    # The mu of all Gaussian releases, from which their epsilon at any delta follows.
    mu = math.sqrt(sum(worst_case(gaussian)[1]))
    by_gaussian = epsilon_of_gaussian(size * mu, guarantee.delta) if size * mu <= _LARGEST_MU else math.inf
    if not pure:
        return GroupGuarantee(size, by_gaussian, guarantee.delta, "Gaussian: k x mu")
    total = size * total_epsilon(pure, 0.0) + by_gaussian
    return GroupGuarantee(size, total, guarantee.delta, "k x epsilon of pure releases, and k x mu of Gaussian ones")


def _over_both_parts(
    trained: Sequence[Entry], tested: Sequence[Entry], guarantee: Guarantee, size: int
) -> GroupGuarantee:
    each = total_epsilon(tested, 0.0) if all(entry.epsilon for entry in tested) else math.inf
    worst = GroupGuarantee(size, size * each, 0.0, "k x epsilon")
    if not trained:
        return worst
    fewer = 0
    for number in sorted({max(1, size * step // _DIVISIONS) for step in range(1, _DIVISIONS + 1)}):
        training = group_guarantee(guarantee, trained, number)
        # Of all divisions since the last one: no more units train than here, and no more test than there, less one.
        epsilon = training.epsilon + (size - fewer - 1) * each
        worst = GroupGuarantee(
            size, max(epsilon, worst.epsilon), max(training.delta, worst.delta),
            training.formula if epsilon > worst.epsilon else worst.formula,
        )  # fmt: skip
        fewer = number
    return worst


def epsilon_curve(guarantee: Guarantee, entries: Sequence[Entry], deltas: Iterable[float]) -> list[tuple[float, float]]:
    """Delta and epsilon at each of some deltas, and at the guarantee's own; nothing if it is pure."""
    if not guarantee.holds or not guarantee.delta or not any(entry.protected for entry in entries):
        return []
    return [
        (delta, guarantee.epsilon if delta == guarantee.delta else total_epsilon(entries, delta))
        for delta in sorted({*deltas, guarantee.delta})
    ]


def _approximate(guarantee: Guarantee, size: int) -> GroupGuarantee:
    epsilon, total = guarantee.epsilon, size * guarantee.epsilon
    if total > _LARGEST_EXPONENT:
        delta = 1.0
    else:
        factor = math.expm1(total) / math.expm1(epsilon) if epsilon else float(size)
        delta = min(1.0, guarantee.delta * factor)
    return GroupGuarantee(size, total, delta, "k x epsilon, delta x (exp(k epsilon) - 1) / (exp(epsilon) - 1)")
