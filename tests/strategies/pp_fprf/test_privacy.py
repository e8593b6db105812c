"""One row more changes what a user sends no more than the plan says, and with half the noise it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from users import SCHEMA, client_task, rows

from dpforest.audit import HalvedNoise, certain_loss
from dpforest.errors import BudgetExceeded
from dpforest.ledger import Budget
from dpforest.noise import Noise, Seeded
from strategies.method import Task
from strategies.pp_fprf import GlobalSettings, PersonalSettings
from strategies.pp_fprf.client import PersonalClient
from strategies.pp_fprf.growth import Group, Growth
from strategies.pp_fprf.plan import plan_of, planned
from strategies.pp_fprf.similarity import hash_rows, histograms

# Every tree of this plan draws its noise for itself, so that one user's answer holds many draws about the same rows.
TREES = 1000
ONE_LEVEL = PersonalSettings(
    trees=TREES, depth=1, features=2, validation_share=0.0, sessions=1, vote_share=0.4, size_share=0.3, slices=1
)
# The row that is added is alone in a child of "a", and joins eight of the other class under "b".
X = np.array([[0.0, 0.0]] * 8 + [[1.0, 0.0]])
Y = np.array([1] * 8 + [0])
Wrap = Callable[[Noise], Noise]


def answers(n_rows: int, seed: int, wrap: Wrap) -> Mapping[str, np.ndarray]:
    """Votes, sizes and counts of all trees, each at a cost of epsilon 0.95 in all."""
    growth = Growth([Group(0, (0,))], SCHEMA, ONE_LEVEL, 5, False)
    message = growth.message(0)
    message["values"] = np.full_like(message["values"], 0.5)
    growth.values[:] = 0.5
    state = client_task(ONE_LEVEL).state
    found: dict[str, np.ndarray] = {}
    for phase in ("vote", "count"):
        task = client_task(
            ONE_LEVEL, 1000.0, noise=lambda purpose, phase=phase: wrap(Seeded(seed + len(phase + purpose))), phase=phase
        )
        task.state.update(state)
        reply = PersonalClient().train(task, X[:n_rows], Y[:n_rows], message).arrays
        state = task.state
        found |= reply
        if phase == "vote":
            # All trees are split by "a" or "b" as here, whatever the votes say.
            growth.receive({0: {"votes": np.zeros(TREES, dtype=int), "sizes": np.full(TREES, 99)}})
            message = growth.message(0)
            message["split_feature"][:] = 0
    return found


@pytest.mark.parametrize("released", ["votes", "sizes", "counts"])
def test_growing_is_as_private_as_the_plan_says(released: str) -> None:
    plan = plan_of(task_of(ONE_LEVEL, 1000.0))
    assert plan.tree_epsilon(1) == pytest.approx(0.95)
    epsilon = {"votes": 0.38, "sizes": 0.285, "counts": 0.285}[released]

    def cells(n_rows: int, seed: int, wrap: Wrap) -> np.ndarray:
        several = [answers(n_rows, seed + 100 * number, wrap) for number in range(12)]
        if released == "votes":
            # The order of a tree's two candidates is random, but the same for both inputs.
            growth = Growth([Group(0, (0,))], SCHEMA, ONE_LEVEL, 5, False)
            features = growth.features()
            return np.concatenate([features[np.arange(TREES), each["votes"]] for each in several])
        if released == "sizes":
            return np.concatenate([np.clip(each["sizes"] - 8, -3, 3) + 3 for each in several])
        # The right leaf of each tree, class 0: 0 rows or 1.
        return np.concatenate([np.clip(each["counts"][1::2, 0], -3, 3) + 3 for each in several])

    def loss(wrap: Wrap) -> float:
        n_cells = 2 if released == "votes" else 7
        return certain_loss(cells(8, 1, wrap), cells(9, 50_000, wrap), n_cells)

    assert loss(lambda noise: noise) <= epsilon
    assert loss(HalvedNoise) > epsilon


def test_the_similarity_is_as_private_as_the_plan_says() -> None:
    """A row adds one to each of two histograms; seen together, its two buckets tell as much as the plan says."""
    options = PersonalSettings(functions=2, buckets=2, window=5.0, validation_share=0.0, similarity_share=0.5)
    bucket = histograms(hash_rows(X[8:], SCHEMA, options, 5), 2).argmax(axis=1)
    below = histograms(hash_rows(X[:8], SCHEMA, options, 5), 2)[[0, 1], bucket]

    def cells(n_rows: int, seed: int, wrap: Wrap) -> np.ndarray:
        found = np.empty(1000, dtype=np.int64)
        for draw in range(len(found)):
            task = client_task(options, 2.0, noise=lambda purpose, draw=draw: wrap(Seeded(seed + draw)), phase="hash")
            counts = PersonalClient().train(task, X[:n_rows], Y[:n_rows], {}).arrays["histograms"]
            found[draw] = (counts[[0, 1], bucket] > below).sum()
        return found

    def loss(wrap: Wrap) -> float:
        return certain_loss(cells(8, 1, wrap), cells(9, 500_000, wrap), 3)

    assert loss(lambda noise: noise) <= 1.0
    assert loss(HalvedNoise) > 1.0


def task_of(options: Any, epsilon: float) -> Task:
    return Task(SCHEMA, options, Budget(epsilon), 1, 5, 0)


@settings(deadline=None)
@given(
    st.integers(1, 30),
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(1, 40),
    st.floats(0.01, 0.6),
    st.floats(0.01, 0.35),
    st.floats(0.01, 100),
)
def test_the_plan_costs_the_budget(
    trees: int, depth: int, sessions: int, slices: int, vote: float, size: float, epsilon: float
) -> None:
    """By hand: similarity + ceil(sessions trees / slices) trees of depth votes and sizes and one set of leaves."""
    shared = {"trees": trees, "depth": depth, "slices": slices, "vote_share": vote, "size_share": size}
    for options in (PersonalSettings(**shared, sessions=sessions), GlobalSettings(**shared)):
        total = sum(entry.epsilon * entry.times for entry in planned(task_of(options, epsilon)))
        assert total == pytest.approx(epsilon)
        plan = plan_of(task_of(options, epsilon))
        most = (sessions if isinstance(options, PersonalSettings) else 1) * trees
        assert plan.spent([depth] * most) == pytest.approx(epsilon)


def test_the_published_plan_is_that_of_the_paper() -> None:
    """Section 4.3: B = T epsilon, epsilon / d a level and for the leaves; the exponent has 2 log2 |C| below."""
    plan = plan_of(task_of(PersonalSettings(accounting="published", trees=20, depth=14, slices=1), 20.0))
    assert plan.votes.epsilon == plan.leaves.epsilon == pytest.approx(1 / 15)
    assert plan.votes.sensitivity / (1 << 16) == pytest.approx(2 * np.log2(3), abs=1e-4)
    assert plan.tree_epsilon(14) == pytest.approx(1.0)
    assert plan.sizes is None
    assert plan.histograms is None
    assert plan.spent([14] * 8 * 20) == pytest.approx(160)


@pytest.mark.parametrize("slices", [1, 3])
def test_a_server_that_asks_for_more_trees_than_planned_is_refused(slices: int) -> None:
    options = PersonalSettings(trees=3, depth=2, sessions=2, slices=slices)
    growth = Growth([Group(i, (0,)) for i in range(5)], SCHEMA, options, 5, False)
    task = client_task(options, 1.0, phase="vote")
    message = growth.message(0)
    PersonalClient().train(task, *rows(50), message)
    spent = task.ledger.guarantee().epsilon
    assert spent < 1
    count = client_task(options, 1.0, phase="count")
    count.state.update(task.state)
    with pytest.raises(BudgetExceeded):
        PersonalClient().train(count, *rows(50), {k: v for k, v in message.items() if k != "values"})
