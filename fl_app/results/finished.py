"""Finished runs, as their folders hold them."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from dpforest.errors import DPForestError, printable
from dpforest.guarantee import Guarantee
from dpforest.ledger import Budget
from dpforest.texts import check_plain, parse_json, parse_yaml
from fl_app.results.attack import ATTACK
from fl_app.results.shapes import check_attack, check_config, check_metrics, check_privacy, check_table
from fl_app.results.text import clients_in_words
from strategies.metrics import Kind, metrics_of

_MOST_COLUMNS = 5000
# What a run guarantees. A budget that is finite was spent on noise, also where no guarantee comes of it.
PRIVATE, UNPROVEN, OPEN = "holds", "none", "no privacy"
_FACTS = (
    "test_rows", "clients", "rounds", "bytes_down", "bytes_up", "bytes_of_rows", "public_rows", "seconds", "failures",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A finished run.

    Parameters
    ----------
    folder : Path
    config, metrics, privacy : mapping
        As in ``config.yaml``, ``metrics.json`` and ``privacy.json``.
    guarantee : Guarantee
        Of its worst-protected client.
    budget : Budget
        Of each client; infinite where the method has no use for epsilon.
    rounds, clients : DataFrame
        ``rounds.csv`` and ``clients.csv``.
    setting : str
        The method with what tells it apart among the runs that it is compared with.
    attack : mapping or None
        As in ``attack.json``, where the run was attacked.
    """

    folder: Path
    config: Mapping[str, Any]
    metrics: Mapping[str, Any]
    privacy: Mapping[str, Any]
    guarantee: Guarantee
    budget: Budget
    rounds: pd.DataFrame
    clients: pd.DataFrame
    setting: str = ""
    attack: Mapping[str, Any] | None = None

    @classmethod
    def of(
        cls,
        folder: Path,
        config: Mapping[str, Any],
        metrics: Mapping[str, Any],
        privacy: Mapping[str, Any],
        rounds: pd.DataFrame,
        clients: pd.DataFrame,
        attack: Mapping[str, Any] | None = None,
    ) -> FinishedRun:
        """The run that these files are of.

        Raises
        ------
        KeyError, TypeError, ValueError
            Something is missing in them.
        """
        # Every ledger of a run has the same budget.
        budget = next(iter(privacy["clients"].values()))["budget"]
        shared = Budget(float(budget["epsilon"]), float(budget["delta"]))
        run = cls(
            folder, config, metrics, privacy, Guarantee.from_dict(privacy), shared, rounds, clients, attack=attack
        )
        _ = run.row, run.asked_epsilon, run.draw  # what is missing is missed here
        return run

    @property
    def method(self) -> str:
        """Name of its method."""
        return str(self.config["strategy"]["name"])

    @property
    def dataset(self) -> str:
        """Name of its data set."""
        return str(self.config["dataset"]["name"])

    @property
    def split(self) -> str:
        """How rows were held out."""
        return str(self.config["evaluation"]["split"])

    @property
    def seed(self) -> int:
        """Seed of the simulation."""
        return int(self.config["seed"])

    @property
    def epsilon(self) -> float:
        """Epsilon of its budget."""
        return self.budget.epsilon

    @property
    def asked_epsilon(self) -> float:
        """Epsilon of its configuration, also where it means nothing to the method."""
        return float(self.config["privacy"]["epsilon"])

    @property
    def state(self) -> str:
        """What it guarantees: `PRIVATE`, `UNPROVEN` or `OPEN`."""
        if math.isinf(self.epsilon):
            return OPEN
        return PRIVATE if self.guarantee.holds else UNPROVEN

    @property
    def draw(self) -> tuple[Any, ...]:
        """What it drew at random: seed, fold, seeds of the split and the partition. Only equal draws are paired."""
        evaluation, partition = self.config["evaluation"], self.config["partition"]
        return self.config["seed"], evaluation["fold"], evaluation.get("seed"), partition.get("seed")

    @property
    def assignment(self) -> str:
        """How rows were given to clients: under another one, a client of the same number has other rows."""
        # A subject is the same client whatever the seed.
        return "" if self.config["partition"]["kind"] == "subject" else str(self.draw[-1])

    def option(self, name: str) -> Any:
        """An option of its method, or None."""
        return self.config["strategy"].get(name)

    @cached_property
    def row(self) -> dict[str, Any]:
        """Its line in ``results.csv``: what was run, what it guarantees, what it reached."""
        config, metrics = self.config, self.metrics
        strategy = {f"strategy.{key}": value for key, value in config["strategy"].items() if key != "name"}
        dataset = {f"dataset.{key}": value for key, value in config["dataset"].items() if key not in ("name", "path")}
        row = {
            "run": self.folder.name,
            "strategy": config["strategy"]["name"],
            "dataset": config["dataset"]["name"],
            "partition": config["partition"]["kind"],
            "asked_clients": config["partition"].get("clients"),
            "split": config["evaluation"]["split"],
            "part": config["evaluation"]["part"],
            "fold": config["evaluation"]["fold"],
            "asked_rounds": config["rounds"],
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "guarantee": self.privacy["guarantee"],
            "unit": self.privacy["unit"],
            "trust": self.privacy["trust"],
            "privacy.unit": self.guarantee.unit.kind,
            "privacy.trust": self.guarantee.trust.kind,
            "record": self.privacy["record"],
            "seed": config["seed"],
        }
        of_classes, of_targets = metrics_of(Kind.CLASSES, Kind.TWO_CLASSES), metrics_of(Kind.TARGET)
        names = [*(m.name for m in of_classes), "worst_client", *(m.name for m in of_targets), *_FACTS]
        row |= {name: metrics[name] for name in names if name in metrics}
        row |= {f"memorization_{n}": rate for n, rate in metrics.get("memorization_rate", {}).items()}
        # At the end, so that what reads older tables by position still can.
        missing = {"left_out": clients_in_words(metrics)} if metrics.get("left_out") else {}
        trained = {"trained": metrics["trained"]} if "trained" in metrics else {}
        ends = {
            f"{name}_{end}": x
            for name, pair in metrics.get("intervals", {}).items()
            for end, x in zip(("low", "high"), pair, strict=True)
        }
        return row | dataset | strategy | trained | missing | ends


def read_privacy(folder: Path) -> dict[str, Any]:
    """``privacy.json`` of a run folder.

    Raises
    ------
    DPForestError
        There is none, or it is damaged.
    """
    try:
        privacy = read_json(folder / "privacy.json")
        check_privacy(privacy)
    except FileNotFoundError as error:
        raise DPForestError(f"no privacy.json in {folder}: name the folder of a finished run") from error
    except (OSError, ValueError) as error:
        raise DPForestError(f"{folder} is damaged: {error}") from error
    return privacy


def read_run(folder: Path) -> FinishedRun:
    """Read a finished run.

    Raises
    ------
    DPForestError
        A file is damaged.
    """
    privacy = read_privacy(folder)
    try:
        metrics = read_json(folder / "metrics.json")
        clients, rounds = (_read_table(folder / f"{name}.csv") for name in ("clients", "rounds"))
        check_metrics(metrics)
        attack = read_json(folder / ATTACK) if (folder / ATTACK).exists() else None
        if attack is not None:
            check_attack(attack)
    except (OSError, ValueError) as error:
        raise DPForestError(f"{folder} is damaged: {error}") from error
    counted = [metrics.get(name) for name in ("clients", "rounds")]
    trains = sum(value is True or value == 1 for value in clients.get("trains", pd.Series()).tolist())
    if [trains, len(rounds)] != counted:
        raise DPForestError(f"{folder} is damaged: clients.csv or rounds.csv lacks lines")
    config = read_config(folder)
    try:
        return FinishedRun.of(
            folder,
            config,
            printable_values(metrics),
            printable_values(privacy),
            rounds,
            clients,
            printable_values(attack),
        )
    except (AttributeError, LookupError, OverflowError, StopIteration, TypeError, ValueError) as error:
        raise DPForestError(f"{folder} is damaged: {type(error).__name__}: {error}") from error


def read_config(folder: Path) -> dict[str, Any]:
    """Configuration of a run, also of one that failed.

    Raises
    ------
    DPForestError
        It is damaged.
    """
    try:
        config = _read_yaml(folder / "config.yaml")
        if not isinstance(config, dict) or "overrides" not in config:  # the last entry; an empty file is valid YAML
            raise ValueError("config.yaml is cut off")
        check_config(config)
    except (OSError, ValueError) as error:
        raise DPForestError(f"{folder} is damaged: {error}") from error
    return config


def _read_yaml(path: Path) -> Any:
    try:
        return parse_yaml(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error


def read_json(path: Path) -> dict[str, Any]:
    """A mapping of a JSON file; raises OSError and ValueError."""
    try:
        plain = parse_json(path.read_text(encoding="utf-8"))
        check_plain(plain)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error
    if not isinstance(plain, dict):
        raise ValueError(f"{path.name} is not a mapping")
    return plain


def printable_values(plain: Any) -> Any:
    """Plain data whose names and texts are fit for screens, pages and figures: no SVG may hold an escape code."""
    if isinstance(plain, str):
        return printable(plain, but="\n")
    if isinstance(plain, list):
        return [printable_values(value) for value in plain]
    if isinstance(plain, dict):
        return {printable_values(key): printable_values(value) for key, value in plain.items()}
    return plain


def _read_table(path: Path) -> pd.DataFrame:
    try:
        table = _parse_table(path.read_text(encoding="utf-8"))
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{path.name}: {error}") from error
    check_table(path.name, table)
    return table


def _parse_table(text: str) -> pd.DataFrame:
    if not text.endswith("\n"):
        raise ValueError("it is cut off")
    header, *lines = csv.reader(io.StringIO(text))
    if any(len(line) != len(header) for line in lines):  # of those too long pandas would make an index
        raise ValueError("it has a line of more or fewer cells than its header")
    if len(set(header)) < len(header) or len(header) > _MOST_COLUMNS:  # which pandas would take long to tell apart
        raise ValueError(f"it has {len(header)} columns, of {len(set(header))} different names")
    return pd.read_csv(io.StringIO(text))


def flat(plain: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Keys with dots, and values, of mappings inside each other."""
    for key, value in plain.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
