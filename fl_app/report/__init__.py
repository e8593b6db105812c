"""One page that answers the question: which method, at which epsilon, for my data."""

from __future__ import annotations

from fl_app.report.page import REPORT, write_report

__all__ = ["REPORT", "write_report"]
