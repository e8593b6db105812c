"""What frameworks say about themselves stays off a user's screen."""

from __future__ import annotations

import logging
import os
import warnings


def quiet_frameworks() -> None:
    """Keep notices of Flower and Ray off the screen, in the processes that this one starts too; errors stay.

    TensorFlow's are held back where it is loaded, and those of Ray's start where that is started.
    """
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
    logging.getLogger("flwr").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=FutureWarning, module="ray")
