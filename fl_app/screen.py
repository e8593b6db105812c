"""What a user sees while something runs."""

from __future__ import annotations

import logging
import sys

_OURS = ("fl_app", "strategies", "baselines", "dpforest")


def log_to_screen(level: int = logging.INFO) -> None:
    """Send the project's own messages to standard output, once."""
    for name in _OURS:
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.propagate = True
    root = logging.getLogger()
    if any(getattr(handler, "dpforest", False) for handler in root.handlers):
        return
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler.addFilter(lambda record: record.name.split(".")[0] in _OURS)
    handler.dpforest = True  # type: ignore[attr-defined]
    root.addHandler(handler)
