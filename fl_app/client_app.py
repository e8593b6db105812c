"""The client's door for Flower: on a SuperNode, and in simulations."""

from __future__ import annotations

import os

from fl_app.engine.node import ExperimentApp, ExperimentHost

# `flwr run` loads this before it starts Ray, which would otherwise join a cluster that is there, or wait without a word
# for one that is dead.
os.environ.setdefault("RAY_ADDRESS", "local")

app = ExperimentApp(ExperimentHost())
