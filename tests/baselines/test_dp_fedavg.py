from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message
from network_loop import PRIVATE, REGRESSION, Federation, rows, run, start
from scipy import stats

pytest.importorskip("tensorflow")

from baselines.dp_fedavg.client import UPDATE, DpFedAvgClient
from baselines.dp_fedavg.releases import vector_plan
from baselines.dp_fedavg.server import DpFedAvgServer
from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.forest import load
from dpforest.ledger import Budget, total_epsilon
from dpforest.mechanisms import DiscreteGaussianSums
from dpforest.noise import Secure
from fl_app.engine.in_process import InProcessGrid
from strategies.federation.result import FederatedResult
from strategies.federation.strategy import MethodStrategy
from strategies.method import Arrays, ClientUpdate, TooFewClients
from strategies.plan import MethodPlan

SEEDED = {
    "server_noise": "seeded", "optimizer": "adam", "learning_rate": 0.02, "standardize": "public", "update": "clip",
    "balance": 0.0,
}  # fmt: skip


def begin(**options: Any) -> Federation:
    return start("dp_fedavg", **(SEEDED | {"trust": "central"} | options))


def flat(federation: Federation, arrays: Arrays) -> np.ndarray:
    return federation.server.architecture.flatten(arrays)  # type: ignore[attr-defined]


def noise_of(federation: Federation, updates: list[ClientUpdate], round_: int = 1) -> np.ndarray:
    before = federation.server.flat.copy()  # type: ignore[attr-defined]
    federation.server.aggregate(round_, updates)
    return federation.server.flat - before  # type: ignore[attr-defined]


def test_every_client_is_charged_what_was_planned_and_it_fits_the_budget() -> None:
    federation = run("dp_fedavg", clients=6, clients_per_round=3, rounds=4, **SEEDED)
    planned = federation.server.planned()
    assert 0.999 * 4 < total_epsilon(planned, 1e-5) <= 4
    trained = {client for asked in federation.asked for client in asked}
    for client in trained:
        assert list(federation.ledgers[client].entries) == planned
        assert federation.ledgers[client].guarantee().holds
    assert planned[0].sensitivity / planned[0].scale == pytest.approx(planned[0].mu)
    assert "one client's whole data" in federation.ledgers[min(trained)].guarantee().unit
    assert federation.server.report()["server_ledger"]["entries"] == [entry.to_dict() for entry in planned]


def test_learns_when_the_noise_is_small() -> None:
    options = SEEDED | {"clip": 5.0}
    assert run("dp_fedavg", budget=Budget(math.inf), rounds=4, **options).accuracy() > 0.9


def test_the_mean_of_clipped_updates_is_divided_by_the_expected_number() -> None:
    # No noise (infinite epsilon), 4 clients expected, two answer: an update of length 3 is clipped to 1, 0.5 stays.
    federation = begin(budget=Budget(math.inf), clients=4)
    size = federation.server.architecture.size  # type: ignore[attr-defined]
    unit = np.ones(size) / math.sqrt(size)
    updates = []
    for client, length in enumerate((3.0, 0.5)):
        moved = federation.server.architecture.unflatten(flat(federation, federation.model) + length * unit)  # type: ignore[attr-defined]
        updates.append(ClientUpdate(moved, {}, client))
    step = noise_of(federation, updates)
    assert step == pytest.approx((1 + 0.5) / 4 * unit, abs=1e-6)


@pytest.mark.parametrize("updates", ["nobody", "zero"])
def test_an_empty_round_and_zero_updates_still_release_the_full_noise(updates: str) -> None:
    federation = begin(hidden=[64, 64], clients=8, clients_per_round=4, clip=0.7)
    replies = [ClientUpdate(federation.model, {}, 0)] if updates == "zero" else []
    drawn = noise_of(federation, replies)
    scale = federation.server.report()["noise_multiplier"] * 0.7 / 4
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], drawn.size)
    assert low < np.sum((drawn / scale) ** 2) < high
    assert not low < np.sum((drawn / 2 / scale) ** 2) < high


def test_noise_differs_between_rounds_and_repeats_with_the_seed() -> None:
    first, second = noise_of(begin(), []), noise_of(begin(), [])
    assert np.array_equal(first, second)
    federation = begin()
    assert not np.array_equal(noise_of(federation, [], 1), noise_of(federation, [], 2))


def test_secure_noise_does_not_follow_the_seed() -> None:
    drawn = [noise_of(begin(server_noise="secure", hidden=[]), []) for _ in range(2)]
    assert not np.array_equal(*drawn)


@pytest.mark.parametrize("sampling", ["poisson", "fixed"])
def test_where_real_nodes_take_part_nobody_can_replay_the_server(
    sampling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Amplification holds for whom the draw hides: a seeded configuration changes nothing there."""
    seeded = begin(clients=40, clients_per_round=20, sampling=sampling, hidden=[])

    deployed = [DpFedAvgServer(replace(seeded.task, deployed=True)) for _ in range(2)]
    with monkeypatch.context() as patch:
        patch.setattr(np.random, "default_rng", None)  # no generator that could be known is asked
        drawn = [server.sample(1, list(range(40))) for server in deployed]
    assert drawn[0] != drawn[1]
    steps = [server.aggregate(1, [ClientUpdate(seeded.model, {}, 0, noise="secure")]) for server in deployed]
    assert steps[0] is not None
    assert steps[1] is not None
    assert any(not np.array_equal(steps[0][name], steps[1][name]) for name in steps[0])
    if sampling == "fixed":
        assert [len(chosen) for chosen in drawn] == [20, 20]


def test_seeded_server_noise_is_refused_where_clients_are_real_nodes() -> None:
    federation = begin()
    with pytest.raises(DPForestError, match="server_noise=secure"):
        federation.server.aggregate(1, [ClientUpdate(federation.model, {}, 0, noise="secure")])


def test_a_round_beyond_the_budget_is_refused() -> None:
    federation = begin(rounds=2)
    for round_ in (1, 2):
        federation.exchange(round_, {0: rows(0)})
    with pytest.raises(BudgetExceeded, match=r"round 3.*2 rounds"):
        federation.server.aggregate(3, [])


@pytest.mark.parametrize("arrays", ["integers", "nan"])
def test_integer_and_infinite_updates_are_refused(arrays: str) -> None:
    federation = begin()
    bad = np.zeros(3, dtype=np.int64) if arrays == "integers" else np.full(3, np.nan)
    with pytest.raises(DPForestError, match="output/bias"):
        federation.server.check(ClientUpdate({**federation.model, "output/bias": bad}, {}, 0))


def test_poisson_rounds_draw_each_client_independently() -> None:
    federation = begin(clients=10, clients_per_round=3, rounds=2000)
    drawn = [federation.server.participants(round_, list(range(10))) for round_ in range(1, 2001)]
    sizes = np.array([len(clients) for clients in drawn])
    # Binomial(10, 0.3): mean 3, variance 2.1; five standard errors.
    assert sizes.mean() == pytest.approx(3, abs=5 * math.sqrt(2.1 / 2000))
    assert sizes.var() == pytest.approx(2.1, rel=0.2)
    assert (sizes == 0).any()


def test_samples_of_fixed_size_are_drawn_among_all_places() -> None:
    federation = begin(clients=10, clients_per_round=3, sampling="fixed")
    assert all(len(federation.server.participants(r, list(range(10)))) == 3 for r in range(1, 50))
    # Half of the clients are missing: those that are there are drawn no more often than before.
    drawn = [len(federation.server.participants(r, [0, 2, 4, 6, 8])) for r in range(1, 400)]
    assert np.mean(drawn) == pytest.approx(1.5, abs=0.25)


def test_too_many_clients_for_the_calibrated_noise_are_refused() -> None:
    with pytest.raises(DPForestError, match="5 clients train, but the noise was calibrated for 4"):
        begin(clients=4).server.participants(1, [0, 1, 2, 3, 4])


def test_fixed_samples_take_the_cheaper_of_two_valid_bounds() -> None:
    few = begin(clients=30, clients_per_round=5, sampling="fixed", rounds=10, budget=Budget(1.0, 1e-5)).server
    many = begin(clients=30, clients_per_round=25, sampling="fixed", rounds=10, budget=Budget(1.0, 1e-5)).server
    (amplified,), (plain,) = few.planned(), many.planned()
    assert (amplified.fixed_size, amplified.sampling) == (True, pytest.approx(5 / 30))
    # Replacing a client moves the sum by two clips.
    assert amplified.mu == pytest.approx(2 / few.report()["noise_multiplier"])
    assert (plain.fixed_size, plain.sampling) == (False, 1.0)
    assert plain.mu == pytest.approx(1 / many.report()["noise_multiplier"])
    assert all(total_epsilon(side.planned(), 1e-5) <= 1 for side in (few, many))


def test_the_adaptive_clip_moves_towards_the_quantile() -> None:
    options = {"adaptive_clip": True, "clip": 1.0, "rounds": 5, "budget": Budget(math.inf), "clients": 4}
    federation = begin(**options)
    # Nobody answers or all send zero: everybody present is within the clip, so that it shrinks by exp(-0.2 (1 - 0.5)).
    federation.server.aggregate(1, [ClientUpdate(federation.server.initial_arrays(), {}, c) for c in range(4)])
    assert federation.server.report()["clip"] == pytest.approx(math.exp(-0.1))
    assert federation.server.round_facts() == {"clip": 1.0}
    far = {name: array + np.float32(5) for name, array in federation.server.initial_arrays().items()}
    federation.server.aggregate(2, [ClientUpdate(far, {}, c) for c in range(4)])
    assert federation.server.report()["clip"] == pytest.approx(1.0)


@pytest.mark.parametrize(("length", "limit"), [(0.0, 1e-6), (1e9, 1e6)])
def test_the_adaptive_clip_stays_within_limits(length: float, limit: float) -> None:
    federation = begin(adaptive_clip=True, clip_learning_rate=1e6, budget=Budget(math.inf), clients=2)
    far = {name: array + np.float32(length) for name, array in federation.model.items()}
    federation.server.aggregate(1, [ClientUpdate(far, {}, client) for client in range(2)])
    assert federation.server.report()["clip"] == pytest.approx(limit)


def test_the_count_behind_the_clip_is_paid_for_by_more_noise_on_the_updates() -> None:
    drawn = [noise_of(begin(adaptive_clip=adaptive, hidden=[64]), []).std() for adaptive in (False, True)]
    # The count has a twentieth of the squared mu.
    assert drawn[1] / drawn[0] == pytest.approx(1 / math.sqrt(0.95), rel=1e-6)


def test_delta_is_needed_and_batch_norm_is_not_possible() -> None:
    with pytest.raises(DPForestError, match=r"privacy\.delta is 0"):
        begin(budget=Budget(1.0))
    with pytest.raises(DPForestError, match=r"use batch_norm=\[\]"):
        begin(batch_norm=[1])


def _silent(message: Message, context: Context) -> Message:
    raise TimeoutError


@pytest.mark.parametrize(("name", "ends"), [("fedavg", True), ("dp_fedavg", False)])
def test_the_end_of_a_run_says_nothing_about_a_client_that_is_protected(name: str, ends: bool) -> None:
    # Of the clients that were asked none answers, and half are needed: only a method without a guarantee may stop.
    federation = start(name, clients=4, **({} if ends else {"server_noise": "seeded"}))
    plan = MethodPlan(name, {"hidden": [8]} | ({} if ends else SEEDED), federation.task.schema, 4.0, 1e-5, rounds=1)
    strategy = MethodStrategy(plan, FederatedResult, nodes={client: 1000 + client for client in range(4)})
    if ends:
        with pytest.raises(TooFewClients):
            strategy.start(InProcessGrid(_silent, 4))  # type: ignore[arg-type]
    else:
        result = strategy.start(InProcessGrid(_silent, 4))  # type: ignore[arg-type]
        assert len(result.arrays)
        lost = [failure.reason for failure in result.failures]
        assert lost == ["no answer in time"] * 4 + ["silent since it gave no answer in time"] * 4


def test_a_client_that_diverges_counts_as_a_zero_update() -> None:
    federation = begin(budget=PRIVATE, optimizer="sgd", learning_rate=1e30, rounds=1)
    federation.exchange(1, {client: rows(client) for client in range(4)})
    assert len(federation.failures) == 4
    assert all(np.isfinite(array).all() for array in federation.model.values())


OWN = {
    "hidden": [],
    "optimizer": "sgd",
    "standardize": "own",
    "update": "unit",
    "balance": 0.5,
    "server_noise": "seeded",
}


@pytest.mark.parametrize("own_scale", ["z", "ranks"])
@pytest.mark.parametrize("trust", ["local", "central"])
def test_directions_of_clients_on_their_own_scale_are_learned_from(trust: str, own_scale: str) -> None:
    federation = run("dp_fedavg", trust=trust, budget=Budget(math.inf), rounds=8, own_scale=own_scale, **OWN)
    assert not federation.failures
    assert federation.accuracy() > 0.85


@pytest.mark.parametrize("target_range", [(-6, 6), (-6, 34)])
def test_directions_do_not_lead_past_a_target(target_range: tuple[float, float]) -> None:
    schema = replace(REGRESSION, target_range=target_range)
    X, y = rows(999, 300, schema)
    for budget in (PRIVATE, Budget(math.inf)):
        federation = run("dp_fedavg", schema=schema, trust="central", budget=budget, clients=12, rounds=10, **OWN)
        assert not federation.failures
        error = np.abs(federation.predict(0, X).ravel() - y).mean()
        assert error < np.abs(y - y.mean()).mean(), "worse than to say the mean of all"


def test_a_unit_update_has_length_one_whatever_was_learned() -> None:
    federation = start("dp_fedavg", budget=Budget(math.inf), clients=4, server_learning_rate=1.0, **OWN)
    size = federation.server.architecture.size  # type: ignore[attr-defined]
    moved = [
        federation.server.architecture.unflatten(length * np.eye(size)[0])  # type: ignore[attr-defined]
        for length in (1e-6, 50.0)
    ]
    step = noise_of(federation, [ClientUpdate(weights, {}, client) for client, weights in enumerate(moved)])
    assert step == pytest.approx(2 / 4 * np.eye(size)[0], abs=1e-6)


@pytest.mark.parametrize("update", ["unit", "clip"])
@pytest.mark.parametrize("noise", ["seeded", "secure"])
def test_without_a_trusted_server_a_client_pays_for_each_update_and_no_more(update: str, noise: str) -> None:
    options = {**OWN, "update": update}
    federation = start("dp_fedavg", trust="local", rounds=2, clients=6, **options)
    plan = vector_plan(federation.task)
    seen = []
    for round_, (X, y) in enumerate([rows(0), (rows(0)[0][:0], rows(0)[1][:0])], start=1):
        view = federation.view(0, round_, {})
        if noise == "secure":
            view = replace(view, noise=lambda purpose: Secure())
        update_ = DpFedAvgClient().train(view, X, y, federation.model)
        federation.server.check(ClientUpdate(update_.arrays, {}, 0))
        seen.append(update_.arrays[UPDATE])
    assert federation.ledgers[0].entries == tuple(federation.server.planned())
    assert 0.999 * 4 < total_epsilon(federation.ledgers[0].entries, 1e-5) <= 4
    # Of the same kind with rows and without: only the noise stands out.
    assert {(each.dtype, each.shape) for each in seen} == {(np.dtype(np.int64), (15,))}
    with pytest.raises(BudgetExceeded):
        DpFedAvgClient().train(federation.view(0, 3, {}), *rows(0), federation.model)
    assert plan.sums.squared_sensitivity == plan.units**2


def loss(is_there: bool, seed: int, halved: bool) -> float:
    """How much likelier two updates are with the client's rows than without any, as a logarithm."""
    federation = start("dp_fedavg", trust="local", rounds=2, budget=Budget(8.0, 9e-4), clients=8, seed=seed, **OWN)
    plan = vector_plan(federation.task)
    X, y = rows(0, 12)
    empty, original, exact = (X[:0], y[:0]), DiscreteGaussianSums.release, []

    def release(mechanism: Any, values: np.ndarray, *rest: Any) -> np.ndarray:
        exact.append(values)
        shown = original(mechanism, values, *rest)
        return values + np.rint((shown - values) / 2).astype(np.int64) if halved else shown

    total = 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DiscreteGaussianSums, "release", release)
        for round_ in (1, 2):
            sent = DpFedAvgClient().train(
                federation.view(0, round_, {}), *((X, y) if is_there else empty), federation.model
            )
            DpFedAvgClient().train(federation.view(1, round_, {}), *(empty if is_there else (X, y)), federation.model)
            shown = sent.arrays[UPDATE]
            sums, others = exact[-2:]
            total += ((shown - others) ** 2 - (shown - sums) ** 2).sum() / (2 * plan.sums.variance)
            # The next question depends on what was shown.
            flat = federation.server.architecture.flatten(federation.model) + shown / plan.units  # type: ignore[attr-defined]
            federation.model = federation.server.architecture.unflatten(flat)  # type: ignore[attr-defined]
    return (4 if halved else 1) * (total if is_there else -total)


@pytest.mark.parametrize("halved", [False, True])
def test_a_whole_run_keeps_its_guarantee_to_a_client_that_is_replaced_by_nothing(halved: bool) -> None:
    with_, without = (np.array([loss(there, seed, halved) for seed in range(40)]) for there in (True, False))
    excess = (with_ > 8).mean() - math.exp(8) * (without > 8).mean()
    if halved:
        assert excess > 0.2, "half the noise is found out"
    else:
        assert excess < 9e-4 + 0.1


def test_shared_noise_comes_to_that_of_one_client() -> None:
    local, shared = (
        vector_plan(start("dp_fedavg", trust=trust, clients=6, **OWN).task).sums for trust in ("local", "shared")
    )
    assert 6 * shared.variance / shared.squared_sensitivity == pytest.approx(
        local.variance / local.squared_sensitivity, rel=1e-3
    )


def test_a_shared_run_learns_from_sums_alone() -> None:
    federation = start("dp_fedavg", trust="shared", budget=Budget(math.inf), rounds=5, **OWN)
    data = {client: rows(client) for client in range(4)}
    data[3] = (data[3][0][:0], data[3][1][:0])
    exchange = 0
    while not federation.server.finished:
        exchange += 1
        secure_exchange(federation, exchange, data)
    assert exchange == federation.server.exchanges == 12
    assert federation.accuracy() > 0.8
    assert "left_out" not in federation.server.report()


def test_a_shared_run_without_keys_ends_at_once() -> None:
    federation = start("dp_fedavg", trust="shared", budget=Budget(math.inf), rounds=5, **OWN)
    with pytest.raises(TooFewClients, match="the run cannot go on: 1 clients answered"):
        secure_exchange(federation, 1, {0: rows(0)})


def secure_exchange(federation: Federation, exchange: int, data: Any) -> None:
    """One exchange in which each client has a message of its own."""
    server, updates = federation.server, []
    for client in server.participants(exchange, sorted(data)):
        arrays = server.arrays_for(exchange, client)
        assert arrays is not None
        view = federation.view(client, exchange, dict(server.config(exchange, client)))
        update = DpFedAvgClient().train(view, *data[client], arrays)
        updates.append(ClientUpdate(update.arrays, update.metrics, client))
        server.check(updates[-1])
    federation.model = server.aggregate(exchange, updates) or federation.model


@pytest.mark.parametrize("options", [{"clients_per_round": 2}, {"adaptive_clip": True, "update": "clip"}])
def test_what_needs_a_trusted_server_is_refused_without_one(options: dict[str, Any]) -> None:
    with pytest.raises(DPForestError, match=r"use privacy\.trust=central"):
        start("dp_fedavg", trust="shared", **{**OWN, **options})


def test_two_clients_hear_from_which_epsilon_on_something_could_be_learned() -> None:
    with pytest.raises(DPForestError, match=r"nothing can be learned.*from epsilon 4\.6 on"):
        start("dp_fedavg", clients=2, trust="shared", budget=Budget(1.0, 1e-5), **OWN)


@pytest.mark.parametrize("own_scale", ["z", "ranks"])
def test_a_linear_model_is_also_saved_as_a_forest_that_reads_a_new_person(tmp_path: Path, own_scale: str) -> None:
    federation = run("dp_fedavg", trust="local", rounds=4, clients=6, own_scale=own_scale, **OWN)
    federation.server.save(tmp_path)
    forest = load(tmp_path / "forest.json")
    X, _ = rows(77, 40)
    assert forest.predict_proba(forest.of_person(X.astype(np.float32))) == pytest.approx(
        federation.predict(0, X.astype(np.float32)), abs=1e-4
    )
    said = json.loads((tmp_path / "network.json").read_text())["rows"]
    assert (said["standardize"], said["own_scale"], said["schema"]["target"]) == ("own", own_scale, "target")
