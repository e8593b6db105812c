"""What holds for every mechanism: it draws under lines of its own, and no more than was paid for."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.ledger import Budget, Ledger
from dpforest.mechanisms import DiscreteGaussianSums, DiscreteLaplaceCounts, GaussianSums, Mechanism, Selection
from dpforest.noise import Seeded

EXAMPLES = {
    DiscreteLaplaceCounts: [DiscreteLaplaceCounts(0.01), DiscreteLaplaceCounts(1000.0), DiscreteLaplaceCounts(0.01, 2)],
    DiscreteGaussianSums: [DiscreteGaussianSums(8.0, 4), DiscreteGaussianSums(8.0, 9), DiscreteGaussianSums(9.0, 4)],
    GaussianSums: [
        GaussianSums(1.0, 0.5),
        GaussianSums(2.0, 0.5),
        GaussianSums(1.0, 0.5, 0.1),
        GaussianSums(1.0, 0.5, 0.1, True),
    ],
    Selection: [Selection(0.01, 4), Selection(0.01, 5), Selection(0.01, 4, "exponential"), Selection(0.02, 4)],
}
EVERY = [mechanism for examples in EXAMPLES.values() for mechanism in examples]
VALUES = np.array([[3, 1], [2, 2]])


def free() -> Ledger:
    return Ledger(Budget(math.inf, 1e-5))


def test_every_mechanism_is_tried_here():
    assert set(EXAMPLES) == set(Mechanism.__subclasses__())


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
def test_a_mechanism_takes_its_own_lines_and_no_others(mechanism):
    own = mechanism.entry("x", "2 slices/1" if mechanism.cost.sampling == 1 else "all", 3, "why")
    assert mechanism.release(VALUES.astype(float), own, ledger := free(), Seeded(0)) is not None
    assert (ledger.entries, ledger.releases) == ((own,), 1)
    others = [other.entry("x", times=3) for other in EVERY if other != mechanism]
    others += [replace(own, scale=own.scale * 2), replace(own, sensitivity=own.sensitivity / 2)]
    for other in others:
        ledger = free()
        with pytest.raises(DPForestError, match="make the entry with the mechanism that releases"):
            mechanism.release(VALUES, other, ledger, Seeded(0))
        with pytest.raises(DPForestError, match="make the entry with the mechanism that releases"):
            mechanism.resume(other, ledger, 0)
        assert (ledger.entries, ledger.releases) == ((), 0)


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
def test_no_more_is_drawn_than_was_paid_for(mechanism):
    entry = mechanism.entry("x", times=3)
    paid = mechanism.charge(entry, ledger := free())
    paid.draw(VALUES.astype(float), Seeded(0), times=2)
    paid.draw(VALUES.astype(float), Seeded(0))
    with pytest.raises(BudgetExceeded, match="1 releases were asked for, and 0"):
        paid.draw(VALUES, Seeded(0))
    for times in (0, -1):
        with pytest.raises(BudgetExceeded):
            mechanism.charge(entry, free()).draw(VALUES, Seeded(0), times)
    again = mechanism.resume(entry, Ledger.from_dict(ledger.to_dict()), done=2)
    again.draw(VALUES.astype(float), Seeded(0))
    assert again.left == 0
    with pytest.raises(DPForestError, match="has not been charged"):
        mechanism.resume(entry, free(), 0)


def test_parts_of_a_gaussian_release_cost_no_more_than_the_whole():
    whole = GaussianSums(2.0, 0.5)
    parts = [(whole.part(0.9), np.zeros(3), Seeded(0)), (GaussianSums(7.0, 0.5).part(0.1), np.zeros(1), Seeded(1))]
    paid = whole.charge(whole.entry("x", times=2), free())
    assert [len(part) for part in paid.draw_parts(parts)] == [3, 1]
    assert paid.left == 1
    with pytest.raises(BudgetExceeded, match="the parts of a release cost more"):
        paid.draw_parts([*parts, (whole.part(0.01), np.zeros(1), Seeded(2))])
    with pytest.raises(DPForestError, match="only Gaussian releases have parts"):
        paid.draw_parts([(DiscreteLaplaceCounts(1e-9), VALUES, Seeded(0))])
    assert paid.left == 1


@pytest.mark.parametrize(
    ("sensitivity", "mu"), [(0.0, 1.0), (math.inf, 1.0), (math.nan, 1.0), (1.0, 0.0), (1.0, math.nan)]
)
def test_gaussian_sums_need_positive_numbers(sensitivity, mu):
    with pytest.raises(DPForestError, match="must be positive numbers"):
        GaussianSums(sensitivity, mu)
