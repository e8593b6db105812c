from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from network_loop import REGRESSION, SCHEMA, Federation, rows, run, start
from scipy import stats

pytest.importorskip("tensorflow")

from baselines.dp_sgd.optimizers import Adam, HalvingSgd, Sgd
from baselines.dp_sgd.settings import DpSgdSettings
from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.ledger import Budget, total_epsilon
from dpforest.noise import Noise, Secure, Seeded
from dpforest.schema import Feature, Schema

OPTIONS: dict[str, Any] = {"standardize": "public", "batch": 24, "steps": 5, "learning_rate": 0.5}


def begin(**options: Any) -> Federation:
    return start("dp_sgd", **(OPTIONS | options))


def test_learns_at_a_moderate_epsilon() -> None:
    federation = run("dp_sgd", rounds=4, budget=Budget(8.0, 1e-5), **OPTIONS)
    assert federation.accuracy() > 0.85


def test_each_client_spends_the_budget_once_and_no_more() -> None:
    federation = run("dp_sgd", rounds=3, **OPTIONS)
    planned = federation.server.planned()
    (entry,) = planned
    assert (entry.times, entry.sampling) == (15, 24 / 120)
    assert entry.sensitivity / entry.scale == pytest.approx(entry.mu)
    assert 0.999 * 4 < total_epsilon(planned, 1e-5) <= 4
    for ledger in federation.ledgers.values():
        assert list(ledger.entries) == planned
        assert ledger.guarantee().holds


def test_private_standardisation_shares_the_budget() -> None:
    federation = run("dp_sgd", rounds=2, **(OPTIONS | {"standardize": "private"}))
    for entry in federation.ledgers[0].entries:
        assert entry.sensitivity / entry.scale == pytest.approx(entry.mu)
    assert len(federation.ledgers[0].entries) == 2
    assert 0.999 * 4 < federation.ledgers[0].guarantee().epsilon <= 4
    assert not federation.failures


def test_the_sampling_probability_does_not_follow_the_true_rows() -> None:
    sizes = {0: rows(0, 30), 1: rows(1, 400)}
    federation = run("dp_sgd", sizes, clients=2, rounds=1, **OPTIONS)
    assert {ledger.entries[0].sampling for ledger in federation.ledgers.values()} == {24 / 120}


def test_a_batch_larger_than_the_public_rows_takes_every_row() -> None:
    (entry,) = begin(batch=500).server.planned()
    assert entry.sampling == 1.0


def test_a_batch_of_any_size_takes_no_more_memory_than_the_public_rows() -> None:
    def trained(batch: int) -> dict[str, np.ndarray]:
        return run("dp_sgd", clients=1, rounds=1, **(OPTIONS | {"batch": batch})).model

    whole, more = trained(120), trained(10**9)
    assert all(np.array_equal(whole[name], more[name]) for name in whole)


def test_a_schema_without_public_rows_is_refused() -> None:
    with pytest.raises(DPForestError, match="public number of rows"):
        begin(schema=SCHEMA.with_rows(None))


def test_a_server_that_asks_for_too_little_noise_is_refused_by_the_ledger() -> None:
    federation = begin()
    config = {**federation.server.config(1, 0), "noise-multiplier": 0.5}
    view = federation.view(0, 1, config)
    with pytest.raises(BudgetExceeded):
        federation.method.client().train(view, *rows(0), federation.model)
    assert not view.ledger.entries


def test_a_later_message_cannot_lower_the_noise() -> None:
    # Both messages name the same round, so that the draws repeat and only the announced multiplier differs.
    def second(multiplier: float) -> np.ndarray:
        federation = begin(rounds=3)
        for round_, announced in ((1, None), (2, multiplier)):
            config = dict(federation.server.config(round_, 0))
            config["noise-multiplier"] = announced or config["noise-multiplier"]
            update = federation.method.client().train(federation.view(0, round_, config), *rows(0), federation.model)
        return federation.server.architecture.flatten(update.arrays)  # type: ignore[attr-defined]

    honest = begin(rounds=3).server.report()["noise_multiplier"]
    assert np.array_equal(second(honest), second(1e-3))


def test_a_round_too_many_is_refused() -> None:
    federation = begin(rounds=1, clients=1)
    federation.exchange(1, {0: rows(0)})
    federation.exchange(2, {0: rows(0)})
    assert "the budget is spent in 1 rounds of 5 steps" in federation.failures[0]


def test_clients_take_turns_as_often_as_was_paid_for() -> None:
    federation = begin(clients=7, clients_per_round=3, rounds=12)
    clients = [0, 1, 2, 3, 5, 8, 9]
    drawn = [federation.server.participants(round_, clients) for round_ in range(1, 13)]
    assert all(len(set(asked)) == 3 for asked in drawn)
    times = [sum(client in asked for asked in drawn) for client in clients]
    assert max(times) * 5 <= federation.server.planned()[0].times
    assert max(times) - min(times) <= 1
    # With clients missing nobody takes another's turn.
    fewer = [federation.server.participants(round_, clients[:4]) for round_ in range(1, 13)]
    assert max(sum(client in asked for asked in fewer) for client in clients) <= max(times)


def test_rows_that_no_batch_holds_still_give_full_noise() -> None:
    # One row and q = 0.2: most batches are empty. With sgd the weights move by lr * noise / 24 a step.
    federation = begin(clients=1, rounds=1, hidden=[64, 64], learning_rate=1.0, batch=24)
    update = federation.method.client().train(
        federation.view(0, 1, federation.server.config(1, 0)), *rows(0, 1), federation.model
    )
    flatten = federation.server.architecture.flatten  # type: ignore[attr-defined]
    moved = flatten(update.arrays).astype(float) - flatten(federation.model)
    scale = federation.server.report()["noise_multiplier"] * math.sqrt(5) / 24
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], moved.size)
    # The row's own gradient, at most 5 / 24 long, is lost in the noise.
    assert low < np.sum((moved / scale) ** 2) < high
    assert not low < np.sum((moved / 2 / scale) ** 2) < high


def test_the_same_seed_gives_the_same_weights() -> None:
    first, again = (run("dp_sgd", rounds=1, clients=2, dropout=0.2, **OPTIONS) for _ in range(2))
    assert all(np.array_equal(first.model[name], again.model[name]) for name in first.model)


def test_nobody_can_replay_the_batches_of_a_real_node() -> None:
    """Without noise and dropout all that is random is which rows a batch holds."""

    def trained(noise: Callable[[str], Noise]) -> np.ndarray:
        federation = begin(clients=1, rounds=1, budget=Budget(math.inf), batch=24)
        view = dataclasses.replace(federation.view(0, 1, federation.server.config(1, 0)), noise=noise)
        update = federation.method.client().train(view, *rows(0), federation.model)
        return federation.server.architecture.flatten(update.arrays)  # type: ignore[attr-defined]

    assert np.array_equal(*(trained(lambda purpose: Seeded(0)) for _ in range(2)))
    assert not np.array_equal(*(trained(lambda purpose: Secure()) for _ in range(2)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_weights_that_overflow_are_not_sent() -> None:
    federation = begin(clients=1, rounds=1, learning_rate=1e40)
    federation.exchange(1, {0: rows(0)})
    assert "lower learning_rate" in federation.failures[0]


def test_a_regression_target_is_learnt() -> None:
    federation = run("dp_sgd", schema=REGRESSION, rounds=6, budget=Budget(20.0, 1e-5), **(OPTIONS | {"clip": 0.5}))
    X, y = rows(999, 500, REGRESSION)
    assert np.mean((federation.predict(0, X) - y) ** 2) < 0.5 * y.var()


def test_an_infinite_budget_means_no_noise_and_no_guarantee() -> None:
    federation = run("dp_sgd", budget=Budget(math.inf), rounds=4, **OPTIONS)
    assert federation.accuracy() > 0.9
    assert not federation.ledgers[0].guarantee().holds


def test_without_hidden_layers_nothing_random_is_in_the_start() -> None:
    assert not any(array.any() for array in begin(hidden=[]).model.values())
    assert begin(hidden=[4]).model["output/kernel"].any()


@pytest.mark.parametrize(("epsilon", "rate"), [(0.5, 0.15), (1.0, 0.3), (8.0, 1.0), (math.inf, 1.0)])
def test_the_automatic_learning_rate_follows_from_the_budget_alone(epsilon: float, rate: float) -> None:
    settings = DpSgdSettings()
    budget = Budget(epsilon, 1e-5)
    assert settings.rate(SCHEMA, budget) == pytest.approx(rate)
    assert DpSgdSettings(optimizer="adam").rate(SCHEMA, budget) == pytest.approx(rate / 100)
    assert DpSgdSettings(learning_rate=0.2).rate(SCHEMA, budget) == 0.2


@pytest.mark.parametrize(("rows", "network", "steps"), [(None, (), 5), (9_999, (), 5), (10_000, (64,), 40)])
def test_the_public_number_of_rows_chooses_the_network_and_its_steps(
    rows: int | None, network: tuple[int, ...], steps: int
) -> None:
    schema = dataclasses.replace(SCHEMA, rows=rows)
    settings = DpSgdSettings()
    assert settings.architecture(schema).hidden == network
    assert settings.recipe(schema).steps == steps
    chosen = DpSgdSettings(hidden=[3], batch=7, steps=2, momentum=0.5, learning_rate=0.1)
    assert chosen.architecture(schema).hidden == (3,)
    recipe = chosen.recipe(schema)
    assert (recipe.batch, recipe.steps, recipe.momentum, recipe.learning_rate) == (7, 2, 0.5, 0.1)


def test_many_rows_do_not_change_adams_rate() -> None:
    schema = dataclasses.replace(SCHEMA, rows=50_000)
    assert DpSgdSettings(optimizer="adam").rate(schema, Budget(1.0, 1e-5)) == pytest.approx(0.003)
    assert DpSgdSettings().rate(schema, Budget(1.0, 1e-5)) == 0.5


@pytest.mark.parametrize(("name", "value"), [("hidden", "many"), ("batch", 0), ("steps", "all"), ("clip", 0)])
def test_a_wrong_value_among_automatic_ones_is_named(name: str, value: object) -> None:
    with pytest.raises(DPForestError, match=name):
        DpSgdSettings(**{name: value})  # type: ignore[arg-type]


def test_optimizers_step_as_written_down() -> None:
    gradient = np.array([1.0, -2.0], dtype=np.float32)
    sgd = Sgd(0.1, 0.9, 2)
    assert sgd.step(gradient) == pytest.approx([0.1, -0.2])
    assert sgd.step(gradient) == pytest.approx([0.19, -0.38])
    # The first step of Adam is the learning rate in the direction of the sign.
    assert Adam(0.01, 2).step(gradient) == pytest.approx([0.01, -0.01], rel=1e-4)


def test_the_rate_halves_where_the_gradient_has_turned_and_noise_does_not_explain_it() -> None:
    forth, back = np.array([1.0, 0.0], dtype=np.float32), np.array([-1.0, 0.1], dtype=np.float32)
    sgd = HalvingSgd(0.8, 0.9, 2, least=0.3, chance=0.1)
    assert sgd.step(forth) == pytest.approx([0.8, 0.0])
    assert sgd.step(back) == pytest.approx([-0.4, 0.04]), "without the velocity that led too far"
    assert sgd.step(forth) == pytest.approx([0.3, 0.0]), "no less than the least"
    assert sgd.step(back) == pytest.approx([-0.3, 0.03])
    noisy = HalvingSgd(0.8, 0.0, 2, least=0.3, chance=0.4)
    noisy.step(forth)
    assert noisy.step(back) == pytest.approx([-0.8, 0.08]), "three deviations of noise are farther"
    small = HalvingSgd(0.1, 0.0, 2, least=0.3, chance=0.0)
    small.step(forth)
    assert small.step(back) == pytest.approx([-0.1, 0.01]), "a rate below the least stays"


def test_noise_alone_hardly_ever_halves_the_rate() -> None:
    rng = np.random.default_rng(0)
    sgd = HalvingSgd(1.0, 0.9, 50, least=1e-6, chance=2.0)
    for _ in range(400):
        sgd.step(rng.normal(0, 2, 50).astype(np.float32))
    assert sgd.rate >= 0.25


def test_which_rows_are_drawn_does_not_halve_the_rate() -> None:
    """Of heavy tails, each batch has other large gradients: without noise, too, that is no step too far."""
    features = tuple(Feature(f"x{i}", 0, 1000) for i in range(6))
    schema = Schema(features, target_range=(-6, 6), rows=750)
    rng = np.random.default_rng(1)
    X = np.clip(rng.lognormal(0, 1.5, (2250, 6)), 0, 1000)
    y = np.clip(np.log(X[:, 0]) + np.log(X[:, 1]), -6, 6)
    data = {client: (X[client::3], y[client::3]) for client in range(3)}
    federation = run("dp_sgd", data, rounds=10, clients=3, budget=Budget(100.0, 1e-5), schema=schema, hidden="auto")
    rates = [float(str(state.config_records["dp_sgd"]["rate"])) for state in federation.states.values()]
    assert min(rates) >= 0.5


def test_features_that_say_the_same_do_not_throw_a_regression_away() -> None:
    """The rate that a large budget allows is several times too long for 16 copies of one feature."""
    schema = Schema(tuple(Feature(f"x{i}", -1, 1) for i in range(16)), target_range=(-2, 2), rows=200)
    rng = np.random.default_rng(0)
    z = rng.uniform(-1, 1, 800)
    X = np.clip(z[:, None] + rng.normal(0, 0.05, (800, 16)), -1, 1)
    data = {client: (X[client:600:3], 2 * z[client:600:3]) for client in range(3)}

    def left(**options: Any) -> tuple[float, Federation]:
        federation = run(
            "dp_sgd", data, rounds=10, clients=3, budget=Budget(30.0, 1e-5), schema=schema, hidden="auto", **options
        )
        return float(np.var(federation.predict(0, X[600:]) - 2 * z[600:]) / np.var(2 * z[600:])), federation

    share, federation = left()
    assert share < 0.05
    state = federation.states[0].config_records["dp_sgd"]
    assert 1 / (4 * 17) <= float(str(state["rate"])) < 0.5, "the client keeps its rate from round to round"
    assert left(learning_rate=1.0)[0] > 0.5, "what is set stays as it is"
