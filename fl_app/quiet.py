"""What frameworks say about themselves stays off a user's screen."""

from __future__ import annotations

import logging
import os
import warnings

# What a user sets wins: who looks for a fault of TensorFlow's or Ray's wants to see it.
_QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_DEDUP_LOGS": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TF_CPP_MIN_LOG_LEVEL": "2",  # errors only; also ends oneDNN's note, without a change of its arithmetic
    "GRPC_VERBOSITY": "ERROR",
    "GLOG_minloglevel": "2",
}


def quiet_frameworks() -> None:
    """Keep notices of Flower, Ray and TensorFlow off the screen, in the processes that this one starts too."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    for name in ("flwr", "ray", "absl", "tensorflow"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=FutureWarning, module="ray")
