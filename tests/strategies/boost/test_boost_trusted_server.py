"""Federated boosting where a trusted server adds the noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from federation import Federation
from scipy import stats

from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.ledger import Budget, Ledger, total_epsilon
from dpforest.mechanisms import DiscreteGaussianSums
from dpforest.noise import Seeded
from strategies.boost.settings import client_plan_of, plan_of
from strategies.method import ClientUpdate, Entrusted
from strategies.registry import get_method
from strategies.trusted_server import LeftToServer, TrustedSums

BUDGET = Budget(5.0, 1e-6)


def federation(**options: Any) -> Federation:
    return Federation(**{"trust": "central", "budget": BUDGET, "linear_share": "auto", "n": 200} | options)


@pytest.mark.parametrize("unit", ["record", "client"])
def test_the_noise_is_that_of_one_party_however_many_clients_there_are(unit: str) -> None:
    few, many = (federation(clients=clients, unit=unit, scale="auto") for clients in (5, 9))
    plan = plan_of if unit == "record" else client_plan_of
    noise = [plan(run.task).sums.variance / plan(run.task).unit ** 2 for run in (few, many)]
    assert noise[0] == pytest.approx(noise[1], rel=1e-3)


@pytest.mark.parametrize("unit", ["record", "client"])
def test_what_the_server_releases_costs_what_every_client_was_charged(unit: str) -> None:
    run = federation(unit=unit)
    run.run()
    ledger = run.server.report()["server_ledger"]
    assert ledger["epsilon"] == pytest.approx(total_epsilon(run.ledgers[0].entries, 1e-6))
    assert 4.9 < ledger["epsilon"] <= 5
    assert "server trusted" in run.ledgers[0].guarantee().trust


def chance_of(total: np.ndarray, shown: np.ndarray, deviation: float) -> float:
    """Of noise as small as that, or smaller, if it had the deviation."""
    return float(stats.chi2.cdf((((shown - total) / deviation) ** 2).sum(), total.size))


@pytest.mark.parametrize("source", ["seeded", "secure"])
def test_a_total_has_all_of_the_noise_that_its_line_says(source: str) -> None:
    task = federation(server_noise=source).task
    mechanism = DiscreteGaussianSums.for_mu(0.5, 40_000)
    total = np.arange(600)
    entry = mechanism.entry("sums")
    shown = TrustedSums(task).release(total, [], 1, mechanism, entry)
    assert 1e-4 < chance_of(total, shown, mechanism.sigma) < 1 - 1e-4
    halved = total + np.rint((shown - total) / 2)
    assert chance_of(total, halved, mechanism.sigma) < 1e-9, "half the noise would be found out"


def test_exchanges_have_noise_of_their_own_and_end_with_the_budget() -> None:
    task = federation().task
    mechanism = DiscreteGaussianSums.for_mu(0.5, 40_000)
    entry, sums, zero = mechanism.entry("sums"), TrustedSums(task), np.zeros(50, dtype=np.int64)
    first, second = (sums.release(zero, [], exchange, mechanism, entry) for exchange in (1, 2))
    assert (first != second).any()
    costly = DiscreteGaussianSums.for_mu(2.0, 40_000)
    with pytest.raises(BudgetExceeded):
        sums.release(zero, [], 3, costly, costly.entry("sums"))


def test_clients_send_whole_numbers_as_they_are() -> None:
    """Rounded, a record could add more than its mechanism allows."""
    run = federation(budget=Budget(0.5, 1e-6), n=2000)
    run.exchange()
    counts = run.received[0]["sums"].reshape(3, -1)
    unit = plan_of(run.task).marginal_unit
    assert (counts.sum(axis=1) == 2000 * unit).all()


def test_seeded_noise_is_refused_where_clients_are_real_nodes() -> None:
    run = federation()
    update = ClientUpdate({}, noise="secure")
    mechanism = plan_of(run.task).sums
    assert isinstance(mechanism, DiscreteGaussianSums)
    with pytest.raises(DPForestError, match="server_noise=secure"):
        TrustedSums(run.task).release(np.zeros(3, np.int64), [update], 1, mechanism, mechanism.entry("sums"))


def test_nothing_but_the_noise_of_a_sum_is_left_to_a_server() -> None:
    noise, scores = LeftToServer(), np.zeros((2, 2), dtype=np.int64)
    assert not noise.discrete_gaussian(9.0, (2, 3)).any()
    assert not noise.discrete_laplace(9.0, 4).any()
    for draw in (
        lambda: noise.permute_and_flip(scores, 1.0), lambda: noise.exponential_mechanism(scores, 1.0),
        lambda: noise.bernoulli(0.5, 3), lambda: noise.sample(5, 2), noise.generator,
    ):  # fmt: skip
        with pytest.raises(DPForestError, match="only the noise of a sum"):
            draw()


def test_values_may_be_entrusted_under_a_line_that_was_charged_in_several_rounds() -> None:
    mechanism = DiscreteGaussianSums.for_mu(0.1, 4)
    ledger, entry = Ledger(BUDGET), mechanism.entry("sums")
    for _ in range(2):
        mechanism.release(np.zeros(2), entry, ledger, Seeded(0))
        assert Entrusted(ledger, entry, {}).arrays == {}
    with pytest.raises(DPForestError, match="has not been charged"):
        Entrusted(ledger, mechanism.entry("other sums"), {"a": np.zeros(1)})


def test_a_dropout_rule_is_refused_where_nothing_is_shared() -> None:
    with pytest.raises(DPForestError, match=r"only matter for privacy\.trust=shared"):
        federation(dropouts=1)


def test_each_unit_has_a_proof_under_each_trust_model() -> None:
    method = get_method("boost")
    for unit in ("record", "client"):
        for trust in ("local", "shared", "central"):
            proven = method.protection(method.settings(), unit, trust)
            assert (proven.unit.kind, proven.trust.kind) == (unit, trust)
    assert not method.protection(method.settings(), "record", "central").by_client_alone
