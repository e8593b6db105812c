"""``python -m tests``: style, types, layers, the site and tests, the same here as in CI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHECKS = (
    ("style", [sys.executable, "-m", "ruff", "check", "."]),
    ("format", [sys.executable, "-m", "ruff", "format", "--check", "."]),
    ("types", [sys.executable, "-m", "mypy"]),
    ("layers", ["lint-imports"]),
    ("site", [sys.executable, "-m", "docs", "-D", "plot_gallery=0"]),  # tests run the examples
    ("tests", [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", *sys.argv[1:]]),
)


def main() -> int:
    """Run all checks, also after one has failed; exit code 1 if any did."""
    root = Path(__file__).resolve().parent.parent
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment |= {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    failed = []
    for name, command in CHECKS:
        print(f"== {name}", flush=True)
        if subprocess.run(command, cwd=root, env=environment).returncode != 0:
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
