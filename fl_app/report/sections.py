"""Runs that may be compared with each other: those on the same rows with the same target and the same evaluation."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpforest.errors import DPForestError
from dpforest.guarantee import RECORD_UNIT, TrustModel
from dpforest.ledger import rounded_up
from fl_app.results.finished import OPEN, UNPROVEN, FinishedRun, read_config
from fl_app.results.rows import distinct_by_method, setting_label
from fl_app.results.text import clients_in_words
from strategies.method import Scope
from strategies.metrics import Kind, Metric, client_metric, metrics_of, primary_metric
from strategies.registry import scope_of, style_of
from strategies.style import Style

# What does not change the question: folds and draws are pooled, and the split stands in the title. A public share is a
# random part of the test rows; a note says whose scores are without it.
_POOLED = ("seed", "fold", "split", "public_share")
# What only a family's sections differ in: its figures have them on an axis or as lines.
_JOINED = ("partition.clients", "strategy.attack", "strategy.attack_share")
# Who adds the noise, where that makes a panel.
_NOISE = {
    TrustModel.LOCAL: "each client adding all noise",
    TrustModel.SHARED: "noise shared under secure aggregation",
    TrustModel.CENTRAL: "a trusted server adding the noise",
}
_TRUSTS = list(TrustModel)


@dataclass(frozen=True, eq=False)
class Section:
    """Runs on the same rows with the same target and the same evaluation: only these are compared.

    Parameters
    ----------
    title : str
    slug : str
        The title as a file name that no other section has.
    family : str
        The title without what its family's sections differ in.
    metric : Metric
        By which methods are compared.
    runs : list of FinishedRun
        Each with its ``setting``.
    styles : mapping of str to Style
        The style of each setting: a method's settings share its colour.
    absent : list of (str, float)
        Settings and epsilons of which every run failed.
    """

    title: str
    slug: str
    family: str
    metric: Metric
    runs: list[FinishedRun]
    styles: Mapping[str, Style]
    absent: list[tuple[str, float]]

    @property
    def dataset(self) -> str:
        """Name of the data set."""
        return self.runs[0].dataset

    @property
    def split(self) -> str:
        """How rows were held out."""
        return self.runs[0].split

    @property
    def client_metric(self) -> Metric:
        """By which clients are compared."""
        return client_metric(self.metric)

    @property
    def has_scores(self) -> bool:
        """Whether any run has test metrics."""
        return self.metric.name in self.frame

    @cached_property
    def note(self) -> str:
        """Which methods are evaluated on other rows, which runs ended early, and which have no score."""
        early = [
            f"{_named(run)}, ended early, {run.metrics['ended_early']}."
            for run in self.runs
            if "ended_early" in run.metrics
        ]
        without = [
            f"{_named(run)}, has no {self.metric.label} and is not in the means."
            for run in self.runs
            if self.has_scores and pd.isna(run.metrics.get(self.metric.name))
        ]
        return " ".join(self.on_other_rows + early + self.incomplete + without)

    @property
    def on_other_rows(self) -> list[str]:
        """Which methods are evaluated on a part of the test rows, where others are on all: a sentence each."""
        shares = {run.setting: float(run.config["evaluation"].get("public_share", 0)) for run in self.runs}
        return [
            f"{setting} is evaluated on a random {1 - share:.0%} of the test rows: the others are public to its server."
            for setting, share in sorted(shares.items())
            if share and len(set(shares.values())) > 1
        ]

    @property
    def incomplete(self) -> list[str]:
        """Which runs went on without some of their clients, and why: a sentence each."""
        return [f"{_named(run)}: {clients_in_words(run.metrics)}." for run in self.runs if run.metrics.get("left_out")]

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The runs' lines of ``results.csv``, with their ``setting``, ``state``, ``draw``, ``panel`` and ``per``.

        ``per`` is the unit's name.
        """
        return pd.DataFrame(
            run.row
            | {"setting": run.setting, "state": run.state, "draw": run.draw, "per": run.guarantee.unit.name}
            | {"panel": self._panel(run)}
            for run in self.runs
        )

    @cached_property
    def splits_trust(self) -> bool:
        """Whether the trust model makes a panel too: where private runs differ in it and in the unit, both known.

        Who is alone has nobody to trust, and makes none.
        """
        private = [run for run in self.runs if run.state != OPEN]
        guarantees = [run.guarantee for run in private if scope_of(run.method) is not Scope.ALONE]
        units, trusts = ({getattr(each, part).kind for each in guarantees} for part in ("unit", "trust"))
        return min(len(units), len(trusts)) > 1 and None not in units | trusts

    @cached_property
    def panels(self) -> list[str]:
        """What runs with a budget are compared under, each with its own panel and answer.

        Records are first, and whom one has to trust least.
        """
        budgeted = [run for run in self.runs if run.state != OPEN]
        return list(dict.fromkeys(map(self._panel, sorted(budgeted, key=_place))))

    def _panel(self, run: FinishedRun) -> str:
        kind = run.guarantee.trust.kind
        return f"{run.guarantee.unit.name}{f', {_NOISE[kind]}' if self.splits_trust and kind else ''}"

    def name(self, run: FinishedRun) -> str:
        """A run's setting without what its panel says."""
        said = {f"{part}={run.row[f'privacy.{part}']}" for part in ("unit", "trust") if self.splits_trust}
        return " ".join(word for word in run.setting.split(" ") if word not in said)

    @cached_property
    def panel_styles(self) -> dict[str, Style]:
        """The style of each `name`: in all panels the same."""
        if not self.splits_trust:
            return dict(self.styles)
        return _styles([replace(run, setting=self.name(run)) for run in self.runs], with_trust=False)

    @property
    def second_metric(self) -> Metric | None:
        """By which methods are compared too: balanced accuracy, where there are classes."""
        others = [each for each in metrics_of(self.metric.kind) if each.against_epsilon and not each.is_primary]
        known = [each for each in others if self.metric.kind is Kind.CLASSES and each.name in self.frame]
        return known[0] if known else None

    @property
    def guess(self) -> str:
        """What is predicted where nothing is learned."""
        return "the mean" if self.metric.kind is Kind.TARGET else "the most frequent class"

    @cached_property
    def most_frequent(self) -> dict[str, float]:
        """What always predicting `guess` of the test rows reaches, by metric."""
        if self.metric.kind is Kind.TARGET:
            known = [run.metrics for run in self.runs if run.metrics.get("r2", 1) < 1 and "mse" in run.metrics]
            squares = [metrics["mse"] / (1 - metrics["r2"]) for metrics in known]
            return {"r2": 0.0, "mse": float(np.mean(squares))} if squares else {}
        counts = [np.sum(run.metrics["confusion"], axis=1) for run in self.runs if "confusion" in run.metrics]
        shares = [each / each.sum() for each in counts if each.sum()]
        if not shares:
            return {}
        return {
            "accuracy": float(np.mean([each.max() for each in shares])),
            "balanced_accuracy": float(np.mean([1 / np.count_nonzero(each) for each in shares])),
        }

    @cached_property
    def clients(self) -> pd.DataFrame:
        """One line a run and client, with ``number`` of the run in ``runs``, ``assignment``, ``client`` and metrics.

        ``test_rows`` is their number.
        """
        runs = enumerate(self.runs)
        return pd.concat(
            [run.clients.assign(number=number, assignment=run.assignment) for number, run in runs], ignore_index=True
        )

    @property
    def labels(self) -> dict[str, str]:
        """Each setting as figures and tables name it that have all of them.

        With its unit where that is not the same for all, and whether it has no valid guarantee.
        """
        budgeted = self.frame[self.frame["state"] != OPEN]
        several = budgeted["per"].nunique() > 1
        labels = {run.setting: run.setting for run in self.runs}
        for setting, runs in budgeted.groupby("setting"):
            words = [f"per {runs['per'].iloc[0]}"] if several else []
            words += ["no valid guarantee"] if UNPROVEN in set(runs["state"]) else []
            labels[str(setting)] += f" ({'; '.join(words)})" if words else ""
        return labels

    @property
    def by_epsilon(self) -> dict[str, pd.DataFrame]:
        """The frame by epsilon as it is printed; what protects nothing comes once, as `OPEN`."""
        is_open = self.frame["state"] == OPEN
        found = {rounded_up(epsilon): runs for epsilon, runs in self.frame[~is_open].groupby("epsilon")}
        return found | ({OPEN: self.frame[is_open]} if is_open.any() else {})

    def among(self, wanted: Callable[[FinishedRun], bool]) -> Section:
        """The section with some of its runs."""
        return replace(self, runs=[run for run in self.runs if wanted(run)])


@dataclass(frozen=True, eq=False)
class Family:
    """Sections that differ only in their number of clients or in their bad clients: figures may join, never average."""

    title: str
    metric: Metric
    runs: list[FinishedRun]


def file_name(*words: str) -> str:
    """Words as one name for a file, without what file systems and shells dislike."""
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", "-".join(words)).strip("-")[:120]


def nearest_to_one(epsilons: Sequence[float]) -> float | None:
    """The finite epsilon nearest to 1 on a logarithmic scale; None without one."""
    finite = [epsilon for epsilon in epsilons if math.isfinite(epsilon)]
    return min(finite, key=lambda epsilon: abs(math.log(epsilon)), default=None)


def sections(runs: Sequence[FinishedRun], failed: Sequence[Path] = ()) -> list[Section]:
    """Sort runs into sections. Folders of failed runs say what a section lacks."""
    attempts = _failed_attempts(failed)
    groups: dict[str, tuple[dict[str, str], list[FinishedRun]]] = {}
    for run in runs:
        facts = _question(run.config) | {"target": json.dumps(target_of(run))}
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
        named = [replace(run, setting=label) for run, label in zip(members, _labels(members), strict=True)]
        metric = primary_metric({name for run in named for name in run.metrics})
        found.append(Section(title, slug, family, metric, named, _styles(named), _absent(attempts, facts, named)))
    return found


def families(found: Sequence[Section]) -> list[Family]:
    """Sections that figures may join."""
    members: dict[str, list[Section]] = {}
    for section in found:
        members.setdefault(section.family, []).append(section)
    return [
        Family(title, several[0].metric, [run for section in several for run in section.runs])
        for title, several in members.items()
        if len(several) > 1
    ]


def target_of(run: FinishedRun) -> Any:
    """What was predicted, as far as the metrics say."""
    metric = primary_metric(run.metrics)
    if metric.name not in run.metrics:
        return "not evaluated"
    return "a number" if metric.kind is Kind.TARGET else run.metrics.get("classes") or "classes"


def _question(config: Mapping[str, Any]) -> dict[str, str]:
    """What a run was to find out, as far as its configuration says; equal where two scores are of the same thing."""
    facts = {f"dataset.{key}": value for key, value in config["dataset"].items() if key not in ("name", "path")}
    if config["dataset"]["name"] == "table":  # a path says which table it is; elsewhere only where a data set lies
        facts["dataset.path"] = config["dataset"].get("path")
    facts["evaluation.metrics"] = "clear"  # of runs before there was a choice
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
    attempts: Sequence[_Attempt], facts: dict[str, str], runs: Sequence[FinishedRun]
) -> list[tuple[str, float]]:
    """Settings and epsilons that were tried in a section in vain."""
    found: set[tuple[str, float]] = set()
    for attempt in attempts:
        if not attempt.question.items() <= facts.items():
            continue
        # What only another version of the project can set tells nothing apart.
        same = [r for r in runs if all(r.row[key] == own for key, own in attempt.setting.items() if key in r.row)]
        if not any(run.asked_epsilon == attempt.epsilon or _ignores_epsilon(run) for run in same):
            found.add((same[0].setting if same else _name(attempt, runs), attempt.epsilon))
    return sorted(found)


def _ignores_epsilon(run: FinishedRun) -> bool:
    """Whether epsilon means nothing to a run's method: its ledgers have no budget though one was asked for."""
    return math.isinf(run.epsilon) and math.isfinite(run.asked_epsilon)


def _name(attempt: _Attempt, runs: Sequence[FinishedRun]) -> str:
    """The method, and what tells a setting without any run from the method's others."""
    method = attempt.setting["strategy"]
    rivals = [run.row for run in runs if run.method == method]
    distinct = [key for key, own in attempt.setting.items() if any(rival.get(key, own) != own for rival in rivals)]
    return setting_label(attempt.setting, {method: distinct})


def _labels(runs: Sequence[FinishedRun]) -> list[str]:
    """Each run's method and what tells it apart; its delta too where one epsilon would stand for several guarantees."""
    distinct = distinct_by_method([run.row for run in runs])
    labels = [setting_label(run.row, distinct) for run in runs]
    deltas: dict[tuple[str, float], set[float]] = {}
    for run, label in zip(runs, labels, strict=True):
        deltas.setdefault((label, run.epsilon), set()).add(run.budget.delta)
    several = {label for (label, epsilon), found in deltas.items() if math.isfinite(epsilon) and len(found) > 1}
    return [
        f"{label} delta={rounded_up(run.budget.delta)}" if label in several and math.isfinite(run.epsilon) else label
        for run, label in zip(runs, labels, strict=True)
    ]


def _place(run: FinishedRun) -> tuple[bool, str, int]:
    """The order of panels."""
    unit, kind = run.guarantee.unit, run.guarantee.trust.kind
    return unit.name != RECORD_UNIT.name, unit.name, _TRUSTS.index(kind) if kind else len(_TRUSTS)


def _styles(runs: Sequence[FinishedRun], with_trust: bool = True) -> dict[str, Style]:
    styles: dict[str, Style] = {}
    used: dict[Style, int] = {}
    for run in sorted(runs, key=lambda run: run.setting):
        if run.setting not in styles:
            trust = {"trust": run.guarantee.trust.kind} if with_trust else {}
            own = style_of(run.method, {**run.config["strategy"], **trust})
            styles[run.setting] = own.variant(used.get(own, 0))
            used[own] = used.get(own, 0) + 1
    return styles


def _named(run: FinishedRun) -> str:
    return f"{run.setting} at epsilon {rounded_up(run.epsilon)}, seed {run.seed}"


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
