from __future__ import annotations

import math

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from flwr.supercore import privacy_accounting as flower
from flwr.supercore.privacy_accounting.rdp_accountant import RdpAccountant as FlowerAccountant

from baselines.mlp.calibration import noise_multiplier, read_multiplier
from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.ledger import Budget, Entry, Ledger, renyi_epsilon, rows_slice, total_epsilon

# Abadi et al. 2016, figure 2 and section 5 (q 0.01, 10,000 steps, noise 4, delta 1e-5: epsilon 1.26); the MNIST
# tutorial of TensorFlow Privacy (batch 256 of 60,000, 15 and 60 epochs): epsilon 1.18 and 2.92 or 3.
PUBLISHED = [
    (1, 100, 10_000, 4.0, 1.26, 0.01),
    (256, 60_000, 15 * 60_000 // 256, 1.3, 1.18, 0.01),
    (256, 60_000, 60 * 60_000 // 256, 1.1, 3.0, 0.1),
]
DELTA = 1e-5


def sampled(z: float, q: float, times: int, fixed_size: bool = False) -> Entry:
    return Entry("g", "Gaussian", mu=1 / z, times=times, sampling=q, fixed_size=fixed_size)


@pytest.mark.parametrize(("batch", "of", "steps", "z", "published", "off"), PUBLISHED)
def test_published_settings(batch: int, of: int, steps: int, z: float, published: float, off: float) -> None:
    q = batch / of
    event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(z))
    entry = sampled(z, q, steps)
    exact = PLDAccountant().compose(event, steps).get_epsilon(DELTA)
    renyi = RdpAccountant().compose(event, steps).get_epsilon(DELTA)
    assert total_epsilon([entry], DELTA) == pytest.approx(exact, abs=1e-6)
    assert renyi_epsilon([entry], DELTA) == pytest.approx(renyi, abs=1e-6)
    poisson = flower.PrivacyConfig(
        DELTA, of, flower.NeighboringRelation.ADD_OR_REMOVE_ONE, flower.SamplingMethod.POISSON
    )
    flowers = FlowerAccountant(poisson)
    flowers.compose(flower.GaussianPrivacyEvent(z, batch, of), steps)
    assert renyi_epsilon([entry], DELTA) == pytest.approx(flowers.get_privacy_spent().epsilon, abs=1e-6)
    # The published figures come from Renyi accounting with an older, looser conversion.
    assert total_epsilon([entry], DELTA) < renyi_epsilon([entry], DELTA) < published + off


@pytest.mark.parametrize(
    ("method", "relation"),
    [
        ("POISSON", "ADD_OR_REMOVE_ONE"),
        ("NO_AMPLIFICATION", "ADD_OR_REMOVE_ONE"),
        ("WITHOUT_REPLACEMENT", "REPLACE_ONE"),
    ],
)
def test_flowers_accountant_agrees(method: str, relation: str) -> None:
    fixed = method == "WITHOUT_REPLACEMENT"
    config = flower.PrivacyConfig(DELTA, 30, flower.NeighboringRelation[relation], flower.SamplingMethod[method])
    # The bound for samples of fixed size is for whole orders; both then take these.
    accountant = FlowerAccountant(config, orders=tuple(float(order) for order in range(2, 33)) if fixed else None)
    accountant.compose(flower.GaussianPrivacyEvent(4.0, 5, 30), 10)
    entry = sampled(4.0, 1.0 if method == "NO_AMPLIFICATION" else 5 / 30, 10, fixed)
    assert renyi_epsilon([entry], DELTA) == pytest.approx(accountant.get_privacy_spent().epsilon, abs=1e-6)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize(("epsilon", "q", "steps"), [(0.1, 0.2, 100), (1, 1 / 6, 10), (8, 0.5, 60), (1, 1.0, 10)])
def test_calibrated_noise_meets_epsilon(accountant: str, epsilon: float, q: float, steps: int) -> None:
    z = noise_multiplier(Budget(epsilon, DELTA), lambda z: [sampled(z, q, steps)], accountant)  # type: ignore[arg-type]
    total = total_epsilon if accountant == "pld" else renyi_epsilon
    assert 0.999 * epsilon < total([sampled(z, q, steps)], DELTA) <= epsilon
    Ledger(Budget(epsilon, DELTA)).charge(sampled(z, q, steps))


def test_calibrated_noise_leaves_room_for_other_releases() -> None:
    def entries(z: float) -> list[Entry]:
        return [Entry("sums", "Gaussian", mu=0.05), sampled(z, 0.2, 50)]

    z = noise_multiplier(Budget(1.0, DELTA), entries, "pld")
    assert 0.999 < total_epsilon(entries(z), DELTA) <= 1
    assert z > noise_multiplier(Budget(1.0, DELTA), lambda z: [sampled(z, 0.2, 50)], "pld")


def test_an_infinite_budget_needs_no_noise() -> None:
    assert noise_multiplier(Budget(math.inf), lambda z: [sampled(z, 0.2, 50)], "pld") == 0
    assert total_epsilon([Entry("g", "Gaussian", mu=math.inf, sampling=0.1)], DELTA) == math.inf


def test_delta_is_missing() -> None:
    with pytest.raises(DPForestError, match=r"privacy\.delta is 0"):
        noise_multiplier(Budget(1.0), lambda z: [sampled(z, 0.2, 50)], "pld")


@pytest.mark.parametrize("delta", [1.0, 2.0, -0.1])
def test_delta_is_no_probability(delta: float) -> None:
    with pytest.raises(DPForestError, match="between 0 and 1"):
        Budget(1.0, delta)


def test_an_epsilon_that_no_noise_reaches() -> None:
    # Renyi orders are finitely many, so its epsilon does not go to 0 however much noise there is.
    with pytest.raises(DPForestError, match="no noise multiplier up to 1e"):
        noise_multiplier(Budget(1e-4, 1e-9), lambda z: [sampled(z, 0.2, 50)], "rdp")


@pytest.mark.parametrize("announced", [None, "1", True, -1.0, math.nan, math.inf])
def test_an_announced_multiplier_is_checked(announced: object) -> None:
    with pytest.raises(DPForestError, match="expected a number from 0"):
        read_multiplier({"noise-multiplier": announced})


def test_sampling_lowers_the_total_and_never_raises_it() -> None:
    totals = [total_epsilon([sampled(1.5, q, 20)], DELTA) for q in (0.05, 0.2, 0.6, 1.0)]
    assert totals == sorted(totals)


def test_hardly_any_noise_is_counted_as_if_nothing_was_sampled() -> None:
    assert total_epsilon([sampled(0.01, 0.5, 1)], DELTA) == total_epsilon([sampled(0.01, 1.0, 1)], DELTA)


def test_steps_add_up_however_they_are_written_down() -> None:
    apart = [sampled(2.0, 0.1, 30), sampled(2.0, 0.1, 70)]
    assert total_epsilon(apart, DELTA) == total_epsilon([sampled(2.0, 0.1, 100)], DELTA)


def test_both_kinds_of_sampling_split_delta() -> None:
    fixed, poisson = sampled(8.0, 1 / 6, 5, True), sampled(8.0, 0.1, 5)
    halves = renyi_epsilon([fixed], DELTA / 2) + total_epsilon([poisson], DELTA / 2)
    assert total_epsilon([fixed, poisson], DELTA) == pytest.approx(halves)
    with pytest.raises(DPForestError, match="one kind of sampling"):
        renyi_epsilon([fixed, poisson], DELTA)


def test_pure_releases_are_composed_with_sampled_ones() -> None:
    both = [Entry("p", "Laplace", epsilon=0.3), sampled(2.0, 0.1, 50)]
    apart = 0.3 + total_epsilon(both[1:], DELTA)
    assert total_epsilon(both[1:], DELTA) < total_epsilon(both, DELTA) <= apart * 1.001


def test_a_sampled_entry_is_checked_and_comes_back_from_json() -> None:
    entry = sampled(2.0, 0.1, 50, True)
    assert Entry.from_dict(entry.to_dict()) == entry
    for values in ({"sampling": 0.0}, {"sampling": 1.1}, {"sampling": 0.5, "rows": rows_slice("f", 1)}):
        with pytest.raises(DPForestError, match="sampling"):
            Entry("g", "Gaussian", mu=1.0, **values)  # type: ignore[arg-type]
    with pytest.raises(DPForestError, match="sampling"):
        Entry("p", "Laplace", epsilon=1.0, sampling=0.5)


def test_the_ledger_refuses_a_step_too_many() -> None:
    ledger = Ledger(Budget(total_epsilon([sampled(2.0, 0.1, 100)], DELTA), DELTA))
    ledger.charge(sampled(2.0, 0.1, 100))
    with pytest.raises(BudgetExceeded):
        ledger.charge(sampled(2.0, 0.1, 1))
