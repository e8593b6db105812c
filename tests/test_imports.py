"""What loading a package loads with it: a node pays it for every message, a command at every start."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded_by(module: str) -> set[str]:
    """Names of all modules that a fresh process has after importing one."""
    code = f"import {module}, sys; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("module", "left_out"),
    [
        ("dpforest", {"flwr", "ray", "hydra", "omegaconf", "seglearn"}),
        ("dpforest.forest", {"flwr", "ray", "hydra", "omegaconf", "seglearn"}),
        ("dpforest.estimators", {"flwr", "ray", "hydra", "omegaconf", "seglearn"}),
        (
            "fl_app.client_app",
            {"ray", "hydra", "seglearn", "pandas", "sklearn", "numba", "scipy", "opendp", "dp_accounting", "matplotlib"}
            | {"tensorflow", "keras"},
        ),
    ],
)
def test_what_is_not_needed_is_not_loaded(module: str, left_out: set[str]) -> None:
    assert not left_out & loaded_by(module)
