"""The processes that draw a report's figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
WORKER = """
import os, time
from fl_app.terminal.interrupts import end_with_parent
end_with_parent(os.getppid())
print("watching", flush=True)
time.sleep(1200)
"""
PARENT = f"""
import os, subprocess, sys
worker = subprocess.Popen([sys.executable, "-c", {WORKER!r}], stdout=subprocess.PIPE, text=True)
print(worker.stdout.readline(), flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_worker_ends_with_a_process_that_was_killed() -> None:
    # Both hold the pipe of errors: this comes back only when both have ended.
    done = subprocess.run([sys.executable, "-c", PARENT], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.strip()) == (-9, "watching"), done.stderr
