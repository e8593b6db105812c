"""``python -m tests.fuzz --cases 1000000``: damaged inputs to all that reads the inputs of others."""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz.targets import TARGETS, run_target


def main() -> int:
    """Try the cases, evenly over the targets; exit code 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="in all")
    parser.add_argument("--target", choices=list(TARGETS), help="this one alone")
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first case; the same number, the same input"
    )
    options = parser.parse_args()
    targets = [options.target] if options.target else list(TARGETS)
    each = -(-options.cases // len(targets))
    failed = 0
    for name in targets:
        start = time.perf_counter()
        for failure in run_target(name, range(options.first, options.first + each)):
            print(failure, flush=True)
            failed += 1
        print(f"{name}: {each} cases, {time.perf_counter() - start:.1f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
