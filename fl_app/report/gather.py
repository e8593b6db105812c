"""Reading run folders for a report: what finished, what failed, what is cut, and which runs may stand side by side."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from dpforest.errors import DPForestError
from dpforest.ledger import rounded_up
from fl_app.figures.base import METRICS, file_name, setting_label, short_unit
from fl_app.results import draw_of, result_row, telling_of_methods
from fl_app.run_folder import PARTIAL, failure_of, find_cut, find_failed, find_runs, read_config, read_run

# What makes no other question: folds and draws are pooled, and the split stands in the title. A public share is a
# random part of the test rows; a note says who is judged without it.
_POOLED = ("seed", "fold", "split", "public_share")
# What only a family's sections differ in: its figures have them on an axis or as lines.
_JOINED = ("partition.clients", "strategy.attack", "strategy.attack_share")
PRIVATE, UNPROVEN, OPEN = "holds", "none", "no privacy"


@dataclass(frozen=True)
class Trouble:
    """A run that is not in the report, and why."""

    folder: Path
    what: str
    reason: str

    def __str__(self) -> str:
        return f"left out: {self.folder}: {self.what}: {self.reason}"


@dataclass(frozen=True)
class Section:
    """Runs on the same rows with the same target and the same evaluation: only these are compared.

    ``slug`` is the title as a file name that no other section has, ``family`` the title without what its family's
    sections differ in. ``rows`` are `fl_app.results.result_row` of ``runs``, with ``section`` (the title), ``slug``,
    ``setting`` (method and what tells it apart), ``state`` (`PRIVATE`, `UNPROVEN`, `OPEN`), ``pair`` (seed, fold and
    other draws), ``deal`` (under another one, a client of the same number has other rows), ``per`` (the privacy unit in
    short) and ``asked_epsilon`` (that of the configuration) added. ``absent`` are settings and epsilons of which every
    run failed.
    """

    title: str
    slug: str
    family: str
    metric: str
    runs: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    absent: list[tuple[str, float]]

    @cached_property
    def note(self) -> str:
        """Which methods are judged without a public part of the test rows, where they are not all; which runs ended
        early, and which have no score.
        """
        pairs = list(zip(self.runs, self.rows, strict=True))
        shares = {row["setting"]: float(run["config"]["evaluation"].get("public_share", 0)) for run, row in pairs}
        judged = [
            f"{setting} is judged by a random {1 - share:.0%} of the test rows: the others are public to its server."
            for setting, share in sorted(shares.items())
            if share and len(set(shares.values())) > 1
        ]
        early = [
            f"{row['setting']} at epsilon {rounded_up(row['epsilon'])}, seed {row['seed']}, ended early, "
            f"{run['metrics']['ended_early']}."
            for run, row in pairs
            if "ended_early" in run["metrics"]
        ]
        without = [
            f"{row['setting']} at epsilon {rounded_up(row['epsilon'])}, seed {row['seed']}, has no "
            f"{METRICS[self.metric]} and is not in the means."
            for row in self.rows
            if self.metric in self.frame and pd.isna(row.get(self.metric))
        ]
        return " ".join(judged + early + without)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The rows as a table."""
        return pd.DataFrame(self.rows)

    @cached_property
    def clients(self) -> pd.DataFrame:
        """One line a run and client: ``number`` of the run in ``rows``, its ``deal``, ``client``, ``test_rows`` and its
        metrics.
        """
        pairs = enumerate(zip(self.runs, self.rows, strict=True))
        tables = [run["clients"].assign(number=number, deal=row["deal"]) for number, (run, row) in pairs]
        return pd.concat(tables, ignore_index=True)


@dataclass(frozen=True)
class Family:
    """Sections that differ only in their number of clients or in their bad clients: figures may join, never average."""

    title: str
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class Gathered:
    """All that was found below the folders of a report."""

    sections: list[Section]
    troubles: list[Trouble] = field(default_factory=list)
    twice: int = 0

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of all sections."""
        return [row for section in self.sections for row in section.rows]

    @property
    def families(self) -> list[Family]:
        """Sections that figures may join."""
        titles = dict.fromkeys(section.family for section in self.sections)
        members = {title: [section for section in self.sections if section.family == title] for title in titles}
        return [
            Family(title, [row for section in several for row in section.rows])
            for title, several in members.items()
            if len(several) > 1
        ]


def gather(folders: Sequence[Path]) -> Gathered:
    """Read all runs at or below the folders and sort them into sections.

    Raises
    ------
    DPForestError
        A folder does not exist, or none of them holds a run.
    """
    for folder in folders:
        if not folder.is_dir():
            raise DPForestError(f"no folder {folder}: give run folders, sweep folders, or folders of them")
    failed = find_failed(folders)
    troubles = [Trouble(folder, "failed", failure_of(folder)) for folder in failed]
    troubles += [
        Trouble(partial, "not finished", "it is still being written, or was cut off")
        for partial in sorted({path for folder in folders for path in folder.rglob(f"{PARTIAL}*") if path.is_dir()})
    ]
    troubles += [Trouble(folder, "damaged", "metrics.json is missing") for folder in find_cut(folders)]
    runs: dict[str, dict[str, Any]] = {}
    read = 0
    for folder in find_runs(folders):
        try:
            run = _read(folder)
        except (DPForestError, AttributeError, KeyError, OSError, TypeError, ValueError) as error:
            troubles.append(Trouble(folder, "damaged", " ".join(f"{type(error).__name__}: {error}".split())))
            continue
        read += 1
        what = {key: value for key, value in run["config"].items() if key != "overrides"}
        runs[json.dumps([what, _target(run["metrics"])], sort_keys=True)] = run
    if not runs and not troubles:
        raise DPForestError(f"no run in {', '.join(map(str, folders))}: give folders that a run or a sweep wrote")
    return Gathered(sections(list(runs.values()), failed), troubles, read - len(runs))


def _read(folder: Path) -> dict[str, Any]:
    run = read_run(folder)
    run["row"] = row_of(run)
    return run


def row_of(run: dict[str, Any]) -> dict[str, Any]:
    """A run's flat row with what does not depend on other runs: see `Section`."""
    row, draw = result_row(run), draw_of(run["config"])
    asked = float(run["config"]["privacy"]["epsilon"])
    added = {"state": _state(row), "per": short_unit(row["unit"]), "pair": draw, "asked_epsilon": asked}
    # A subject is the same client whatever the seed; all other kinds deal rows out by it.
    return row | added | {"deal": "" if row["partition"] == "subject" else str(draw[-1])}


def _target(metrics: dict[str, Any]) -> Any:
    """What was predicted, as far as the metrics tell."""
    if "accuracy" in metrics:
        return metrics.get("classes") or "classes"
    return "a number" if "mse" in metrics else "not judged"


def _state(row: dict[str, Any]) -> str:
    """What a run guarantees. A budget that is finite was spent on noise, also where no guarantee comes of it."""
    if math.isinf(row["epsilon"]):
        return OPEN
    return UNPROVEN if row["guarantee"].startswith("guarantee: none") else PRIVATE


def _identity(run: dict[str, Any]) -> dict[str, str]:
    """What must be equal for two scores to be of the same thing."""
    return _question(run["config"]) | {"target": json.dumps(_target(run["metrics"]))}


def _question(config: dict[str, Any]) -> dict[str, str]:
    """What a run was to find out, as far as its configuration tells."""
    facts = {f"dataset.{key}": value for key, value in config["dataset"].items() if key not in ("name", "path")}
    if config["dataset"]["name"] == "table":  # a path says which table it is; elsewhere only where a data set lies
        facts["dataset.path"] = config["dataset"].get("path")
    for part in ("partition", "evaluation"):
        facts |= {f"{part}.{key}": value for key, value in config[part].items() if key not in _POOLED}
    # Bad clients are what happens to a method, not a setting that one may choose.
    bad = config["strategy"].get("attack_share") or 0
    facts = dict(sorted(facts.items())) | {
        "strategy.attack_share": bad,
        "strategy.attack": config["strategy"].get("attack") if bad else "none",
    }
    return {
        "dataset": str(config["dataset"]["name"]),
        "split": str(config["evaluation"]["split"]),
        **{key: json.dumps(value) for key, value in facts.items()},
    }


def sections(runs: Sequence[dict[str, Any]], failed: Sequence[Path] = ()) -> list[Section]:
    """Sort runs into sections; each run has its `row_of` as ``row``, which is completed. Folders of failed runs tell
    what a section lacks.
    """
    attempts = _failed_attempts(failed)
    groups: dict[str, tuple[dict[str, str], list[dict[str, Any]]]] = {}
    for run in runs:
        facts = _identity(run)
        groups.setdefault(json.dumps(facts), (facts, []))[1].append(run)
    found: list[Section] = []
    for facts, members in sorted(groups.values(), key=lambda group: [_in_order(text) for text in group[0].values()]):
        rivals = [f for f, _ in groups.values() if (f["dataset"], f["split"]) == (facts["dataset"], facts["split"])]
        differing = [key for key in facts if any(other.get(key) != facts[key] for other in rivals)]
        family = _title(facts, [key for key in differing if key not in _JOINED])
        # The names of all classes make a long title: they stand in it only where nothing else tells sections apart.
        shorter = [key for key in differing if key != "target"]
        if sum(all(other.get(key) == facts[key] for key in shorter) for other in rivals) == 1:
            differing = shorter
        title = _title(facts, differing)
        slug = file_name(title)
        if any(section.slug == slug for section in found):
            slug = f"{slug}-{len(found)}"
        rows = [run["row"] for run in members]
        for row, label in zip(rows, _labels(rows), strict=True):
            row |= {"setting": label, "section": title, "slug": slug}
        metric = "accuracy" if any("accuracy" in row for row in rows) else "r2"
        absent = _absent(attempts, facts, rows)
        found.append(Section(title, slug, family, metric, list(members), rows, absent))
    return found


@dataclass(frozen=True)
class _Attempt:
    """What a failed run was to find out, the columns of a row that are its method's setting, and its epsilon."""

    question: dict[str, str]
    setting: dict[str, Any]
    epsilon: float


def _failed_attempts(folders: Sequence[Path]) -> list[_Attempt]:
    """What failed runs were; without those that failed before they had a configuration, or have another version's."""
    attempts = []
    for folder in folders:
        with suppress(DPForestError, AttributeError, KeyError, TypeError, ValueError):
            config = read_config(folder)
            setting = {f"strategy.{key}": value for key, value in config["strategy"].items() if key != "name"}
            setting |= {"strategy": config["strategy"]["name"], "asked_rounds": config["rounds"]}
            attempts.append(_Attempt(_question(config), setting, float(config["privacy"]["epsilon"])))
    return attempts


def _absent(
    attempts: Sequence[_Attempt], facts: dict[str, str], rows: Sequence[dict[str, Any]]
) -> list[tuple[str, float]]:
    """Settings and epsilons that were tried in a section in vain."""
    found: set[tuple[str, float]] = set()
    for attempt in attempts:
        if not attempt.question.items() <= facts.items():
            continue
        # What only another version of the project can set tells nothing apart.
        same = [row for row in rows if all(row[key] == own for key, own in attempt.setting.items() if key in row)]
        if not any(row["asked_epsilon"] == attempt.epsilon or _pays_no_heed(row) for row in same):
            found.add((same[0]["setting"] if same else _name(attempt, rows), attempt.epsilon))
    return sorted(found)


def _pays_no_heed(row: dict[str, Any]) -> bool:
    """Whether epsilon means nothing to a run's method: its ledgers have no budget though one was asked for."""
    return math.isinf(row["epsilon"]) and math.isfinite(row["asked_epsilon"])


def _name(attempt: _Attempt, rows: Sequence[dict[str, Any]]) -> str:
    """The method, and what tells a setting without any run from the method's others."""
    method = attempt.setting["strategy"]
    rivals = [row for row in rows if row["strategy"] == method]
    telling = [key for key, own in attempt.setting.items() if any(rival.get(key, own) != own for rival in rivals)]
    return setting_label(attempt.setting, {method: telling})


def _labels(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Each row's method and what tells it apart; its delta too where one epsilon would stand for several guarantees."""
    telling = telling_of_methods(rows)
    labels = [setting_label(row, telling) for row in rows]
    deltas: dict[tuple[str, float], set[float]] = {}
    for row, label in zip(rows, labels, strict=True):
        deltas.setdefault((label, row["epsilon"]), set()).add(row["delta"])
    several = {label for (label, epsilon), found in deltas.items() if math.isfinite(epsilon) and len(found) > 1}
    return [
        f"{label} delta={rounded_up(row['delta'])}" if label in several and math.isfinite(row["epsilon"]) else label
        for row, label in zip(rows, labels, strict=True)
    ]


def _title(facts: dict[str, str], differing: Sequence[str]) -> str:
    words = [f"{key.rpartition('.')[2].replace('_', ' ')} = {_plain(facts[key])}" for key in differing]
    return ", ".join([facts["dataset"], f"{facts['split']} split", *words])


def _in_order(text: str) -> tuple[bool, float, str]:
    """Numbers by their size, before words."""
    try:
        return False, float(text), ""
    except ValueError:
        return True, 0.0, text


def _plain(value: str) -> str:
    loaded = json.loads(value)
    if isinstance(loaded, list):
        return ", ".join(map(str, loaded)) or "none"
    return str(loaded)
