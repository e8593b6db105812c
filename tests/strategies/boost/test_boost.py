"""Federated boosting: who sends what, what it costs, and what clients that are missing or hostile change."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from federation import SCHEMA, Federation, table

from dpforest.boosting import Records, boost, release_moments
from dpforest.boosting.bins import marginal_shape
from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.forest import load
from dpforest.ledger import Budget, Ledger
from dpforest.noise import Seeded
from dpforest.schema import Schema
from strategies.boost import FederatedBoostSettings
from strategies.boost.server import BoostServer
from strategies.boost.settings import plan_of, secure_terms
from strategies.boost.wire import read_round, write_sums
from strategies.forests import read_model
from strategies.messages import BadMessage
from strategies.method import Task, TooFewClients
from strategies.registry import get_method
from strategies.secure_aggregation import Phase

FREE = Budget(math.inf)


@pytest.mark.parametrize("trust", ["local", "shared", "central"])
@pytest.mark.parametrize("linear_share", [0, 0.4])
def test_without_noise_it_is_boosting_of_all_rows_together(trust: str, linear_share: float) -> None:
    run = Federation(budget=FREE, trust=trust, linear_share=linear_share)
    run.run()
    X, y = (np.concatenate(parts) for parts in zip(*run.rows.values(), strict=True))
    settings = run.settings

    class OneSeed(Seeded):
        def generator(self):  # of structures: the run's seed
            return self

        def integers(self, _):
            return run.task.seed

    alone = boost(X, y, SCHEMA, settings, run.task.rounds, Ledger(FREE), OneSeed(0))
    assert np.allclose(read_model(run.model, SCHEMA).predict_proba(X), alone.predict_proba(X), atol=1e-4)
    assert run.accuracy() > 0.85


def test_the_server_says_what_the_model_is_worth_on_its_public_rows() -> None:
    run = Federation(budget=FREE)
    X, y = next(iter(run.rows.values()))
    server = BoostServer(replace(run.task, public_rows=lambda: (X, y)))
    run.server = server
    run.run()
    wanted = (read_model(run.model, SCHEMA).predict(X) == y).mean()
    assert server.round_facts()["public_accuracy"] == pytest.approx(wanted)
    assert server.progress().endswith(f"accuracy on public rows {wanted:.3f}")


@pytest.mark.parametrize(
    ("options", "budget"),
    [
        ({"trust": "local"}, Budget(5.0, 1e-6)),
        ({"trust": "shared"}, Budget(5.0, 1e-6)),
        ({"trust": "shared", "dropouts": 1, "colluders": 1}, Budget(5.0, 1e-6)),
        ({"pure": True}, Budget(50.0)),
        ({"trust": "local", "linear_share": 0.4}, Budget(5.0, 1e-6)),
        ({"trust": "shared", "linear_share": 0.4}, Budget(5.0, 1e-6)),
        ({"trust": "central", "linear_share": 0.4}, Budget(5.0, 1e-6)),
        ({"trust": "central", "pure": True}, Budget(50.0)),
    ],
)
def test_every_client_spends_exactly_what_was_planned(options: dict, budget: Budget) -> None:
    run = Federation(budget=budget, **options)
    planned = Ledger(budget)
    planned.require(run.server.planned())
    run.run()
    for ledger in run.ledgers.values():
        assert list(ledger.entries) == run.server.planned()
        assert ledger.guarantee().epsilon == pytest.approx(budget.epsilon, rel=1e-6)
    assert run.accuracy() > 0.6
    with pytest.raises(BudgetExceeded):
        run.ledgers[0].charge(replace(run.server.planned()[-1], times=1))


def test_the_noise_of_a_distributed_sum_is_that_of_one_client() -> None:
    local = BoostServer(Federation(clients=9).task).plan.sums
    shared = BoostServer(Federation(clients=9, trust="shared").task).plan.sums
    spare = BoostServer(Federation(clients=9, trust="shared", dropouts=2, colluders=3).task).plan.sums
    assert shared.mu == pytest.approx(local.mu) == pytest.approx(spare.mu)
    per_unit = [m.share / math.sqrt(m.squared_sensitivity) for m in (local, shared, spare)]
    assert per_unit[0] / per_unit[1] == pytest.approx(3.0, rel=1e-3)
    # Four of nine are sure to be there and silent.
    assert per_unit[0] / per_unit[2] == pytest.approx(2.0, rel=1e-3)


def test_the_trust_text_says_who_must_be_trusted() -> None:
    method = get_method("boost")
    local = method.protection(FederatedBoostSettings())
    assert local.trust == "server and other clients not trusted"
    assert local.by_client_alone
    shared = method.protection(FederatedBoostSettings(dropouts=2, colluders=1), trust="shared")
    assert "at most 1 clients collude" in shared.trust
    assert "one that takes its own noise off what is published counts as such" in shared.trust
    assert "at most 2 drop out" in shared.trust
    assert not shared.by_client_alone


def test_only_new_trees_go_down_and_small_integers_up() -> None:
    run = Federation(rounds=6)
    sizes = []
    while run.exchange_number < run.server.exchanges:
        run.exchange()
        sizes.append(sum(array.nbytes for array in run.sent[0].values()))
    assert sizes[0] == 0
    assert max(sizes[2:]) == min(sizes[2:]), "one round of trees, however many there are"
    assert run.received[0]["sums"].dtype in (np.int8, np.int16)


def test_a_client_that_misses_rounds_catches_up() -> None:
    """Without noise, a client that was away and came back scores its rows by all trees."""
    run = Federation(budget=FREE, rounds=6)
    run.exchange()
    run.exchange(unreached=[1])
    run.exchange(unreached=[1, 2])
    run.exchange(lost=[3])
    run.exchange()
    run.exchange()
    for client in (1, 2, 3):
        scores = run.states[client].array_records["boost"]["scores"].numpy()
        forest = run.server.booster.forest({})
        known = replace(  # all but the last round's trees
            forest, offsets=forest.offsets[:-2], feature=forest.feature[: forest.offsets[-3]],
            threshold=forest.threshold[: forest.offsets[-3]], left=forest.left[: forest.offsets[-3]],
            value=forest.value[: forest.offsets[-3]], weight=forest.weight[: forest.offsets[-3]],
            owners=forest.owners[:-2],
        )  # fmt: skip
        expected = known.predict_proba(run.rows[client][0])
        seen = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        assert np.allclose(seen, expected, atol=1e-5)
    run.run()
    assert run.accuracy() > 0.85
    assert all(ledger.entries == run.ledgers[0].entries for c, ledger in run.ledgers.items() if c in (0, 4))
    assert run.ledgers[2].entries[1].times < run.ledgers[0].entries[1].times, "who was away paid less"


def test_a_distributed_sum_survives_the_stated_dropouts() -> None:
    """One that never appears, one missing at every masking, and one at every unmasking."""
    run = Federation(budget=Budget(8.0, 1e-6), clients=8, rounds=4, trust="shared", dropouts=3)
    run.exchange()
    run.exchange(unreached=[6])  # never takes part
    while not run.server.finished:
        number = run.exchange_number
        run.exchange(unreached=[number % 6] if number % 4 < 2 else [], lost=[number % 6] if number % 4 >= 2 else [])
    assert len(run.server.booster.rounds) == 4
    assert run.accuracy() > 0.7


def test_a_round_with_too_many_dropouts_is_given_up_and_paid_for() -> None:
    run = Federation(clients=6, rounds=3, trust="shared", dropouts=1)
    for _ in range(4):
        run.exchange()  # keys, and the histograms
    run.exchange(lost=[0, 1])
    assert run.server.round_facts()["trees"] == 0
    assert run.ledgers[0].entries[1].times == 2, "what left the client counts"
    run.run()
    assert run.server.report()["trees"] == 4, "two of three rounds"
    assert run.ledgers[3].guarantee().epsilon == pytest.approx(5.0, rel=1e-6)
    assert run.model


@pytest.mark.parametrize("dropouts", [0, 1, 3])
@pytest.mark.parametrize("phase", [Phase.ADVERTISE, Phase.SHARE, Phase.MASK, Phase.UNMASK, Phase.PRESENT])
def test_clients_that_die_cost_one_round_at_most(dropouts: int, phase: Phase) -> None:
    """Of eight, one more than may be missing dies in a phase: before the start, or after three rounds."""
    run = Federation(clients=8, rounds=9, trust="shared", dropouts=dropouts)
    dead = range(dropouts + 1)
    if phase in (Phase.ADVERTISE, Phase.SHARE):
        while run.server.collector.phase is not phase:
            run.exchange()
        with pytest.raises(TooFewClients, match=f"needs {8 - dropouts}"):
            run.exchange(lost=dead)
        assert all(not ledger.entries for ledger in run.ledgers.values())
        return
    while len(run.server.booster.rounds) < 3:
        run.exchange()
    if phase is Phase.PRESENT:  # one round is lost, they are back, and then away for good
        run.exchange(lost=dead)
    while run.server.collector.phase is not phase:
        run.exchange()
    while not run.server.finished:
        run.exchange(unreached=dead)
    assert run.exchange_number < run.server.exchanges
    report = run.server.report()
    assert report["trees"] == 6, "the model so far"
    assert report["rounds_given_up"] == 1
    assert report["ended_early"].startswith("after 3 of 9 rounds: 3 exchanges in a row came to no sum")
    assert f"{7 - dropouts} clients answered" in report["ended_early"]
    assert run.model
    alive = [ledger for client, ledger in run.ledgers.items() if client not in dead]
    assert all(ledger.entries[1].times == 4 * 2 for ledger in alive), "trees of three rounds, and of one in vain"


@pytest.mark.parametrize("dropouts", [0, 1, 3])
def test_clients_that_are_back_cost_the_round_that_they_missed(dropouts: int) -> None:
    run = Federation(clients=8, rounds=4, trust="shared", dropouts=dropouts, budget=Budget(8.0, 1e-6))
    while len(run.server.booster.rounds) < 2:
        run.exchange()
    run.exchange(lost=range(dropouts + 1))
    run.exchange(unreached=range(dropouts + 1))
    run.run()
    assert run.exchange_number == run.server.exchanges == 2 + 2 * 5 + 1
    report = run.server.report()
    assert (report["trees"], report["rounds_given_up"]) == (6, 1)
    assert "ended_early" not in report
    assert run.ledgers[7].guarantee().epsilon == pytest.approx(8.0, rel=1e-6)
    assert run.accuracy() > 0.7


def altered(name: str, change):
    """One client's array of a secure sum, wherever it appears."""
    return tampered(lambda arrays: {key: change(array) if key == name else array for key, array in arrays.items()})


LIES = [
    ("secure.public_key", lambda a: a * 0),
    ("secure.round_keys", lambda a: a[:1].repeat(len(a), axis=0)),
    ("secure.sealed", lambda a: np.roll(a, 1, axis=0)),
    ("secure.part_hashes", lambda a: a ^ 1),
    ("secure.opened", lambda a: a * 0),
    ("secure.parts", lambda a: a ^ 1),
]


@pytest.mark.parametrize(("name", "change"), LIES, ids=[name for name, _ in LIES])
def test_a_client_that_lies_in_a_secure_sum_costs_itself_only(name: str, change) -> None:
    """No round is lost, nobody pays twice, and the liar is asked no more."""
    run = Federation(clients=6, rounds=3, trust="shared", dropouts=1, colluders=1)
    refused: dict[int, str] = {}
    while run.exchange_number < run.server.exchanges and not run.server.finished:
        run.exchange(tamper=altered(name, change))
        refused |= run.errors
    report = run.server.report()
    assert report["trees"] == 6
    assert "rounds_given_up" not in report
    assert refused.keys() | {int(client) for client in report.get("left_out", {})} == {2}
    assert 2 not in run.sent
    for client in {0, 1, 3, 4, 5}:
        assert list(run.ledgers[client].entries) == run.server.planned()


def test_a_client_that_promised_another_secret_is_left_out_by_name(caplog: pytest.LogCaptureFixture) -> None:
    run = Federation(clients=6, rounds=3, trust="shared", dropouts=1, colluders=1)
    run.exchange()
    run.exchange()
    run.server.collector.adverts[2].commitments[1:] ^= 1
    run.run()
    report = run.server.report()
    assert (report["trees"], report["rounds_given_up"]) == (4, 1)
    assert report["left_out"] == {"2": "it shared the parts of another secret than it promised"}
    assert [line for line in caplog.messages if "client 2 is left out" in line], "once"


def test_a_client_that_spoils_every_sum_does_not_use_up_the_budget_of_all() -> None:
    """Nobody may be missing, so that its first lie ends the run with the model so far."""
    run = Federation(clients=4, rounds=9, trust="shared")
    while not run.server.booster.rounds:
        run.exchange()
    while not run.server.finished:
        run.exchange(tamper=altered("secure.parts", lambda a: a ^ 1))
    assert "client 2 returned a wrong part of a secret" in run.server.report()["ended_early"]
    assert run.ledgers[0].entries[1].times == (1 + 1) * 2


def test_without_histograms_a_distributed_run_ends() -> None:
    run = Federation(clients=6, rounds=3, trust="shared", dropouts=1)
    run.exchange()
    run.exchange()
    with pytest.raises(TooFewClients, match="the run cannot go on: 4 clients answered"):
        run.exchange(lost=[0, 1])


def test_no_single_vector_of_a_distributed_run_means_anything() -> None:
    """What one client sends for a sum is uniform: nothing of its rows, which all lie in one class, shows."""
    run = Federation(clients=4, rounds=1, trust="shared", n=4000)
    run.exchange()
    run.exchange()
    run.exchange()
    masked = run.received[0]["secure.masked"]
    assert masked.dtype == np.uint32
    top = np.bincount(masked >> 30, minlength=4) / masked.size
    assert np.abs(top - 0.25).max() < 0.2


def test_a_distributed_run_needs_company() -> None:
    for clients, options, message in (
        (1, {}, "privacy.trust=shared with 1 client would show its sums"),
        (3, {"dropouts": 1}, "3 clients cannot hide their vectors in a sum with 1 dropouts"),
    ):
        with pytest.raises(DPForestError, match=message):
            Federation(clients=clients, trust="shared", **options)


def test_what_a_masked_vector_that_does_not_fit_says_is_far_below_any_delta() -> None:
    """A client drops out where its noise exceeds the room that is left for it, and that shows."""
    run = Federation(trust="shared", budget=Budget(1.0, 1e-15), rounds=100)
    plan = plan_of(run.task)
    secure = secure_terms(run.task, plan)
    room = secure.terms.largest_value - secure.largest_sum
    share = max(plan.sums.share, plan.marginals.share)
    draws = run.task.clients * plan.trees * 2**14 * 4
    # Tails of a discrete Gaussian: at most 2 exp(-m^2 / (2 s^2)) (Canonne, Kamath, Steinke 2020).
    assert draws * 2 * math.exp(-(room**2) / (2 * share**2)) < 1e-6 * run.task.budget.delta


def test_too_few_records_for_a_tree_are_refused_whatever_epsilon() -> None:
    schema = Schema(SCHEMA.features, classes=SCHEMA.classes, rows=1)
    with pytest.raises(DPForestError, match="about 1 records of 1 clients are too few for a tree, whatever epsilon"):
        Federation(clients=1, schema=schema, depth="auto")


def test_noise_that_drowns_every_tree_is_refused_with_what_would_do() -> None:
    schema = Schema(SCHEMA.features, classes=SCHEMA.classes, rows=600)
    found = []
    for linear_share in (0, 0.5):
        options = {"schema": schema, "depth": "auto", "trees_per_round": 8, "linear_share": linear_share}
        with pytest.raises(DPForestError, match=r"privacy.epsilon=0.001 leaves no tree .* from (\S+) on") as refused:
            Federation(budget=Budget(0.001, 1e-6), **options)
        enough = float(str(refused.value).split("from ")[1].split(" on")[0])
        Federation(budget=Budget(enough * 1.1, 1e-6), **options)
        found.append(enough)
    assert found[1] == pytest.approx(found[0], rel=0.15), "a linear part hardly asks for more"


@pytest.mark.parametrize(
    ("budget", "options", "message"),
    [
        (Budget(1.0), {}, "needs a delta well below"),
        (Budget(1.0, 1e-2), {"schema": SCHEMA.with_rows(600)}, "delta 0.01 is not below 0.001, the most"),
        (Budget(1.0, 1e-6), {"pure": True}, "pure boosting needs no delta"),
        (Budget(1.0), {"pure": True, "trust": "shared"}, "pure noise cannot be shared"),
        (Budget(1.0, 1e-6), {"dropouts": 2}, "only matter for privacy.trust=shared"),
        (Budget(1.0, 1e-6), {"evaluate_every": -1}, "evaluate_every -1 must be a whole number from 0"),
    ],
)
def test_options_that_do_not_fit_are_refused(budget: Budget, options: dict, message: str) -> None:
    with pytest.raises(DPForestError, match=message):
        Federation(budget=budget, **options)


def tampered(change):
    def tamper(client: int, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return change(arrays) if client == 2 else arrays

    return tamper


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: {"sums": np.full(a["sums"].shape, np.nan)}, "expected kind 'i'"),
        (lambda a: {"sums": a["sums"][:-1]}, "of shape"),
        (lambda a: {}, "no array 'sums'"),
        (lambda a: {"sums": np.full(a["sums"].shape, 2**62)}, "beyond 62 bits"),
        (
            lambda a: {"sums": a["sums"].astype(np.int64) * np.tile([1000, 1000, 1000, 0], len(a["sums"]) // 4)},
            "beyond what the counts",
        ),
    ],
    ids=["nan", "shape", "missing", "field", "clip"],
)
def test_unsound_sums_cost_their_sender_only(change, message: str) -> None:
    run = Federation()
    run.exchange()
    run.exchange(tamper=tampered(change))
    assert list(run.errors) == [2]
    assert message in run.errors[2]
    run.run()
    assert run.accuracy() > 0.6


HISTOGRAMS, LEAVES = marginal_shape(SCHEMA, 16), (2, 8, 4)


def added(
    number: int, *cells: Any, shape: tuple[int, ...] = HISTOGRAMS
) -> Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """A number added to some cells of the sums."""

    def change(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        sums = arrays["sums"].astype(np.int64)
        sums.reshape(shape)[cells] += number
        return {"sums": sums}

    return change


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (added(10**6, -1, 0), "must be of equally many"),
        (added(10**6, 0), "must be of equally many"),
        (added(-(10**6), slice(None), 1), "records, which no noise explains"),
        (added(10**14, slice(None), 1), "records; at most 1e\\+12 are believed"),
        (added(2**62, slice(None), 1), "beyond 62 bits"),
    ],
    ids=["a cell", "a row", "negative", "too many", "field"],
)
def test_histograms_that_no_records_have_cost_their_sender_only(change, message: str, pure: bool) -> None:
    run = Federation(budget=Budget(5.0, 0.0 if pure else 1e-6), pure=pure)
    run.exchange(tamper=tampered(change))
    assert list(run.errors) == [2]
    assert re.search(message, run.errors[2])
    run.run()
    assert run.accuracy() > 0.6


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (added(10**9, 0, 0, -1, shape=LEAVES), "the trees are of .* must be of equally many"),
        (added(-(10**9), slice(None), 0, -1, shape=LEAVES), "a leaf holds .* which no noise explains"),
        (added(10**15, slice(None), 0, -1, shape=LEAVES), "the trees are of .* at most 600000 are believed"),
    ],
    ids=["one tree", "negative", "too many"],
)
def test_counts_that_no_records_have_cost_their_sender_only(change, message: str, pure: bool) -> None:
    budget = Budget(5.0, 0.0 if pure else 1e-6)
    run = Federation(budget=budget, pure=pure, schema=SCHEMA.with_rows(600))
    run.exchange()
    run.exchange(tamper=tampered(change))
    assert list(run.errors) == [2]
    assert re.search(message, run.errors[2])
    run.run()
    assert run.accuracy() > 0.6


@pytest.mark.parametrize("n", [0, 1, 50_000])
@pytest.mark.parametrize("options", [{}, {"pure": True}, {"trust": "shared"}], ids=["local", "pure", "secure"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0])
def test_no_honest_client_is_refused(n: int, options: dict[str, Any], epsilon: float) -> None:
    budget = Budget(epsilon, 0.0 if "pure" in options else 1e-6)
    run = Federation(clients=3, rounds=2, budget=budget, schema=SCHEMA.with_rows(600), **options)
    run.rows[1] = table(1, n)
    while run.exchange_number < run.server.exchanges:
        run.exchange()
        assert not run.errors
    assert "rounds_given_up" not in run.server.report()


def test_a_histogram_of_ones_own_in_a_secure_sum_ends_the_run_in_words() -> None:
    run = Federation(clients=4, rounds=2, trust="shared")
    for _ in range(2):
        run.exchange()

    def add(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        masked = arrays["secure.masked"].copy()
        masked[0] += np.uint32(2**26)
        return {**arrays, "secure.masked": masked}

    run.exchange(tamper=tampered(add))
    with pytest.raises(TooFewClients, match=r"the histograms are of .* which one does not show, sent sums of its own"):
        run.exchange()


@pytest.mark.parametrize(
    "change",
    [lambda a: np.full(a.shape, np.nan), lambda a: a.astype(np.uint64) + 2**40, lambda a: a.astype(np.int64) - 2**40],
    ids=["nan", "field", "negative"],
)
def test_a_masked_vector_that_is_none_costs_its_sender_only(change) -> None:
    run = Federation(clients=5, rounds=2, trust="shared", dropouts=1)
    for _ in range(4):
        run.exchange()
    run.exchange(tamper=tampered(lambda a: {**a, "secure.masked": change(a["secure.masked"])}))
    assert list(run.errors) == [2]
    assert "secure.masked" in run.errors[2]
    run.run()
    assert run.server.report()["trees"] == 4, "both rounds: one client may be missing"


def test_a_masked_sum_far_outside_the_clip_is_given_up() -> None:
    run = Federation(clients=4, rounds=2, trust="shared")
    for _ in range(4):
        run.exchange()

    def add(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        masked = arrays["secure.masked"].copy()
        masked[0] += np.uint32(2**26)  # a gradient, without the records that it would take
        return {"secure.masked": masked}

    run.exchange(tamper=tampered(add))
    run.exchange()
    assert run.server.round_facts()["trees"] == 0
    run.run()
    assert run.server.report()["trees"] == 2


def sound_message(linear_share: float = 0.0) -> tuple[Federation, dict[str, np.ndarray]]:
    run = Federation(linear_share=linear_share)
    for _ in range(5 if linear_share else 3):
        run.exchange()
    run.exchange_number += 1
    run.server.known_rounds.pop(0)  # so that everything is sent
    return run, dict(run.server.arrays_for(run.exchange_number, 0))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("past.weights", lambda a: a * np.float16(np.nan), "holds NaN"),
        ("past.weights", lambda a: a + np.float16(3), "more than 2"),
        ("feature", lambda a: a + a.dtype.type(2), "does not exist"),
        ("split", lambda a: a + a.dtype.type(7), "does not exist"),
        ("feature", lambda a: a[:1], "expected kind 'u'"),
        ("feature", lambda a: a[:, :5], "'split' is"),
        ("past.first", lambda a: a - 1, "finished rounds from -1"),
        ("start.cuts", lambda a: -a, "cuts must not fall"),
        ("start.clip", lambda a: a * 0, "must lie from"),
        ("start.clip", lambda a: a * 0 + 1e-310, "must lie from"),
        ("start.clip", lambda a: a * 0 + 1e300, "must lie from"),
        ("start.base", lambda a: a * 0 + 1e6, "first scores at most"),
        ("start.base", lambda a: a * np.inf, "holds NaN or infinity"),
        ("start.scale", lambda a: a * 0, "scales from 1e-35"),
        ("start.scale", lambda a: -a, "scales from 1e-35"),
        ("start.centre", lambda a: a + np.float32(1e37), "centres at most 1e[+]36"),
        ("start.centre", lambda a: a * np.float32(np.nan), "holds NaN or infinity"),
        ("start.centre", lambda a: a[:1], "expected kind 'f'"),
        ("past.coefficients", lambda a: a + np.float16(3), "a coefficient changes by more than 2"),
        ("past.coefficients", lambda a: a[:, :2], "expected kind 'f'"),
    ],
)
def test_a_client_refuses_a_message_that_is_not_sound(name: str, change, message: str) -> None:
    run, arrays = sound_message(linear_share=0.4)
    read_round(arrays, SCHEMA, run.server.plan)
    arrays[name] = change(arrays[name])
    before = run.ledgers[0].entries
    with pytest.raises(BadMessage, match=message):
        run.reply(0, arrays, {"step": "trees"})
    assert run.ledgers[0].entries == before, "nothing was paid, as nothing was sent"


@pytest.mark.parametrize("linear_share", [0, 0.4])
def test_a_client_refuses_a_step_that_the_run_does_not_have(linear_share: float) -> None:
    run, arrays = sound_message(linear_share)
    before = run.ledgers[0].entries
    for step in ("moments", "weights", None):
        if step == "moments" and linear_share:
            continue
        with pytest.raises(BadMessage, match=f"asks for {step!r}, which this run does not have"):
            run.reply(0, arrays, {"step": step} if step else {})
    assert run.ledgers[0].entries == before


def test_no_server_gets_more_moments_than_were_planned() -> None:
    run, arrays = sound_message(linear_share=0.4)
    arrays = {"start.centre": arrays["start.centre"], "start.scale": arrays["start.scale"]}

    def ask_on_and_on() -> None:
        for _ in range(1000):
            run.reply(0, arrays, {"step": "moments"})

    with pytest.raises(BudgetExceeded):
        ask_on_and_on()
    assert run.ledgers[0].guarantee().epsilon <= 5 * (1 + 1e-6)


@pytest.mark.parametrize(("centre", "scale"), [(0.5, 1e-35), (1e36, 1.0), (-1e36, 1e-35), (0.5, 1e36), (0.5, 0.25)])
@pytest.mark.parametrize("clip", [1e-9, 0.5, 1e9])
def test_no_units_that_a_server_chooses_uncover_a_record(centre: float, scale: float, clip: float) -> None:
    """Without noise: one record more changes moments, and all sums of a round, by no more than the noise is for."""
    run, arrays = sound_message(linear_share=0.4)
    plan, free = plan_of(run.task), plan_of(replace(run.task, budget=FREE))
    arrays["start.centre"][:], arrays["start.scale"][:], arrays["start.clip"][:] = centre, scale, clip
    asked = read_round(arrays, SCHEMA, plan)
    X, _ = table(0, 20)
    sums, moments = [], []
    for n in (19, 20):
        records = Records(X[:n], np.zeros(n, np.int64), SCHEMA, free, asked.start)
        sums.append(records.release(asked.structure, Ledger(FREE), Seeded(0)))
        moments.append(release_moments(X[:n], SCHEMA, free, asked.start.standard, Ledger(FREE), Seeded(0)))
    assert (free.unit, free.linear.unit, free.linear.moment_unit) == (
        plan.unit, plan.linear.unit, plan.linear.moment_unit)  # fmt: skip
    for (before, after), mechanism in ((sums, plan.sums), (moments, plan.linear.moments)):
        assert ((after - before).astype(np.float64) ** 2).sum() <= mechanism.squared_sensitivity


def test_moments_that_come_to_no_sum_are_done_without() -> None:
    run = Federation(clients=6, rounds=3, trust="shared", dropouts=1, linear_share=0.4)
    for _ in range(4):
        run.exchange()  # keys, and the histograms
    before = run.server.booster.standard
    run.exchange(lost=[0, 1])
    assert run.server.booster.standard is before
    run.run()
    assert run.server.report()["trees"] == 3 * 2 + 2, "all three rounds, and one tree a column"
    assert all(list(ledger.entries) == run.server.planned() for ledger in run.ledgers.values())
    assert run.accuracy() > 0.6


def test_a_client_that_was_never_started_says_so() -> None:
    run, arrays = sound_message()
    run.states[0].clear()
    for name in [name for name in arrays if name.startswith("start.")]:
        del arrays[name]
    with pytest.raises(BadMessage, match="a start is needed"):
        run.reply(0, arrays, {"step": "trees"})


def test_rounding_what_is_sent_changes_little() -> None:
    noised = np.array([-1000, -1, 0, 1, 700, 123456])
    sent = write_sums(noised, 64.0)["sums"]
    assert sent.dtype == np.int16
    assert np.abs(sent.astype(np.int64) * 8 - noised).max() <= 4


def test_the_finished_model_is_an_ordinary_forest(tmp_path) -> None:
    run = Federation(evaluate_every=2)
    ends = []
    while run.exchange_number < run.server.exchanges:
        run.exchange()
        ends.append(run.server.is_round_end(run.exchange_number))
    assert ends == [False, False, True, False, True]
    run.server.save(tmp_path)
    forest = load(tmp_path / "forest.json")
    X, _ = table(5, 100)
    assert np.allclose(forest.predict_proba(X), read_model(run.model, SCHEMA).predict_proba(X), atol=1e-6)
    report = run.server.report()
    assert report["trees"] == 8
    assert report["depth"] == 3
    assert sum(report["importances"].values()) == pytest.approx(1.0)
    assert "epsilon spent 5" in run.server.progress()


@pytest.mark.parametrize(
    ("kind", "golden"),
    [("local", "0ff6daa8aa925c45"), ("shared", "63af3393e0692f90"), ("linear", "24989d7c85995fae")],
)
def test_the_same_seed_gives_the_same_model(kind: str, golden: str) -> None:
    """Golden run: thresholds, leaves and noise of a small run, to four digits."""
    run = Federation(linear_share=0.4) if kind == "linear" else Federation(trust=kind)
    run.run()
    forest = read_model(run.model, SCHEMA)
    text = ",".join(f"{v:.4f}" for v in np.concatenate([forest.threshold, forest.value[forest.is_leaf].ravel()]))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == golden


def test_a_task_of_a_regression_boosts_targets() -> None:
    schema = Schema(SCHEMA.features, target_range=(0.0, 50.0))
    run = Federation(schema=schema, budget=Budget(20.0, 1e-6), n=3000)
    run.rows = {c: (X, 30.0 * (X[:, 0] > 0.5) + 5.0) for c, (X, _) in run.rows.items()}
    run.run()
    X, _ = table(50, 500)
    predicted = read_model(run.model, schema).predict(X)
    wanted = 30.0 * (X[:, 0] > 0.5) + 5.0
    assert 1 - ((predicted - wanted) ** 2).mean() / wanted.var() > 0.7
    assert isinstance(run.task, Task)


@pytest.mark.parametrize("clip", [1e-9, 1e-3, 1e9])
@pytest.mark.parametrize("first", [1e3, -1e3, 0.0])
def test_no_clip_that_a_server_chooses_uncovers_a_record(clip: float, first: float) -> None:
    """Without noise: one record more changes a tree's sums by no more than the noise is sized for."""
    run, arrays = sound_message()
    plan = plan_of(run.task)
    arrays["start.clip"] = np.array([clip])
    arrays["start.base"] = np.array([first, 0.0, 0.0])
    asked = read_round(arrays, SCHEMA, plan)
    free = plan_of(replace(run.task, budget=FREE))
    X, _ = table(0, 20)
    sums = [
        Records(X[:n], np.zeros(n, np.int64), SCHEMA, free, asked.start).release(
            asked.structure, Ledger(FREE), Seeded(0)
        )
        for n in (19, 20)
    ]
    change = (sums[1] - sums[0]).reshape(plan.trees_per_round, -1)
    assert free.unit == plan.unit
    assert ((change.astype(np.float64) ** 2).sum(axis=1) <= plan.sums.squared_sensitivity).all()
