"""One run with many canaries: what it can see, what it cannot, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hand_made import SCHEMA, table_rows

from dpforest.audit import Claim
from dpforest.errors import DPForestError
from dpforest.ledger import Budget
from dpforest.schema import Schema
from strategies.audit import MethodAudit, Subject, audit_method_in_one_run
from strategies.audit.one_run import check_enough_canaries
from strategies.method import Task
from strategies.registry import get_method

CONFIDENCE = 0.99


def subject(name: str, budget: Budget, rounds: int = 1, **settings: object) -> Subject:
    """A method on a table of two columns."""
    method = get_method(name)
    own = method.settings.from_mapping(settings, name)
    schema = Schema.from_dict(SCHEMA).with_rows(200)
    X, y = table_rows(40)
    rows = schema.check_matrix(X)[0], np.minimum(y, schema.n_outputs - 1)
    return Subject(name, Task(schema, own, budget, rounds, 3, 0, **method.protection(own).for_task()), [rows], rows)


def audited(of: Subject, canaries: int = 240) -> MethodAudit:
    return audit_method_in_one_run(of, canaries, confidence=CONFIDENCE)


def test_a_guarantee_holds_and_half_the_noise_is_caught() -> None:
    found = audited(subject("one_shot", Budget(2.0), depth=7, trees=1, leaf_share=0.9))
    assert found.claims
    assert not found.violated
    assert found.result.claim.epsilon == 2.0
    assert found.result.lower_bound > 0.5
    assert found.has_power, str(found.result)
    assert "right of 48 guesses about 240 canaries of one run" in found.result.found.by


def test_samples_and_sums_of_several_rounds_are_seen() -> None:
    found = audited(subject("boost", Budget(4.0, 1e-6), rounds=2, depth=5, trees_per_round=1, bins=8, cuts=7))
    assert not found.violated
    assert found.result.lower_bound > 0.1


def test_coins_decide_who_is_in_and_scores_follow_from_what_went_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guesses that know nothing are right half the time."""
    monkeypatch.setattr("strategies.audit.one_run._Game.scores", lambda self, run, jobs: np.zeros(len(self.coins)))
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
    alone, both = (audit_method_in_one_run(of, 40, jobs=jobs).result.found for jobs in (1, 2))
    assert alone == both
