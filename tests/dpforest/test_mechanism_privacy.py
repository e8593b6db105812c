"""Each mechanism with each noise source: private at its epsilon on neighbours, and found out when it is not."""

import math

import numpy as np
import pytest

from dpforest.audit import HalvedNoise, certain_loss
from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.ledger import Budget, Ledger
from dpforest.mechanisms import DiscreteGaussianSums, DiscreteLaplaceCounts, Selection
from dpforest.noise import Secure, Seeded

SOURCES = {"seeded": lambda: Seeded(2024), "secure": Secure}
# OpenDP's samplers are some hundred times slower.
COUNT_DRAWS = {"seeded": 500_000, "secure": 20_000}
SELECTION_DRAWS = {"seeded": 500_000, "secure": 3_000}
RISE = 256
source_names = pytest.mark.parametrize("source", SOURCES)


def noised_counts(records, epsilon, draws, noise):
    """Cells 0 to 20: the noised count from at most -5 to at least 15."""
    mechanism = DiscreteLaplaceCounts(epsilon)
    ledger = Ledger(Budget(epsilon))
    noised = mechanism.release(np.full(draws, records), mechanism.entry("count"), ledger, noise)
    return np.clip(noised + 5, 0, 20)


@pytest.mark.parametrize(("source", "epsilon"), [("seeded", 0.5), ("seeded", 1.0), ("seeded", 3.0), ("secure", 1.0)])
def test_counts_with_one_record_more(source, epsilon):
    def loss(noise, neighbour=6):
        one, other = (noised_counts(records, epsilon, COUNT_DRAWS[source], noise) for records in (5, neighbour))
        return certain_loss(one, other, n_cells=21)

    assert 0.8 * epsilon < loss(SOURCES[source]()) <= epsilon, "no more than promised, and not far less"
    assert loss(HalvedNoise(SOURCES[source]())) > epsilon
    assert loss(SOURCES[source](), neighbour=7) > epsilon, "two records more need twice the sensitivity"


def chosen(scores, kind, epsilon, draws, noise):
    mechanism = Selection(epsilon, RISE, kind)
    ledger = Ledger(Budget(epsilon))
    return mechanism.release(np.tile(np.array(scores), (draws, 1)), mechanism.entry("choice"), ledger, noise)


@source_names
@pytest.mark.parametrize("kind", ["permute_and_flip", "exponential"])
@pytest.mark.parametrize(
    ("scores", "rises"),
    [
        ([0, 0], [RISE, 0]),
        ([300, 0, 0, 0], [0, RISE, RISE, 0]),
        ([100, 90, 0], [RISE, 100, 7]),
        ([5, 5, 5, 5, 5, 5], [0, 0, 0, 0, 0, RISE]),
    ],
)
def test_a_choice_with_one_record_more(source, kind, scores, rises):
    draws = SELECTION_DRAWS[source]
    before = chosen(scores, kind, 1.0, draws, SOURCES[source]())
    after = chosen(np.add(scores, rises), kind, 1.0, draws, SOURCES[source]())
    assert certain_loss(before, after, len(scores)) <= 1.0


@source_names
@pytest.mark.parametrize("kind", ["permute_and_flip", "exponential"])
def test_a_choice_that_is_not_private_is_found_out(source, kind):
    # With fewer, the exponential mechanism with half the noise, whose loss is 1.43, is often not found out: of the
    # 3000 draws above, in one of twenty runs. With these, 1.0 is some seven standard deviations away.
    draws = max(SELECTION_DRAWS[source], 8_000)

    def loss(noise, rise):
        return certain_loss(
            chosen([0, 0], kind, 1.0, draws, noise), chosen([rise, 0], kind, 1.0, draws, noise), n_cells=2
        )

    assert loss(HalvedNoise(SOURCES[source]()), RISE) > 1.0
    assert loss(SOURCES[source](), 2 * RISE) > 1.0


@source_names
def test_choices_follow_their_distributions(source):
    """Two candidates one sensitivity apart at epsilon 1: exponential mechanism e / (1 + e), permute-and-flip
    1 - 1 / (2 e) (McKenna, Sheldon 2020: the worse is flipped first with 1/2 and kept with 1/e)."""
    draws = SELECTION_DRAWS[source]
    margin = 5 / math.sqrt(draws)  # ten standard deviations at most
    for kind, expected in {"exponential": math.e / (1 + math.e), "permute_and_flip": 1 - 1 / (2 * math.e)}.items():
        best = np.mean(chosen([RISE, 0], kind, 1.0, draws, SOURCES[source]()) == 0)
        assert best == pytest.approx(expected, abs=margin)


def test_permute_and_flip_is_never_worse_than_the_exponential_mechanism():
    scores = np.array([0, 100, 250, 300, 300])
    better, worse = (
        scores[chosen(scores, kind, 1.0, 200_000, Seeded(0))].mean() for kind in ("permute_and_flip", "exponential")
    )
    assert better > worse


@source_names
@pytest.mark.parametrize(
    ("sampler", "scale", "log_weight"),
    [
        ("discrete_laplace", 0.7, lambda k: -abs(k) / 0.7),
        ("discrete_laplace", 4.0, lambda k: -abs(k) / 4.0),
        ("discrete_gaussian", 0.4, lambda k: -(k**2) / (2 * 0.4**2)),
        ("discrete_gaussian", 3.3, lambda k: -(k**2) / (2 * 3.3**2)),
    ],
)
def test_noise_has_the_documented_distribution(source, sampler, scale, log_weight):
    """Against the formula, by the distance of distribution functions (Dvoretzky, Kiefer, Wolfowitz; Massart 1990)."""
    draws = {"seeded": 400_000, "secure": 8_000}[source]
    noise = getattr(SOURCES[source](), sampler)(scale, (draws // 4, 4))
    assert noise.shape == (draws // 4, 4)
    assert noise.dtype == np.int64
    support = np.arange(-200, 201)
    weights = np.exp([log_weight(int(k)) for k in support])
    expected = np.cumsum(weights) / weights.sum()
    seen = np.searchsorted(np.sort(noise.ravel()), support, side="right") / draws
    assert np.abs(seen - expected).max() < math.sqrt(math.log(2 / 1e-7) / (2 * draws))


def test_a_seed_repeats_its_noise_and_the_secure_source_does_not():
    again = [Seeded(3).discrete_laplace(9.0, 40).tolist() for _ in range(2)]
    assert again[0] == again[1]
    assert Seeded(4).discrete_laplace(9.0, 40).tolist() != again[0]
    assert Secure().discrete_laplace(1e9, 4).tolist() != Secure().discrete_laplace(1e9, 4).tolist()


@source_names
@pytest.mark.parametrize("sampler", ["discrete_laplace", "discrete_gaussian"])
def test_noise_beyond_64_bits_is_refused(source, sampler):
    """Cut off at 2^63, it would show exactly how much lies beneath it."""
    draw = getattr(SOURCES[source](), sampler)
    assert np.abs(draw(2.0**50, 200)).max() < 2**60
    for scale in (2.0**51, 1e19, math.inf, math.nan):
        with pytest.raises(DPForestError, match="noise of scale"):
            draw(scale, 4)


def test_a_budget_that_takes_noise_beyond_64_bits_is_refused():
    for epsilon in (1e-19, 5e-324, 0.0):
        with pytest.raises(DPForestError, match="noise of scale"):
            DiscreteLaplaceCounts(epsilon)
    with pytest.raises(DPForestError, match="noise of scale"):
        DiscreteGaussianSums.for_mu(1e-19, 1)


@source_names
def test_no_draws_are_no_problem(source):
    noise = SOURCES[source]()
    assert noise.discrete_laplace(1.0, (0, 3)).shape == (0, 3)
    assert noise.permute_and_flip(np.empty((0, 3), dtype=np.int64), 1.0).shape == (0,)


def test_without_privacy_nothing_is_noised():
    ledger = Ledger(Budget(math.inf))
    counts = DiscreteLaplaceCounts(math.inf)
    assert counts.release(np.array([3, 0]), counts.entry("c"), ledger, Seeded(0)).tolist() == [3, 0]
    choice = Selection(math.inf, RISE)
    assert choice.release(np.array([[1, 2], [5, 4]]), choice.entry("s"), ledger, Seeded(0)).tolist() == [1, 0]
    assert not ledger.guarantee().holds


class _NoNoise(Seeded):
    """Fails if anything is drawn."""

    def discrete_laplace(self, scale, shape):
        raise AssertionError("drew noise after a refusal")

    permute_and_flip = discrete_laplace


@pytest.mark.parametrize("mechanism", [DiscreteLaplaceCounts(2.0), Selection(2.0, RISE)])
def test_a_release_over_budget_is_refused_before_it_happens(mechanism):
    ledger = Ledger(Budget(1.0))
    with pytest.raises(BudgetExceeded, match="budget is 1"):
        mechanism.release(np.array([[1, 2]]), mechanism.entry("x"), ledger, _NoNoise(0))
    assert ledger.entries == ()


def test_an_unknown_selection_is_named():
    with pytest.raises(DPForestError, match=r"selection 'gumbel' must be one of permute_and_flip, exponential"):
        Selection(1.0, RISE, "gumbel")
