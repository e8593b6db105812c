"""``python -m tests.benchmarks.report [RUNS]``: seconds and size of a report of many runs."""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from fl_app.report.page import REPORT, write_report

sys.path.append(str(Path(__file__).resolve().parents[1] / "helpers"))
from made_up_runs import write_sweep

METHODS = ("one_shot", "boost", "fext", "dp_sgd", "dp_fedavg", "fedavg", "centralized", "standalone", "lrf", "pp_fprf")
EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, float("inf"))


def main() -> None:
    """Print seconds, of the wall and of the processor, and megabytes."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    seeds = max(runs // (len(METHODS) * len(EPSILONS)), 1)
    with tempfile.TemporaryDirectory() as folder:
        sweep = write_sweep(
            Path(folder), METHODS, EPSILONS, seeds, clients=18, rounds=20, features=[f"feature {i}" for i in range(24)]
        )
        start, busy = time.perf_counter(), time.process_time()
        page = write_report([sweep])
        seconds, processor = time.perf_counter() - start, time.process_time() - busy
        size = page.stat().st_size / 1e6
        pictures = sum(1 for _ in sweep.rglob("*.svg"))
    print(f"{len(METHODS) * len(EPSILONS) * seeds} runs: {seconds:.1f} s ({processor:.1f} s of the processor)")
    print(f"{REPORT}: {size:.1f} MB with {pictures} figures, each also as SVG and PNG")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most")


if __name__ == "__main__":
    main()
