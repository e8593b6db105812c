"""``python -m tests.benchmarks.measure NAME``: a table of ``measured.yaml``, run over seeds, for pages that show it.

Writes ``docs/results/NAME.json``: every run with its metrics and guarantee, and with what it was measured: the last
commit that changed code, cores, Python, seeds, date. Then it fills the table in on each page that has the two comments
of its name, ``<!-- measured NAME -->`` and ``<!-- end of measured NAME -->``. Interrupted, it goes on where it was, and
runs no cell again whose options and commit are the same. ``--pages`` fills the pages in from the files that are there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from dpforest import __version__
from dpforest.errors import DPForestError
from fl_app.client_app import app
from fl_app.config.compose import compose_config, to_experiment
from fl_app.engine.in_process import in_process
from fl_app.engine.run import run_experiment
from fl_app.terminal.quiet import quiet_frameworks
from strategies.metrics import METRICS

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
_TRUSTED = {"local": "nobody", "shared": "that the server keeps to the protocol", "central": "the server"}


@dataclass(frozen=True)
class Table:
    """One entry of ``measured.yaml``.

    Parameters
    ----------
    title : str
    options : str
        Of all runs.
    lines, columns : mapping of str to str
        Heading to options.
    seeds : int
        Seeds 0, 1, ... of every cell.
    metric : str
        A name of `strategies.metrics`.
    """

    title: str
    options: str
    lines: Mapping[str, str]
    columns: Mapping[str, str]
    seeds: int
    metric: str

    def cells(self) -> Iterator[tuple[str, str, int]]:
        """Line, column and seed of every run, seed by seed."""
        for seed in range(self.seeds):
            for line in self.lines:
                for column in self.columns:
                    yield line, column, seed

    def overrides(self, line: str, column: str, seed: int) -> list[str]:
        """What ``dpforest run`` would be given."""
        return f"{self.options} {self.lines[line]} {self.columns[column]} seed={seed}".split()


def tables() -> dict[str, Table]:
    """All that can be measured, by name."""
    plain = yaml.safe_load(Path(__file__).with_name("measured.yaml").read_text(encoding="utf-8"))
    return {name: Table(**entry) for name, entry in plain.items()}


def measure(overrides: Sequence[str]) -> dict[str, Any]:
    """One run in this process: its metrics, and what it guarantees; or why the method refuses."""
    start = time.process_time()
    try:
        experiment = to_experiment(compose_config(overrides))
        clients = experiment.clients_for(experiment.partition.count(experiment.source))
        with in_process(app, clients) as grid:
            run = run_experiment(experiment, grid)
    except DPForestError as error:
        return {"refused": str(error)}
    metrics = {metric.name: round(run.metrics[metric.name], 6) for metric in METRICS if metric.name in run.metrics}
    privacy = {name: run.privacy[name] for name in ("guarantee", "holds", "unit_kind", "trust_kind", "delta")}
    has_budget = experiment.method.uses_budget
    return {"metrics": metrics, **privacy, "has_budget": has_budget, "seconds": round(time.process_time() - start, 1)}


def measured_with() -> dict[str, Any]:
    """The circumstances that a number depends on."""
    commit = _git("log", "-1", "--format=%h", "--abbrev=10", "--", *_CODE)
    return {
        "commit": commit + (" with changes" if _git("status", "--porcelain", "--", *_CODE) else ""),
        "dpforest": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "date": datetime.now(UTC).date().isoformat(),
    }


_CODE = ("dpforest", "strategies", "baselines", "fl_app", "conf")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def results_of(name: str, table: Table) -> Iterator[dict[str, Any]]:
    """The results file's content, run by run."""
    file = RESULTS / f"{name}.json"
    plain = {"name": name, "table": table.__dict__, "measured_with": measured_with(), "runs": []}
    if file.exists():
        found = json.loads(file.read_text(encoding="utf-8"))
        if found["measured_with"]["commit"] == _commit(plain):
            plain["runs"] = _still_asked(found, table)
    for line, column, seed in table.cells():
        if not _is_done(plain["runs"], line, column, seed):
            run = measure(table.overrides(line, column, seed))
            plain["runs"].append({"line": line, "column": column, "seed": seed, **run})
        yield plain


def _still_asked(found: Mapping[str, Any], table: Table) -> list[dict[str, Any]]:
    """Runs of an earlier file whose options are those of a cell of the table."""
    earlier = Table(**found["table"])
    cells = set(table.cells())
    runs = [(run, (run["line"], run["column"], run["seed"])) for run in found["runs"]]
    return [run for run, cell in runs if cell in cells and earlier.overrides(*cell) == table.overrides(*cell)]


def _is_done(runs: Sequence[Mapping[str, Any]], line: str, column: str, seed: int) -> bool:
    """Also where the method has no budget, so that its run of another column is the same."""
    of_seed = [run for run in runs if (run["line"], run["seed"]) == (line, seed)]
    return any(run["column"] == column or run.get("has_budget") is False for run in of_seed)


def _commit(plain: Mapping[str, Any]) -> str:
    return str(plain["measured_with"]["commit"])


def as_markdown(results: Mapping[str, Any]) -> str:
    """The table with its title, and below it what it was measured with."""
    table, with_what = Table(**results["table"]), results["measured_with"]
    of_line = {line: [run for run in results["runs"] if run["line"] == line] for line in table.lines}
    headings = ["", "protects", "trusts", "delta", *table.columns]
    rows = [headings, ["---"] * len(headings)]
    rows += [[line, *_protection(runs), *_cells(table, runs)] for line, runs in of_line.items()]
    seconds = sum(run.get("seconds", 0) for run in results["runs"])
    label = next(metric.label for metric in METRICS if metric.name == table.metric)
    return "\n".join(
        [
            f"{table.title}: {label}, mean [least to most] of {table.seeds} seeds.",
            "",
            *(f"| {' | '.join(row)} |" for row in rows),
            "",
            f"`python -m tests.benchmarks.measure {results['name']}`, {with_what['date']}, commit "
            f"{with_what['commit']}, dpforest {with_what['dpforest']}, Python {with_what['python']}, "
            f"{with_what['cores']} cores ({with_what['machine']}) at a load of {with_what['load']:g}; seeds 0 to "
            f"{table.seeds - 1}, {seconds:.0f} s of processor time.",
        ]
    )


def _protection(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    ran = [run for run in runs if "refused" not in run]
    if not ran:
        return ["", "", ""]
    if not all(run["holds"] for run in ran):
        return ["nothing", "all", ""]
    deltas = sorted({f"{run['delta']:g}" for run in ran})
    return [f"a {ran[0]['unit_kind']}", _TRUSTED[ran[0]["trust_kind"]], ", ".join(deltas)]


def _cells(table: Table, runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for column in table.columns:
        found = [run for run in runs if run["column"] == column]
        scores = [run["metrics"][table.metric] for run in found if "refused" not in run]
        if not scores:
            yield "refused" if found else "the same"
            continue
        yield f"{fmean(scores):.3f} [{min(scores):.3f} to {max(scores):.3f}]"


def fill_pages(pages: Sequence[Path] | None = None) -> list[Path]:
    """Put each measured table in its places; returns the pages that have changed.

    Raises
    ------
    SystemExit
        A page asks for a table that nobody has measured.
    """
    changed = []
    for page in pages if pages is not None else all_pages():
        text = page.read_text(encoding="utf-8")
        if (filled := filled_in(text)) != text:
            page.write_text(filled, encoding="utf-8")
            changed.append(page)
    return changed


def all_pages() -> list[Path]:
    """README and the pages of the site."""
    return [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)]


def filled_in(text: str) -> str:
    """A page's text with the tables of the results files in their places."""

    def table(match: re.Match[str]) -> str:
        file = RESULTS / f"{match[1]}.json"
        if not file.exists():
            raise SystemExit(f"no {file.name} in docs/results: run python -m tests.benchmarks.measure {match[1]}")
        written = as_markdown(json.loads(file.read_text(encoding="utf-8")))
        return f"<!-- measured {match[1]} -->\n\n{written}\n\n<!-- end of measured {match[1]} -->"

    return re.sub(r"<!-- measured (\w+) -->.*?<!-- end of measured \1 -->", table, text, flags=re.S)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure one table, and fill it in."""
    known = tables()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", choices=sorted(known), help="the table")
    parser.add_argument("--pages", action="store_true", help="fill in pages only")
    options = parser.parse_args(arguments)
    if options.name is None and not options.pages:
        parser.error(f"which table? There are {', '.join(sorted(known))}")
    quiet_frameworks()
    if not options.pages:
        RESULTS.mkdir(exist_ok=True)
        for results in results_of(options.name, known[options.name]):
            text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
            (RESULTS / f"{options.name}.json").write_text(text, encoding="utf-8")
        print(as_markdown(results))
    for page in fill_pages():
        print(f"filled in: {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
