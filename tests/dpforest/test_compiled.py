"""Compiled functions where nothing can be kept: a read-only container, or a disk that is full."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIT = """
import numpy as np
import dpforest, strategies.registry
from dpforest.growers import kernels
assert dpforest.__file__.startswith({package!r}), dpforest.__file__
X = np.random.default_rng(0).random((50, 2))
dpforest.PrivateForestClassifier(
    bounds=[(0, 1)] * 2, classes=[0, 1], rows=50, depth=1, trees=1, random_state=0
).fit(X, (X[:, 0] > 0.5).astype(int))
"""

COMPILE = """
import dpforest
assert dpforest.__file__.startswith({package!r}), dpforest.__file__
from dpforest.growers.own_value_kernels import leaf_values
import numpy as np
index = np.zeros(1, dtype=np.int64)
assert leaf_values(np.ones(1), 0, np.zeros(1, dtype=np.int32), np.full(1, -1, dtype=np.int32), index, index + 1) == 1
"""


@pytest.fixture
def read_only(tmp_path: Path) -> Path:
    """A copy of the packages in which nobody can keep a compiled file, not even root."""
    for package in ("dpforest", "strategies"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [tmp_path, *tmp_path.rglob("*")]:
        if folder.is_dir():
            (folder / "__pycache__").touch()
    return tmp_path


def run(code: str, package: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    dropped = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "IPYTHONDIR")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return subprocess.run(
        [sys.executable, "-c", code.format(package=str(package))],
        cwd=package,
        env=kept | {"PYTHONPATH": str(package), **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_neither_the_package_nor_the_home_can_be_written(read_only: Path) -> None:
    done = run(FIT, read_only, HOME="/proc/nonexistent")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_cache_that_cannot_be_written_costs_time_only(read_only: Path, tmp_path: Path) -> None:
    """Numba asks for room when it is imported, and may find none when it has compiled."""
    (tmp_path / "sitecustomize.py").write_text(
        "import errno, os\n"
        "from numba.core.caching import IndexDataCacheFile as File\n"
        "def full(*arguments):\n"
        "    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n"
        "File.save = File.load = full\n"
    )
    done = run(COMPILE, read_only, HOME=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
