"""What every command keeps to, whatever it does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
RUN = ("fl_app",)
COMMANDS = {
    "run": (*RUN, "--help"),
    "configuration": (*RUN, "seed=1", "--cfg", "job", "strategy=fext"),
    "searched": (*RUN, "--info", "searchpath"),
    **{name: (f"fl_app.{name}", "--help") for name in ("compare", "report", "predict", "export")},
    **{name: (f"fl_app.data.{name}", "--help") for name in ("check", "schema", "download", "make_exercise")},
}


def start(command: tuple[str, ...], stdout: int, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", *command],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_configuration_is_printed_also_where_its_kind_stands_apart() -> None:
    child = start(COMMANDS["configuration"], subprocess.PIPE)
    out, err = child.communicate(timeout=300)
    assert (child.returncode, err) == (0, "")
    assert "seed: 1" in out
    assert "name: fext" in out


@pytest.mark.parametrize("buffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_nobody_reads_what_is_printed(buffered: str) -> None:
    """As after ``| head -1``."""
    reading, writing = os.pipe()
    os.close(reading)
    children = {name: start(command, writing, PYTHONUNBUFFERED=buffered) for name, command in COMMANDS.items()}
    os.close(writing)
    said = {name: child.communicate(timeout=300)[1] for name, child in children.items()}
    assert said == dict.fromkeys(COMMANDS, "")
