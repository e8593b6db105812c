"""One run with many canaries: what it can see, what it cannot, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from collecting import Collecting
from hand_made import SCHEMA, table_rows

from dpforest.audit import Claim
from dpforest.errors import DPForestError
from dpforest.guarantee import NO_SERVER, RECORD_UNIT
from dpforest.ledger import Budget
from dpforest.mechanisms import DiscreteLaplaceCounts
from dpforest.schema import Schema
from dpforest.settings import Settings
from strategies.audit import MethodAudit, Subject, audit_method_in_one_run
from strategies.audit.one_run import check_enough_canaries, matched
from strategies.method import ClientSide, ClientTask, Method, Protection, Released, Task, Update
from strategies.registry import get_method

CONFIDENCE = 0.95  # with fixed seeds
CELLS = 60


def subject(name: str, budget: Budget, rounds: int = 1, **settings: object) -> Subject:
    """A method on a table of two columns."""
    method = get_method(name)
    own = method.settings.from_mapping(settings, name)
    schema = Schema.from_dict(SCHEMA).with_rows(200)
    X, y = table_rows(40)
    rows = schema.check_matrix(X)[0], np.minimum(y, schema.n_outputs - 1)
    return Subject(name, Task(schema, own, budget, rounds, 3, 0, **method.protection(own).for_task()), [rows], rows)


class Counting(ClientSide[Any]):
    """Counts rows in small cells, under noise for epsilon 1."""

    def train(self, task: ClientTask[Any], X: np.ndarray, y: np.ndarray, arrays: Any) -> Update:
        places = np.floor(task.schema.grid_position(X) * CELLS).astype(np.int64).clip(0, CELLS - 1)
        counts = np.bincount(places[:, 0] * CELLS + places[:, 1], minlength=CELLS**2)
        mechanism = DiscreteLaplaceCounts(1.0)
        noised = mechanism.release(counts, mechanism.entry("counts"), task.ledger, task.noise("counts"))
        return Update(Released(task.ledger, {"counts": noised}))

    def predict(self, task: ClientTask[Any], X: np.ndarray, arrays: Any) -> np.ndarray:
        raise NotImplementedError


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Subject:
    method = Method("counting", Settings, Collecting, Counting, (Protection(RECORD_UNIT, NO_SERVER, True),))
    monkeypatch.setattr("strategies.audit.subject.get_method", lambda name: method)
    return replace(subject("one_shot", Budget(1.0)), name="counting")


def audited(of: Subject, canaries: int = 500) -> MethodAudit:
    return audit_method_in_one_run(of, canaries, confidence=CONFIDENCE)


def test_a_guarantee_holds_and_half_the_noise_is_caught(counting: Subject) -> None:
    found = audited(counting)
    assert found.claims
    assert not found.violated
    assert 0.3 < found.result.lower_bound <= found.result.claim.epsilon == 1.0
    assert found.has_power, str(found.result)
    assert "right of 100 guesses about 500 canaries of one run" in found.result.found.by


def test_too_small_a_scale_is_refuted(counting: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    scale = DiscreteLaplaceCounts.scale.fget
    monkeypatch.setattr(DiscreteLaplaceCounts, "scale", property(lambda self: scale(self) / 4))  # type: ignore[misc]
    assert audited(counting).violated


def test_scores_see_through_canaries_that_overlap() -> None:
    rng = np.random.default_rng(0)
    traces = np.eye(30)[rng.integers(30, size=60)] * 20
    coins = rng.random(60) < 0.5
    scores = matched(traces, traces[coins].sum(axis=0) + rng.normal(size=30))
    alone = (traces @ traces.T > 0).sum(axis=1) == 1
    assert 5 < alone.sum() < 55
    assert ((scores[alone] > 0) == coins[alone]).all()
    assert np.abs(scores[alone]).min() > np.abs(scores[~alone]).max() / 2
    assert (matched(np.zeros((3, 2)), np.ones(2)) == 0).all()


def test_sums_that_clients_share_the_noise_of_are_seen() -> None:
    own = subject("boost", Budget(1.0, 1e-6), rounds=2, depth=5, trees_per_round=1, bins=8, cuts=7)
    task = replace(own.task, **own.method.protection(own.task.settings, trust="shared").for_task())
    found = audited(replace(own, task=task), 50)
    assert not found.violated
    assert "by secure aggregation" in found.guarantee


def test_coins_decide_who_is_in_and_scores_follow_from_what_went_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guesses that know nothing are right half the time."""
    monkeypatch.setattr("strategies.audit.one_run.matched", lambda traces, seen: np.zeros(len(traces)))
    found = audited(subject("one_shot", Budget(1.0), depth=2, trees=1))
    assert found.result.lower_bound == 0.0
    assert not found.has_power


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (subject("fext", Budget(1.0), accounting="published", trees=1), "guarantees nothing to hold canaries against"),
        (subject("dp_fedavg", Budget(8.0, 1e-6)), "canaries are for privacy.unit=record"),
        (subject("central_dp_ebm", Budget(1.0, 1e-6)), "central_dp_ebm cannot be audited: clients entrust the server"),
    ],
)
def test_what_canaries_cannot_audit_is_refused(of: Subject, said: str) -> None:
    with pytest.raises(DPForestError, match=said):
        audited(of)


def test_too_few_canaries_say_how_many_are_enough() -> None:
    with pytest.raises(DPForestError, match=r"5 canaries are too few to refute epsilon 1 \(pure\).* --canaries \d+ or"):
        audited(subject("one_shot", Budget(1.0), depth=2, trees=1), 5)
    with pytest.raises(DPForestError, match="no number of them would be enough"):
        check_enough_canaries(10, Claim(20.0), CONFIDENCE)


def test_all_cores_find_the_same() -> None:
    of = replace(subject("one_shot", Budget(1.0), depth=3, trees=1), seed=3)
    alone, both = (audit_method_in_one_run(of, 60, jobs=jobs).result.found for jobs in (1, 2))
    assert alone == both
