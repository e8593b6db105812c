"""Private methods as Flower strategies for anybody's ServerApp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from dpforest.schema import Schema
from strategies.federation.result import FederatedResult, ForestResult
from strategies.federation.strategy import MethodStrategy, R
from strategies.plan import MethodPlan


class PrivateStrategy(MethodStrategy[R]):
    """A private method under its name; use it as you use Flower's FedAvg, with `strategies.PrivateClientApp` on nodes.

    Parameters
    ----------
    schema : Schema
        Public description of each client's rows: bounds of its features, and classes or the range of a target.
    epsilon, delta : float
        What each client may spend over the whole run.
    seed : int
        Of all simulated randomness; real nodes draw theirs cryptographically.
    unit : {"record", "client"}, optional
        What the guarantee is about; what the method is made for if left out.
    trust : {"local", "shared", "central"}, optional
        Who adds the noise; likewise.
    public_rows : callable of () to (X, y), optional
        Loads rows that are declared public, for a method that asks for some; nobody trains or is evaluated on them.
    min_clients : float
        Share of the asked clients that must give a sound answer in every exchange.
    **options
        Settings of the method, as its settings class documents them.

    Raises
    ------
    DPForestError
        An option is unknown (the nearest is named) or has a bad value.
    """

    method: ClassVar[str]
    result_type: ClassVar[type[FederatedResult]]

    def __init__(
        self,
        schema: Schema,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        seed: int = 0,
        unit: str | None = None,
        trust: str | None = None,
        public_rows: Callable[[], tuple[np.ndarray, np.ndarray]] | None = None,
        min_clients: float = 0.5,
        **options: Any,
    ) -> None:
        plan = MethodPlan(
            self.method, options, schema, epsilon, delta, None, seed, unit, trust, public_rows=public_rows
        )
        super().__init__(plan, self.result_type, min_clients=min_clients)  # type: ignore[arg-type]


class ForestStrategy(PrivateStrategy[ForestResult]):
    """A method whose model is one forest: ``start(...).forest``."""

    result_type = ForestResult


class ModelStrategy(PrivateStrategy[FederatedResult]):
    """A method with any other model: ``start(...).arrays`` and ``start(...).save(folder)``."""

    result_type = FederatedResult
