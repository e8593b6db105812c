"""Audits: a lower bound of epsilon, measured; a ledger proves an upper one.

`audit` takes any function of rows and noise, `audit_estimator` any estimator, `audit_one_run` one run with many
canaries; `CanaryScores` takes scores of one's own attack.
"""

from dpforest.audit.bounds import (
    CONFIDENCE,
    ErrorRates,
    ReleaseFamily,
    certain_loss,
    clopper_pearson,
    needed_repetitions,
    one_run_epsilon,
)
from dpforest.audit.functions import audit, audit_estimator, audit_one_run
from dpforest.audit.mutants import HalvedNoise
from dpforest.audit.result import AuditResult, Claim, Found
from dpforest.audit.scores import CanaryScores, Event

__all__ = [
    "CONFIDENCE",
    "AuditResult",
    "CanaryScores",
    "Claim",
    "ErrorRates",
    "Event",
    "Found",
    "HalvedNoise",
    "ReleaseFamily",
    "audit",
    "audit_estimator",
    "audit_one_run",
    "certain_loss",
    "clopper_pearson",
    "needed_repetitions",
    "one_run_epsilon",
]
