"""DP-SGD whose noise the clients share under secure aggregation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from network_loop import REGRESSION, SCHEMA, Federation, rows, run, start
from scipy import stats

pytest.importorskip("tensorflow")

from baselines.dp_sgd.settings import DpSgdSettings, shared_recipe
from baselines.dp_sgd.shared import shared_plan
from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.ledger import Budget, total_epsilon
from dpforest.mechanisms import DiscreteGaussianSums
from dpforest.noise import Noise, Secure, Seeded
from dpforest.schema import Feature, Schema
from strategies.method import ClientUpdate, TooFewClients
from strategies.registry import get_method

OPTIONS: dict[str, Any] = {"trust": "shared", "hidden": [], "steps": 4, "rounds": 3}


def begin(**options: Any) -> Federation:
    return start("dp_sgd", **(OPTIONS | options))


def finished(data: Any = None, **options: Any) -> Federation:
    return run("dp_sgd", data, **(OPTIONS | options))


def settled(federation: Federation) -> Any:
    """The task as both sides take it, with numbers for every auto."""
    task = federation.task
    return replace(task, settings=task.settings.settled(task))


def test_it_learns_where_noise_of_every_client_would_drown_the_rows() -> None:
    budget = Budget(0.5, 1e-5)
    shared = finished(budget=budget, clients=6, steps=10)
    assert not shared.failures
    assert shared.accuracy() > 0.9


def test_a_network_and_a_regression_learn() -> None:
    assert finished(budget=Budget(8.0, 1e-5), hidden=[8], steps=20, learning_rate=1.0).accuracy() > 0.9
    federation = finished(budget=Budget(20.0, 1e-5), schema=REGRESSION, steps=10)
    X, y = rows(999, 500, REGRESSION)
    assert np.mean((federation.predict(0, X) - y) ** 2) < 0.5 * y.var()


def test_each_client_spends_the_budget_once_and_no_more() -> None:
    federation = finished()
    planned = federation.server.planned()
    assert [entry.times for entry in planned] == [1, 12]
    assert 0.999 * 4 < total_epsilon(planned, 1e-5) <= 4
    for ledger in federation.ledgers.values():
        assert list(ledger.entries) == planned
        assert ledger.guarantee().holds
        assert "secure aggregation" in ledger.guarantee().trust
    assert len(finished(standardize="public").ledgers[0].entries) == 1


def test_every_row_of_every_client_is_in_every_step() -> None:
    """Without noise the model is that of plain gradient descent on all rows, with momentum and a falling rate."""
    options = {"standardize": "public", "learning_rate": 0.5, "clip": 0.5, "momentum": 0.9, "budget": Budget(math.inf)}
    federation = finished(**options)
    architecture = federation.server.architecture  # type: ignore[attr-defined]
    X, y = (np.concatenate(parts) for parts in zip(*(rows(client) for client in range(4)), strict=True))
    Z = np.c_[X / 4, np.ones(len(X))]
    weights, velocity, average = np.zeros((5, 3)), np.zeros((5, 3)), np.zeros((5, 3))
    for step in range(12):
        scores = np.exp(Z @ weights)
        delta = scores / scores.sum(axis=1, keepdims=True) - np.eye(3)[y]
        length = np.linalg.norm(Z, axis=1) * np.linalg.norm(delta, axis=1)
        gradient = Z.T @ (delta * np.minimum(1, 0.5 / length)[:, None]) / 480
        velocity = 0.9 * velocity + gradient
        weights = weights - 0.5 * (1 - step / 12) * velocity
        average = 0.9 * average + 0.1 * weights
    expected = average / (1 - 0.9**12)
    assert architecture.flatten(federation.model) == pytest.approx(expected.ravel(), abs=1e-4)


def total_noise(noise: Callable[[str], Noise], halved: bool = False) -> float:
    """Sum of squares of one step's noise over all clients, none of whom has a row, over what the ledger says of it."""
    federation = begin(hidden=[24, 24], standardize="public", clients=5)
    task = settled(federation)
    plan = shared_plan(task)
    seen: list[np.ndarray] = []
    with released(lambda mechanism, exact, shown: seen.append(shown - exact)):
        for exchange in range(1, 5):
            asked = federation.server.participants(exchange, list(range(5)))
            updates = []
            for client in asked:
                view = replace(federation.view(client, exchange, dict(federation.server.config(exchange, client))))
                view = replace(view, noise=noise)
                arrays = federation.server.arrays_for(exchange, client)
                update = federation.method.client().train(view, *rows(client, 0), arrays)
                updates.append(ClientUpdate(update.arrays, update.metrics, client))
            federation.server.aggregate(exchange, updates)
    assert len(seen) == 5
    drawn = np.sum(seen, axis=0) / (2 if halved else 1)
    # By the norm of a row alone, whatever the mechanism calls its noise.
    norm = math.sqrt(plan.gradients.squared_sensitivity)
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], drawn.size)
    scale = norm / plan.entry.mu
    return float(low <= np.sum((drawn / scale) ** 2) <= high)


@contextmanager
def released(see: Callable[[DiscreteGaussianSums, np.ndarray, np.ndarray], Any]) -> Iterator[None]:
    """Show every release of a client, with the sums under it."""
    original = DiscreteGaussianSums.release

    def release(mechanism: Any, exact: np.ndarray, entry: Any, ledger: Any, noise: Noise) -> np.ndarray:
        shown = original(mechanism, exact, entry, ledger, noise)
        instead = see(mechanism, exact, shown)
        return shown if instead is None else instead

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DiscreteGaussianSums, "release", release)
        yield


@pytest.mark.parametrize("kind", ["seeded", "secure"])
def test_the_shares_of_all_clients_add_up_to_the_noise_that_was_paid_for(kind: str) -> None:
    sources = iter(range(1000))
    noise: Callable[[str], Noise] = lambda purpose: Secure() if kind == "secure" else Seeded(next(sources))  # noqa: E731
    assert total_noise(noise)
    assert not total_noise(noise, halved=True), "half the noise is found out"


def evidence(kind: str, with_record: bool, seed: int, halved: bool) -> float:
    """How much likelier all sums of a run are with the odd row than without it, as a logarithm.

    The run on the true rows is followed by one on their neighbours that is made to show the same: the server then asks
    the same questions, and the sums under the noise are what the neighbours would have had to say.
    """
    budget = Budget(8.0, 9e-4)
    odd = np.array([[4.0, -4.0, 4.0, -4.0]]), np.array([0])
    few = {client: rows(client, 2) for client in range(2)}
    tables = {False: few, True: {**few, 0: tuple(np.concatenate(both) for both in zip(few[0], odd, strict=True))}}

    def whole_run(table: Any, forced: list[np.ndarray] | None) -> list[tuple[Any, np.ndarray, np.ndarray]]:
        seen: list[tuple[Any, np.ndarray, np.ndarray]] = []

        def see(mechanism: Any, exact: np.ndarray, shown: np.ndarray) -> np.ndarray:
            if halved:
                shown = exact + np.rint((shown - exact) / 2).astype(np.int64)
            if forced is not None:
                shown = forced[len(seen)]
            seen.append((mechanism, exact.copy(), shown))
            return shown

        with pytest.MonkeyPatch.context() as patch, released(see):
            if kind == "secure":
                patch.setattr("network_loop.Seeded", lambda entropy: Secure())
            schema = SCHEMA.with_rows(3)
            finished(table, clients=2, rounds=1, steps=2, seed=seed, budget=budget, schema=schema, clip=0.01)
        return seen

    true = whole_run(tables[with_record], None)
    other = whole_run(tables[not with_record], [shown for *_, shown in true])
    evidence = 0.0
    for at in range(0, len(true), 2):  # two clients a sum, and only the sum is seen
        (mechanism, first, shown), (_, second, also_shown) = true[at : at + 2]
        ours, others = first + second, other[at][1] + other[at + 1][1]
        total = shown + also_shown
        evidence += ((total - others) ** 2 - (total - ours) ** 2).sum() / (2 * 2 * mechanism.variance)
    return evidence if with_record else -evidence


@pytest.mark.parametrize("kind", ["seeded", "secure"])
def test_a_whole_run_keeps_its_guarantee(kind: str) -> None:
    budget, threshold, runs = Budget(8.0, 9e-4), 6.0, 24

    def excess(halved: bool) -> float:
        loudness = 4 if halved else 1  # Gaussian noise of half the scale speaks four times as loudly
        with_, without = (
            loudness * np.array([evidence(kind, table, seed, halved) for seed in range(runs)])
            for table in (True, False)
        )
        factor = math.exp(budget.epsilon)
        return max(
            (with_ > threshold).mean() - factor * (without > threshold).mean(),
            (without < -threshold).mean() - factor * (with_ < -threshold).mean(),
        )

    # Shares of runs: without a fault about 0.02 are above the threshold, under half the noise two thirds.
    assert excess(halved=False) < 0.25
    assert excess(halved=True) > 0.3, "half the noise is found out"


def test_a_server_that_asks_for_one_more_step_than_was_paid_for_is_refused() -> None:
    federation = finished()
    ledger, plan = federation.ledgers[0], shared_plan(settled(federation))
    with pytest.raises(BudgetExceeded):
        plan.gradients.release(np.zeros(2, np.int64), plan.entry, ledger, Seeded(0))


def test_the_sums_of_features_can_be_asked_for_once_only_and_only_where_they_are_planned() -> None:
    federation = begin(standardize="public")
    for exchange in (1, 2):
        federation.exchange(exchange, {client: rows(client) for client in range(4)})
    arrays = federation.server.arrays_for(3, 0)
    view = federation.view(0, 3, {"phase": "mask", "step": "standardize"})
    with pytest.raises(DPForestError, match="no sums of features"):
        federation.method.client().train(view, *rows(0), arrays)
    assert not view.ledger.entries


@pytest.mark.parametrize(
    ("option", "value"),
    [("batch", 24), ("optimizer", "adam"), ("clients_per_round", 2), ("server_momentum", 0.9)],
)
def test_a_setting_that_means_nothing_is_named(option: str, value: object) -> None:
    with pytest.raises(DPForestError, match=f"{option} {value} means nothing with privacy.trust=shared"):
        begin(**{option: value})


def test_local_noise_is_not_shared_with_dropouts() -> None:
    with pytest.raises(DPForestError, match=r"only matter for privacy\.trust=shared"):
        start("dp_sgd", dropouts=1)


def test_a_budget_without_delta_and_a_schema_without_rows_are_refused() -> None:
    with pytest.raises(DPForestError, match="must lie between 0 and 1 for Gaussian noise"):
        begin(budget=Budget(1.0))
    with pytest.raises(DPForestError, match="public number of rows"):
        begin(schema=SCHEMA.with_rows(None))


def test_clients_that_drop_out_cost_their_rows_only() -> None:
    data = {client: rows(client) for client in range(6)}
    federation = begin(clients=6, dropouts=2, budget=Budget(8.0, 1e-5))
    for exchange in range(1, 40):
        if federation.server.finished:
            break
        present = {client: data[client] for client in data if client < 5 or exchange < 8}
        federation.exchange(exchange, present)
    assert federation.server.finished
    assert federation.accuracy() > 0.9
    assert not federation.failures


@pytest.mark.parametrize("standardize", ["public", "private"])
def test_a_run_without_keys_ends(standardize: str) -> None:
    federation = begin(standardize=standardize)
    with pytest.raises(TooFewClients):
        federation.exchange(1, {0: rows(0)})


def test_a_real_node_takes_part_only_if_its_owner_has_named_the_method() -> None:
    method = get_method("dp_sgd")
    settings = method.settings()
    assert method.protection(settings).by_client_alone
    assert not method.protection(settings, trust="shared").by_client_alone


@pytest.mark.parametrize(
    ("epsilon", "clients", "features", "hidden"),
    [(0.1, 21, 407, ()), (10.0, 21, 407, ()), (0.1, 50, 91, ()), (1.0, 50, 91, (128,))],
)
def test_public_facts_choose_the_model(epsilon: float, clients: int, features: int, hidden: tuple[int, ...]) -> None:
    schema = Schema(tuple(Feature(f"f{i}", 0, 1) for i in range(features)), classes=("x", "y"), rows=300)
    recipe = shared_recipe(schema, Budget(epsilon, 1e-6), 10, clients)
    assert recipe.hidden == hidden
    assert 50 <= 10 * recipe.steps <= 200
    chosen = DpSgdSettings(hidden=[3], steps=2, momentum=0.5, learning_rate=0.1, clip=0.2, standardize_share=0.3)
    task = replace(begin().task, settings=chosen, schema=schema)
    assert chosen.settled(task) == replace(chosen, batch=1)
