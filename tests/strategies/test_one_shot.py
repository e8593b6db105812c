"""The two sides of the one-shot forest, without Flower around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpforest.errors import BudgetExceeded, DPForestError, InvalidForest
from dpforest.ledger import Budget, Entry, Ledger
from dpforest.noise import Noise, Seeded
from dpforest.schema import Feature, Schema
from strategies.method import ClientTask, ClientUpdate, Task, Update
from strategies.one_shot import OneShotClient, OneShotServer, OneShotSettings

SCHEMA = Schema((Feature("a", 0, 1), Feature("b", 0, 1)), classes=("x", "y", "z"), rows=200)


def task(epsilon: float = 1.0, **options: Any) -> Task:
    return Task(SCHEMA, OneShotSettings(**options), Budget(epsilon), rounds=1, clients=2, seed=0)


def client_task(public: Task, client: int = 0) -> ClientTask:
    noise: Callable[[str], Noise] = lambda purpose: Seeded(client * 100 + len(purpose))  # noqa: E731
    return ClientTask.of(public, client=client, ledger=Ledger(public.budget), noise=noise,
                      rng=lambda purpose: np.random.default_rng(0))  # fmt: skip


def rows(n: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).random((n, 2))
    return X, np.minimum(X[:, 0] * 3, 2).astype(np.int64)


def train(public: Task, client: int = 0, n: int = 200) -> tuple[ClientUpdate, Ledger]:
    own = client_task(public, client)
    update: Update = OneShotClient().train(own, *rows(n, client), {})
    return ClientUpdate(update.arrays, update.metrics, client), own.ledger


def aggregate(server: OneShotServer, updates: list[ClientUpdate]) -> Any:
    """As the app does: check each update, then put them together."""
    for update in updates:
        server.check(update)
    return server.aggregate(1, updates)


@given(
    st.floats(1e-3, 50),
    st.fixed_dictionaries(
        {},
        optional={
            "depth": st.integers(1, 5) | st.just("auto"),
            "trees": st.integers(1, 3) | st.just("auto"),
            "tree_rows": st.sampled_from(["split_budget", "disjoint"]),
            "accounting": st.sampled_from(["tight", "published"]),
            "selection": st.sampled_from(["permute_and_flip", "exponential", "noisy_counts"]),
            "candidates": st.sampled_from(["grid", "random"]),
            "bins": st.integers(2, 6),
            "shared_below": st.sampled_from([None, 0, 2, "auto"]),
            "smoothing": st.sampled_from(["auto", "none", "laplace", "shrink"]),
            "voting": st.sampled_from(["soft", "hard"]),
            "rows": st.sampled_from(["schema", "noised", 50]),
            "leaf_share": st.floats(0.1, 0.9),
        },
    ),
)
@settings(max_examples=60, deadline=None)
def test_what_was_planned_is_what_is_spent(epsilon: float, options: dict[str, Any]) -> None:
    public = task(epsilon, **options)
    server = OneShotServer(public)
    plan = Ledger(public.budget)
    plan.require(server.planned())
    update, ledger = train(public)
    assert ledger.guarantee().holds
    assert ledger.guarantee().epsilon == pytest.approx(epsilon)
    if options.get("rows") != "noised":  # whose plan depends on the noised count
        assert list(ledger.entries) == server.planned()
    arrays = aggregate(server, [update])
    probability = OneShotClient().predict(client_task(public), rows(50, 9)[0], arrays)
    assert probability.shape == (50, 3)
    assert np.allclose(probability.sum(axis=1), 1, atol=1e-5)


def test_two_clients_vote_with_their_own_trees() -> None:
    public = task(20.0, depth=3, trees=1)
    server = OneShotServer(public)
    updates = [train(public, client)[0] for client in (0, 1)]
    arrays = aggregate(server, updates)
    assert arrays["owners"].tolist() == [0, 1]
    X, y = rows(300, 7)
    votes = OneShotClient().predict_by_owner(client_task(public), X, arrays)
    assert votes is not None
    assert set(votes) == {0, 1}
    for owner, update in enumerate(updates):
        alone = OneShotServer(public)
        probability = OneShotClient().predict(client_task(public), X, aggregate(alone, [update]))
        np.testing.assert_array_equal(votes[owner], probability.argmax(axis=1))
    together = OneShotClient().predict(client_task(public), X, arrays)
    assert (together.argmax(axis=1) == y).mean() > 0.8
    assert server.report()["trees"] == 2
    assert server.report()["importances"]["a"] > server.report()["importances"]["b"]


def test_the_budget_cannot_be_spent_twice_and_no_row_is_read_for_it() -> None:
    own = client_task(task())
    OneShotClient().train(own, *rows(), {})

    class Unreadable(np.ndarray):
        def __getitem__(self, key: object) -> Any:
            raise AssertionError("a row was read")

    with pytest.raises(BudgetExceeded, match="the budget is 1"):
        OneShotClient().train(own, rows()[0].view(Unreadable), rows()[1], {})
    for spent in ("noised", "schema"):
        own = client_task(task(rows=spent))
        own.ledger.charge(Entry("something else", "discrete Laplace", epsilon=0.005))
        with pytest.raises(BudgetExceeded):
            OneShotClient().train(own, rows()[0].view(Unreadable), rows()[1], {})
        assert len(own.ledger.entries) == 1


def test_a_client_without_rows_sends_noise_only() -> None:
    update, ledger = train(task(depth=2), n=0)
    assert ledger.guarantee().epsilon == pytest.approx(1.0)
    OneShotServer(task(depth=2)).check(update)


def test_trees_larger_than_agreed_are_refused() -> None:
    update, _ = train(task(depth=4))
    with pytest.raises(InvalidForest, match="31 nodes in 1 trees; allowed: 7 nodes, 1 to 1 trees"):
        OneShotServer(task(depth=2)).check(update)
    several, _ = train(task(depth=2, trees=3))
    with pytest.raises(InvalidForest, match="21 nodes in 3 trees; allowed: 7 nodes, 1 to 1 trees"):
        OneShotServer(task(depth=2)).check(several)


def test_it_refuses_a_regression() -> None:
    schema = Schema((Feature("a", 0, 1),), target_range=(0.0, 1.0))
    with pytest.raises(DPForestError, match="strategy=fext"):
        OneShotServer(Task(schema, OneShotSettings(), Budget(1.0), 1, 1, 0))
