"""The privacy ledger: what was released, at what cost, and what it adds up to."""

from dpforest.guarantee import RECORD_UNIT, Guarantee
from dpforest.ledger.accounting import epsilon_of_gaussian, gaussian_mu, renyi_epsilon, total_epsilon
from dpforest.ledger.entries import ALL_ROWS, TEST_ROWS, Entry, not_covered, rows_slice, singles
from dpforest.ledger.ledger import Budget, Ledger, spendable_mu
from dpforest.ledger.numbers import ROUNDING, check_delta_for, json_number, rounded_up

__all__ = [
    "ALL_ROWS",
    "RECORD_UNIT",
    "ROUNDING",
    "TEST_ROWS",
    "Budget",
    "Entry",
    "Guarantee",
    "Ledger",
    "check_delta_for",
    "epsilon_of_gaussian",
    "gaussian_mu",
    "json_number",
    "not_covered",
    "renyi_epsilon",
    "rounded_up",
    "rows_slice",
    "singles",
    "spendable_mu",
    "total_epsilon",
]
