"""Boosting where a client's whole data is the unit: lengths, costs, and what a whole run tells about one client."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpforest.boosting import Booster, BoostSettings, ClientPlan, ClientRows, OwnBooster, make_client_plan
from dpforest.boosting.client_level import n_moment_columns, read_client_moments, release_client_moments
from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.guarantee import CLIENT_UNIT
from dpforest.ledger import Budget, Ledger, gaussian_mu, total_epsilon
from dpforest.mechanisms import DiscreteGaussianSums, clipped_vector, unit_vector
from dpforest.noise import Noise, Secure, Seeded
from dpforest.schema import Feature, Schema

SCHEMA = Schema(
    (Feature("a", 0, 1), Feature("b", -4, 4, missing="branch"), Feature("c", 0, 9, scale="signed_sqrt")),
    classes=("x", "y", "z"),
)
FLOATS = hnp.arrays(np.float64, st.integers(0, 12), elements=st.floats(width=64))
Rows = tuple[np.ndarray, np.ndarray]


@given(FLOATS, st.integers(1, 2**20))
def test_no_vector_is_longer_than_its_units(vector: np.ndarray, units: int) -> None:
    sent = unit_vector(vector, units)
    assert sent.dtype == np.int64
    assert int((sent**2).sum()) <= units**2
    if np.isfinite(vector).all() and np.abs(vector).max(initial=0) > 0:
        # Truncated towards zero, each number by less than 1.
        assert math.sqrt((sent**2).sum()) > units - 1 - math.sqrt(vector.size)
    else:
        assert not sent.any()


@given(FLOATS, st.floats(1e-6, 1e6), st.integers(1, 2**40))
def test_no_clipped_vector_is_longer_than_its_clip(vector: np.ndarray, clip: float, squared: int) -> None:
    sent = clipped_vector(vector, clip, squared)
    assert int((sent**2).sum()) <= squared
    if np.isfinite(vector).all():
        scale = math.sqrt(squared) / max(clip, 1e-300)
        assert (np.abs(sent) <= np.abs(vector) * scale * (1 + 1e-9)).all(), "nothing grows"


TARGET = Schema(SCHEMA.features, target_range=(-2.0, 6.0))
# A recipe with a schema for it.
RECIPES = {"own": SCHEMA, "moments": SCHEMA, "target": TARGET}


def plan_for(recipe: str, budget: Budget, clients: int = 4, rounds: int = 2, **options: Any) -> ClientPlan:
    mu = gaussian_mu(budget.epsilon, budget.delta) * (1 - 1e-9) if budget.delta else math.inf
    settings = BoostSettings(**{"depth": 1, "trees_per_round": 2, "marginal_share": 0.2} | options)
    return make_client_plan(
        settings, RECIPES.get(recipe, SCHEMA), rounds=rounds, mu=mu, signal=clients * mu, clients=clients,
        shares=clients, scale="moments" if recipe == "target" else recipe,
    )  # fmt: skip


def people(n: int, rows: int = 5, schema: Schema = SCHEMA) -> list[Rows]:
    rng = np.random.default_rng(5)
    X = SCHEMA.low + (SCHEMA.high - SCHEMA.low) * rng.random((n, rows, 3))
    X[:, 0, 1] = SCHEMA.missing_values[1]
    if not schema.is_classification:
        return [(each.astype(np.float32), rng.uniform(-2, 6, rows).astype(np.float32)) for each in X]
    return [(each.astype(np.float32), rng.integers(3, size=rows)) for each in X]


def boosted(
    clients: list[Rows], schema: Schema, plan: ClientPlan, budget: Budget, noise: Callable[[int], Noise], seed: int = 0
) -> Booster | OwnBooster:
    """A whole run, whose sums are seen and nothing else."""
    ledgers = [Ledger(budget, CLIENT_UNIT) for _ in clients]
    noises = [noise(client) for client in range(len(clients))]
    booster: Any = (OwnBooster if plan.own else Booster)(schema, plan, seed)
    if not plan.own:
        first = [
            release_client_moments(*rows, schema, plan, *at) for rows, *at in zip(clients, ledgers, noises, strict=True)
        ]
        read_client_moments(booster, np.sum(first, axis=0), plan)
    states = [ClientRows.of(X, y, schema, plan, booster.start) for X, y in clients]
    for _ in range(plan.rounds):
        asked = booster.structure
        sent = [state.release(asked, *at) for state, *at in zip(states, ledgers, noises, strict=True)]
        done = booster.read_sums(np.sum(sent, axis=0), len(clients))
        for state in states:
            state.add(done.structure, done.weights, done.coefficients)
    for ledger in ledgers:
        assert 0.99 * budget.epsilon < total_epsilon(ledger.entries, budget.delta) <= budget.epsilon
        with pytest.raises(BudgetExceeded):
            ledger.charge(plan.round_entry)
    return booster


Seen = list[tuple[np.ndarray, np.ndarray, float]]


@contextmanager
def watched(seen: Seen, clients: int, halved: bool, forced: Any) -> Iterator[None]:
    """Sums of a run with what was under them; their noise halved, or what they show given from outside."""
    original = DiscreteGaussianSums.release
    parts: list[tuple[np.ndarray, np.ndarray]] = []

    def release(mechanism: Any, values: np.ndarray, entry: Any, ledger: Ledger, noise: Noise) -> np.ndarray:
        shown = original(mechanism, values, entry, ledger, noise)
        if halved:
            shown = values + np.rint((shown - values) / 2).astype(np.int64)
        if forced is not None:
            shown = forced[len(seen)] if not parts else np.zeros_like(shown)
        parts.append((values.copy(), shown))
        if len(parts) == clients:
            sums, total = (np.sum(each, axis=0) for each in zip(*parts, strict=True))
            seen.append((sums, total, clients * mechanism.variance))
            parts.clear()
        return shown

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DiscreteGaussianSums, "release", release)
        yield


def evidence(recipe: str, is_there: bool, noise: Callable[[int], Noise], budget: Budget, halved: bool) -> float:
    """How much likelier all that a run shows is with the client than with nothing in its place, as a logarithm."""
    plan, schema = plan_for(recipe, budget, clip=1e-3), RECIPES[recipe]
    there = people(plan.clients, schema=schema)
    gone = [(there[0][0][:0], there[0][1][:0]), *there[1:]]

    def run(clients: list[Rows], forced: Any = None) -> Seen:
        seen: Seen = []
        with watched(seen, plan.clients, halved, forced):
            boosted(clients, schema, plan, budget, noise)
        return seen

    true = run(there if is_there else gone)
    other = run(gone if is_there else there, [shown for _, shown, _ in true])
    total = sum(
        float(((shown - others) ** 2 - (shown - sums) ** 2).sum() / (2 * variance))
        for (sums, shown, variance), (others, *_) in zip(true, other, strict=True)
    )
    return total if is_there else -total


def excess(recipe: str, source: str, halved: bool = False, runs: int = 60) -> float:
    """What delta would have to be at least, by how often runs point to the right clients, and to the wrong ones."""
    budget, threshold = Budget(8.0, 9e-4), 8.0

    def noise(seed: int) -> Callable[[int], Noise]:
        return lambda client: Secure() if source == "secure" else Seeded(1000 * seed + client)

    loudness = 4 if halved else 1
    with_, without = (
        loudness * np.array([evidence(recipe, there, noise(seed), budget, halved) for seed in range(runs)])
        for there in (True, False)
    )
    factor = math.exp(budget.epsilon)
    return max(
        (with_ > threshold).mean() - factor * (without > threshold).mean(),
        (without < -threshold).mean() - factor * (with_ < -threshold).mean(),
    )


@pytest.mark.parametrize("source", ["seeded", "secure"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_whole_run_keeps_its_guarantee_to_a_client_that_is_replaced_by_nothing(recipe: str, source: str) -> None:
    assert excess(recipe, source) < 9e-4 + 0.1


@pytest.mark.parametrize("recipe", RECIPES)
def test_half_the_noise_is_found_out(recipe: str) -> None:
    assert excess(recipe, "seeded", halved=True) > 0.2


@pytest.mark.parametrize("recipe", RECIPES)
def test_no_rows_move_a_sum_further_than_was_paid_for(recipe: str) -> None:
    """Rows, labels and scores of any kind: a vector is never longer, and under doubled sensitivity it would be."""
    plan, schema = plan_for(recipe, Budget(8.0, 1e-5)), RECIPES[recipe]
    rng = np.random.default_rng(0)
    booster: Any = (OwnBooster if plan.own else Booster)(schema, plan, 0)
    if not plan.own:
        columns = n_moment_columns(schema)
        booster.start_from_moments(np.zeros(columns), np.full(columns, 0.1), 4)
    longest = []
    for size in (0, 1, 2, 7, 300):
        for extreme in (0.0, 1.0, 1e30, np.inf, np.nan):
            X, y = people(1, max(size, 1), schema)[0]
            scores = (extreme * rng.choice([-1, 1], (size, schema.n_outputs))).astype(np.float32)
            state = ClientRows.of(X[:size], y[:size], schema, plan, booster.start, scores)
            seen: Seen = []
            with watched(seen, 1, halved=False, forced=None), np.errstate(all="ignore"):
                state.release(booster.structure, Ledger(Budget(8.0, 1e-5)), Seeded(0))
            longest.append(int((seen[0][0] ** 2).sum()))
    assert max(longest) <= plan.sums.squared_sensitivity == plan.longest  # type: ignore[union-attr]
    assert max(longest) > 0.25 * plan.longest, "twice the length would be more than was paid for"


@pytest.mark.parametrize(("recipe", "y"), [("moments", 0), ("target", -2.0), ("target", 6.0)])
def test_moments_are_no_longer_than_was_paid_for(recipe: str, y: float) -> None:
    plan, schema = plan_for(recipe, Budget(8.0, 1e-5)), RECIPES[recipe]
    high = np.tile(SCHEMA.high, (4, 1)).astype(np.float32)
    for X in (high, high[:0], np.tile(SCHEMA.missing_values, (2, 1)).astype(np.float32)):
        seen: Seen = []
        X = np.where(np.isnan(X), 0.0, X).astype(np.float32)
        with watched(seen, 1, halved=False, forced=None):
            release_client_moments(X, np.full(len(X), y), schema, plan, Ledger(Budget(8.0, 1e-5)), Seeded(0))
        assert int((seen[0][0] ** 2).sum()) <= plan.marginals.squared_sensitivity  # type: ignore[union-attr]


def test_the_recipe_follows_public_facts() -> None:
    assert plan_for("auto", Budget(1.0, 1e-5), clients=20).own
    many = plan_for("auto", Budget(1.0, 1e-5), clients=1000, depth="auto", trees_per_round="auto")
    assert (many.own, many.trees_per_round, many.settings.depth) == (False, 8, 5)
    assert all(entry.scale > 0 for entry in many.planned())
    assert not plan_for("moments", Budget(1.0, 1e-5), clients=20).own


@pytest.mark.parametrize(
    ("options", "message"),
    [({"pure": True}, "set pure=false"), ({"scale": "moments", "linear_share": 0.5}, "linear_share is for scale=own")],
)
def test_settings_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    settings = BoostSettings(pure=options.pop("pure", False))
    with pytest.raises(DPForestError, match=message):
        make_client_plan(settings, SCHEMA, rounds=2, mu=1.0, signal=9.0, clients=9, shares=1, **options)
    target = Schema((Feature("a", 0, 1),), target_range=(0.0, 1.0))
    with pytest.raises(DPForestError, match="scale=own is for classes"):
        make_client_plan(BoostSettings(), target, rounds=2, mu=1.0, signal=9.0, clients=9, shares=1, scale="own")


@pytest.mark.parametrize("linear_share", [0.0, 0.5, 1.0])
def test_the_forest_predicts_what_the_clients_have_learned(linear_share: float) -> None:
    plan = make_client_plan(
        BoostSettings(depth=2, trees_per_round=3), SCHEMA, rounds=4, mu=math.inf, signal=40.0, clients=3, shares=3,
        scale="own", linear_share=linear_share,
    )  # fmt: skip
    booster: Any = OwnBooster(SCHEMA, plan, 1)
    clients = people(3, 60)
    states = [ClientRows.of(X, y, SCHEMA, plan, booster.start) for X, y in clients]
    ledger = Ledger(Budget(math.inf))
    for _ in range(plan.rounds):
        done = booster.read_sums(
            np.sum([s.release(booster.structure, ledger, Seeded(0)) for s in states], axis=0), len(states)
        )
        for state in states:
            state.add(done.structure, done.weights, done.coefficients)
    forest = booster.forest({})
    for (X, _), state in zip(clients, states, strict=True):
        expected = np.exp(state.scores.astype(np.float64))
        assert forest.predict_proba(forest.of_person(X)) == pytest.approx(
            expected / expected.sum(axis=1, keepdims=True), abs=1e-5
        )
