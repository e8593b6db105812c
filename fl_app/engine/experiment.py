"""An experiment: the composed configuration as frozen dataclasses, validated at the door."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np

from dpforest.errors import DPForestError
from dpforest.ledger import Budget
from dpforest.schema import Schema
from dpforest.settings import Positive, Range, Says, Seed, Settings, quoted
from dpforest.texts import BadText, check_plain, parse_json
from fl_app.data import (
    ClientData,
    DataSource,
    Evaluation,
    Partition,
    build_source,
    client_data,
    client_roles,
    client_schema,
    public_rows,
)
from strategies.federation.cohort import Cohort, choose_cohort
from strategies.method import Method, Protection, Task
from strategies.plan import check_task
from strategies.registry import get_method


class ConfigurationError(DPForestError):
    """An experiment cannot be built from its configuration."""


# Names of the LDP document for values of epsilon.
LEVELS = {"none": math.inf, "low": 10.0, "medium": 1.0, "high": 0.1}


def level_epsilon(level: Any) -> float:
    """The epsilon that a level stands for; 1 where there is no level.

    Raises
    ------
    ConfigurationError
        There is no such level.
    """
    if level is None:
        return 1.0
    if not isinstance(level, str) or level not in LEVELS:
        levels = ", ".join(f"{name} (epsilon {epsilon:g})" for name, epsilon in LEVELS.items())
        raise ConfigurationError(f"privacy.level {quoted(level)} must be one of {levels}, or null")
    return LEVELS[level]


@dataclass(frozen=True)
class Privacy(Settings):
    """The budget of each client over the whole run.

    Parameters
    ----------
    epsilon
        Total; ``inf`` for a run without privacy.
    delta
        0 for pure differential privacy.
    level
        A name for an epsilon, inf, 10, 1 or 0.1, which then must not say anything else.
    noise
        ``seeded`` noise is reproducible and for simulations only; a real node always uses ``secure``.
    unit
        What the guarantee is about: one record, or a client's whole data; null: what the method is made for.
    trust
        Who adds the noise: each client all that it needs (``local``), each a share under secure aggregation
        (``shared``), or a trusted server (``central``); null: what the method is made for.
    """

    group = "privacy."
    error = ConfigurationError

    epsilon: Annotated[float, Range(0, above=True, infinite=True)] = 1.0
    delta: Annotated[float, Range(0, 1, below=True)] = 0.0
    noise: Annotated[Literal["seeded", "secure"], Says("be seeded or secure")] = "seeded"
    level: Literal["none", "low", "medium", "high"] | None = None
    unit: Literal["record", "client"] | None = None
    trust: Literal["local", "shared", "central"] | None = None

    def __post_init__(self) -> None:
        try:
            Budget(self.epsilon, self.delta)
        except OverflowError:
            raise ConfigurationError("privacy.epsilon and privacy.delta must fit double precision") from None
        if self.level is not None and level_epsilon(self.level) != self.epsilon:
            raise ConfigurationError(
                f"privacy.level {self.level} is epsilon {level_epsilon(self.level):g}, and privacy.epsilon says "
                f"{self.epsilon:g}: give one of them"
            )
        super().__post_init__()

    @property
    def budget(self) -> Budget:
        """The budget."""
        return Budget(float(self.epsilon), float(self.delta))

    def without_noise(self) -> Privacy:
        """The same unit and trust model at an infinite epsilon."""
        return dataclasses.replace(self, epsilon=math.inf, delta=0.0, level=None)


@dataclass(frozen=True)
class Experiment(Settings):
    """Everything that defines a run's numbers.

    Parameters
    ----------
    strategy
        ``name`` of the method and its settings.
    dataset
        ``name`` of the data set and its settings.
    partition
        Who holds which rows.
    evaluation
        Which rows are held out.
    privacy
        The budget.
    seed
        Of all simulated randomness.
    rounds
        Null: the method's own default.
    min_clients
        Share of the asked clients that must answer in every round.
    timeout
        Seconds to wait for the answers of one exchange.
    memorization
        Numbers of test rows a client for the memorization rate; empty: not measured.
    """

    error = ConfigurationError

    strategy: Mapping[str, Any]
    dataset: Mapping[str, Any]
    partition: Partition = field(default_factory=Partition)
    evaluation: Evaluation = field(default_factory=Evaluation)
    privacy: Privacy = field(default_factory=Privacy)
    seed: Seed = 0
    rounds: Annotated[int, Range(1, 10_000)] | None = None
    min_clients: Annotated[float, Range(0, 1, above=True), Says("be a share above 0, at most 1")] = 0.5
    timeout: Annotated[Positive, Says("be a number of seconds above 0")] = 600.0
    memorization: tuple[Annotated[int, Range(1, 10**9)], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        # Built once here, so that a bad name or value is refused before anything starts.
        _ = self.method, self.settings, self.protection, self.source
        if self.rounds is not None and self.rounds > 1 and not self.method.uses_rounds:
            raise ConfigurationError(
                f"rounds {self.rounds}: strategy {self.method.name} does the same whatever that is: leave rounds out "
                "(or give rounds=null where a file sets it)"
            )

    @cached_property
    def method(self) -> Method:
        """The method, looked up by name."""
        return get_method(str(self.strategy.get("name")))

    @cached_property
    def settings(self) -> Any:
        """The method's settings."""
        values = {key: value for key, value in self.strategy.items() if key != "name"}
        return self.method.settings.from_mapping(values, f"strategy {self.method.name}")

    @property
    def metrics(self) -> str:
        """``private`` to have test metrics as real nodes send them by default, or ``clear``, if their owners allow."""
        return self.evaluation.metrics

    @property
    def noise(self) -> str:
        """How simulated clients draw their noise."""
        return self.privacy.noise

    @cached_property
    def protection(self) -> Protection:
        """The privacy unit and the trust model."""
        return self.method.protection(self.settings, self.privacy.unit, self.privacy.trust)

    @cached_property
    def source(self) -> DataSource:
        """The data set."""
        values = {key: value for key, value in self.dataset.items() if key != "name"}
        return build_source(str(self.dataset.get("name")), values)

    @property
    def budget(self) -> Budget:
        """What each client may spend; infinite for a method that guarantees nothing."""
        return self.privacy.budget if self.method.uses_budget else Budget(math.inf)

    @property
    def total_rounds(self) -> int:
        """Rounds of the run."""
        return self.rounds or self.method.default_rounds

    def clients_for(self, nodes: int) -> int:
        """How many clients the experiment makes of that many nodes.

        Raises
        ------
        DataError
            More clients are asked for than there are subjects.
        """
        if self.source.on_nodes:
            return nodes
        if self.partition.clients is not None or self.partition.kind in ("subject", "user_types"):
            wanted = self.partition.count(self.source)
            if self.partition.clients is None and nodes < wanted:
                return nodes
            return wanted
        return nodes

    def roles(self, clients: int) -> list[str]:
        """What each client is for: ``train`` (and test on its own rows), ``test`` or ``unused``."""
        if self.source.on_nodes:
            if self.evaluation.split == "subject":
                raise ConfigurationError("evaluation=subject needs subjects known to the server; nodes hold one each")
            return ["train"] * clients
        return client_roles(self.source, self.partition, self.evaluation, clients)

    def client_data(self, client: int, clients: int) -> ClientData:
        """The rows of one of so many clients, as `fl_app.data.client_data`."""
        return client_data(self.source, self.partition, self.evaluation, client, clients)

    def cohort(self, nodes: Mapping[int, int], connected: int) -> Cohort:
        """Which nodes take part, and for what.

        Parameters
        ----------
        nodes : mapping of int to int
            By client.
        connected : int
            Nodes that there are, also such as play none.

        Raises
        ------
        DPForestError
            There are fewer nodes than clients.
        """
        clients = self.clients_for(max(nodes) + 1)
        missing = sorted(set(range(clients)) - set(nodes))
        if missing and connected < clients and not self.source.on_nodes:
            raise DPForestError(
                f"the experiment makes {clients} clients, but no node plays client {missing[0]} "
                f"({connected} nodes are there): start {clients} nodes (num-supernodes={clients}), "
                f"or set partition.clients={connected}"
            )
        # Under a subject split, clients that train have no test rows of their own.
        own_tests = self.evaluation.split != "subject"
        return choose_cohort(nodes, self.roles(clients), own_tests, self.evaluation.sampled)

    def schema(self, clients: int) -> Schema:
        """The public schema of one client's rows."""
        return self.source.schema() if self.source.on_nodes else client_schema(self.source, clients)

    def task(self, clients: int) -> Task:
        """The public facts that both sides of the method are given.

        Raises
        ------
        DPForestError
            Such a delta would allow to publish whole records.
        """
        task = Task(
            schema=self.schema(clients),
            settings=self.settings,
            budget=self.budget,
            rounds=self.total_rounds,
            clients=self.roles(clients).count("train"),
            seed=self.seed,
            **self.protection.for_task(),
        )
        check_task(task)
        return task

    def server_task(self, clients: int) -> Task:
        """`task`, with the public rows that a server may see.

        Raises
        ------
        ConfigurationError
            There shall be public rows, and only the nodes have any; or memorization shall be measured without classes.
        """
        task = self.task(clients)
        if self.memorization and not task.schema.is_classification:
            raise ConfigurationError(
                "memorization is measured by accuracy, and this data set has no classes: leave it empty"
            )
        if not self.evaluation.public_share:
            return task
        if self.source.on_nodes:
            raise ConfigurationError(
                f"evaluation.public_share={self.evaluation.public_share:g} are rows that the server sees, but only "
                "nodes have rows: set evaluation.public_share=0 (with strategy=fext also strategy.filter_by=clients, "
                "which pays for noised scores, or strategy.k=null)"
            )

        def load() -> tuple[np.ndarray, np.ndarray]:
            rows = public_rows(self.source, self.partition, self.evaluation, clients)
            return rows.X, rows.y

        return dataclasses.replace(task, public_rows=load)

    def with_rounds(self, rounds: int) -> Experiment:
        """The same experiment with another number of rounds."""
        return dataclasses.replace(self, rounds=rounds)

    def to_message(self) -> dict[str, str]:
        """What every message carries."""
        return {"experiment": self.to_json()}

    def to_dict(self) -> dict[str, Any]:
        """Plain data, the form of a configuration."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        plain["strategy"], plain["dataset"] = dict(self.strategy), dict(self.dataset)
        for name in ("partition", "evaluation", "privacy"):
            plain[name] = dataclasses.asdict(plain[name])
        plain["memorization"] = list(self.memorization)
        if math.isinf(self.privacy.epsilon):
            plain["privacy"]["epsilon"] = "inf"
        return plain

    def to_json(self) -> str:
        """One line for a message; nothing in it refers to a file that only the server has."""
        plain = self.to_dict()
        plain["dataset"] = {"name": self.source.name, **self.source.settings_for_nodes()}
        return json.dumps(plain, sort_keys=True)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Experiment:
        """Build and validate an experiment from plain data.

        Raises
        ------
        DPForestError
            An option is unknown or has a bad value.
        """
        check_plain(plain)
        values = dict(plain)
        for name, kind in (("partition", Partition), ("evaluation", Evaluation), ("privacy", Privacy)):
            group = values.get(name) or {}
            if not isinstance(group, Mapping):
                raise ConfigurationError(f"{name} {group!r}: expected a group of settings")
            group = dict(group)
            if name == "privacy":
                group["epsilon"] = _epsilon(group.get("epsilon", level_epsilon(group.get("level"))))
            values[name] = kind.from_mapping(group, name)
        values["memorization"] = values.get("memorization") or ()
        for name in ("strategy", "dataset"):
            if not isinstance(values.get(name), Mapping):
                raise ConfigurationError(f"{name} {values.get(name)!r}: expected a group with a name and settings")
        return cls.from_mapping(values, "experiment")

    @classmethod
    def from_json(cls, text: str) -> Experiment:
        """Read `to_json` back; for messages, so nothing is believed."""
        try:
            plain = parse_json(text)
        except BadText as error:
            raise ConfigurationError(f"the experiment is {error}") from error
        if not isinstance(plain, dict):
            raise ConfigurationError("the experiment is no mapping")
        return cls.from_dict(plain)


def _epsilon(value: Any) -> float:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            raise ConfigurationError(f"privacy.epsilon {value!r} must be a positive number or inf") from None
    return value
