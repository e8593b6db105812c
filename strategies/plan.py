"""What a run asks of its clients: agreed on before any data, the same for both sides."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Protocol

import numpy as np

from dpforest.errors import DPForestError
from dpforest.guarantee import PrivacyUnit
from dpforest.ledger import Budget, check_delta_for
from dpforest.schema import Schema
from dpforest.settings import Range, Seed, check_setting
from strategies.federation.cohort import Cohort, choose_cohort
from strategies.method import Method, Protection, Task
from strategies.registry import get_method

_NUMBERS = {
    "epsilon": Annotated[float, Range(0, above=True, infinite=True)],
    "delta": Annotated[float, Range(0, 1, below=True)],
    "rounds": Annotated[int, Range(1, 10_000)] | None,
    "seed": Seed,
    "unit": Literal["record", "client"] | None,
    "trust": Literal["local", "shared", "central"] | None,
}
_TRAVELS = ("name", "options", "schema", "epsilon", "delta", "rounds", "seed", "unit", "trust")
PLAN = "plan"  # the setting of a message that holds a `MethodPlan`


class RunPlan(Protocol):
    """A run as a client sees it."""

    @property
    def method(self) -> Method:
        """The method, looked up by its name."""

    @property
    def settings(self) -> Any:
        """The method's settings."""

    @property
    def budget(self) -> Budget:
        """What each client may spend; infinite for a method that guarantees nothing."""

    @property
    def protection(self) -> Protection:
        """The privacy unit and the trust model, for which the method has a proof."""

    @property
    def noise(self) -> str:
        """``seeded`` for reproducible noise, in simulations only, or ``secure``."""

    @property
    def seed(self) -> int:
        """Of all simulated randomness."""

    @property
    def memorization(self) -> tuple[int, ...]:
        """Numbers of test rows for the accuracy of each owner's part of the model; empty: not measured."""

    @property
    def metrics(self) -> str:
        """``private`` to have test metrics as real nodes send them by default, or ``clear``, if their owners allow."""

    def task(self, clients: int) -> Task:
        """The public facts that both sides of the method are given, where so many clients are there."""


def check_task(task: Task) -> None:
    """Refuse a delta that would allow to publish whole records, or clients.

    Raises
    ------
    DPForestError
    """
    if task.unit is PrivacyUnit.RECORD:
        check_delta_for(task.budget.delta, task.schema.rows)
    else:
        check_delta_for(task.budget.delta, task.clients, "clients")


@dataclass(frozen=True)
class MethodPlan:
    """A method by its name and settings, for anybody's app: everybody trains, on rows that only the clients have.

    Parameters
    ----------
    name : str
        Of the method.
    options : mapping of str to object
        Its settings; those left out have their defaults.
    schema : Schema
        Public description of each client's rows.
    epsilon, delta : float
        What each client may spend over the run.
    rounds : int, optional
        The method's own default if left out.
    seed : int
        Of all simulated randomness; real nodes draw theirs cryptographically.
    unit : {"record", "client"}, optional
        What the guarantee is about; what the method is made for if left out.
    trust : {"local", "shared", "central"}, optional
        Who adds the noise; likewise.
    public_rows : callable of () to (X, y), optional
        For the server alone: loads rows that are declared public, as a method may ask for; see `Task.public_rows`.

    Raises
    ------
    DPForestError
        A name is unknown or a value out of its range; names it.
    """

    name: str
    options: Mapping[str, Any]
    schema: Schema
    epsilon: float = 1.0
    delta: float = 0.0
    rounds: int | None = None
    seed: int = 0
    unit: str | None = None
    trust: str | None = None
    public_rows: Callable[[], tuple[np.ndarray, np.ndarray]] | None = field(default=None, compare=False)
    noise: Literal["seeded"] = field(default="seeded", init=False)
    memorization: tuple[int, ...] = field(default=(), init=False)
    metrics: Literal["clear"] = field(default="clear", init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.schema, Schema):
            raise DPForestError(f"schema {self.schema!r} must be a dpforest.schema.Schema (Schema.from_dict makes one)")
        for name, hint in _NUMBERS.items():
            check_setting(name, getattr(self, name), hint)
        if not isinstance(self.options, Mapping):
            raise DPForestError(f"options {self.options!r}: expected a group of settings")
        _ = self.settings, self.budget, self.protection  # refused here rather than in the middle of a run

    @cached_property
    def method(self) -> Method:
        """The method, looked up by its name."""
        return get_method(self.name)

    @cached_property
    def settings(self) -> Any:
        """The method's settings."""
        return self.method.settings.from_mapping(self.options, f"strategy {self.name}")

    @cached_property
    def budget(self) -> Budget:
        """What each client may spend; infinite for a method that guarantees nothing."""
        budget = Budget(float(self.epsilon), float(self.delta))
        return budget if self.method.uses_budget else Budget(math.inf)

    @cached_property
    def protection(self) -> Protection:
        """The privacy unit and the trust model."""
        return self.method.protection(self.settings, self.unit, self.trust)

    def task(self, clients: int) -> Task:
        """The public facts that both sides of the method are given.

        Raises
        ------
        DPForestError
            Such a delta would allow to publish whole records.
        """
        rounds = self.rounds or self.method.default_rounds
        task = Task(self.schema, self.settings, self.budget, rounds, clients, self.seed, **self.protection.for_task())
        check_task(task)
        return task

    def server_task(self, clients: int) -> Task:
        """`task`, with the public rows that a server may see."""
        return replace(self.task(clients), public_rows=self.public_rows)

    def cohort(self, nodes: Mapping[int, int], connected: int) -> Cohort:
        """All nodes train, and test on rows of their own."""
        return choose_cohort(nodes, ["train"] * (max(nodes) + 1))

    def with_rounds(self, rounds: int) -> MethodPlan:
        """The same plan with another number of rounds."""
        return replace(self, rounds=rounds)

    def to_message(self) -> dict[str, str]:
        """What every message carries."""
        plain = {name: getattr(self, name) for name in _TRAVELS}
        plain |= {"options": dict(self.options), "schema": self.schema.to_dict()}
        if math.isinf(self.epsilon):
            plain["epsilon"] = "inf"
        return {PLAN: json.dumps(plain, sort_keys=True)}

    @classmethod
    def from_text(cls, text: str) -> MethodPlan:
        """Read what a server sends; nothing is believed.

        Raises
        ------
        DPForestError
            It is no plan.
        """
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DPForestError(f"the plan is no JSON: {error}") from error
        if not isinstance(plain, dict) or not isinstance(plain.get("schema"), dict):
            raise DPForestError("the plan is no mapping with a schema")
        if set(plain) != set(_TRAVELS):
            raise DPForestError(f"the plan says {', '.join(map(repr, plain))}; expected {', '.join(_TRAVELS)}")
        plain["schema"] = Schema.from_dict(plain["schema"])
        if plain["epsilon"] == "inf":
            plain["epsilon"] = math.inf
        if not isinstance(plain.get("name"), str):
            raise DPForestError(f"the plan names the strategy {plain.get('name')!r}")
        return cls(**plain)
