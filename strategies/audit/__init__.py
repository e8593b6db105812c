"""Audits of methods: a lower bound of epsilon, measured on what a client lets out.

The client's side of a method is repeated alone, without Flower, on the messages that a server would send it, with one
record and without it. `audit_method` does it all; `dpforest.audit` has the same for functions and estimators.
"""

from strategies.audit.method import MethodAudit, Release, audit_method
from strategies.audit.one_run import audit_method_in_one_run
from strategies.audit.subject import Subject

__all__ = ["MethodAudit", "Release", "Subject", "audit_method", "audit_method_in_one_run"]
