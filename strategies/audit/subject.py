"""What is audited: a method under its settings, with rows of its user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dpforest.ledger import Ledger
from strategies.method import Method, Task
from strategies.registry import get_method

Rows = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Subject:
    """A run whose clients are audited.

    Parameters
    ----------
    name : str
        Of the method.
    task : Task
        Public facts, without public rows.
    rows : sequence of (X, y)
        Rows of some clients, inside the schema's bounds; the others have those of the first ones.
    public : (X, y) or None
        Rows that are declared public.
    noise : {"seeded", "secure"}
        Where the noise comes from.
    seed : int
        Of the audit.
    """

    name: str
    task: Task[Any]
    rows: Sequence[Rows]
    public: Rows | None = None
    noise: Literal["seeded", "secure"] = "seeded"
    seed: int = 0

    @property
    def method(self) -> Method:
        """The method, looked up by its name."""
        return get_method(self.name)

    @property
    def server_task(self) -> Task[Any]:
        """What the server's side is given."""
        public = self.public
        return self.task if public is None else replace(self.task, public_rows=lambda: public)

    @property
    def claims(self) -> bool:
        """Whether the method guarantees anything under these settings, as far as is said before a run."""
        method = self.method
        return method.uses_budget and not self.task.schema.leak and not method.server(self.server_task).unprotected()

    def blank_ledger(self) -> Ledger:
        """A client's ledger at the beginning of the run."""
        task = self.task
        protection = self.method.protection(task.settings, task.unit, task.trust)
        return protection.ledger(task.budget, task.schema)

    def rows_of(self, client: int) -> Rows:
        """Rows that a client trains on where it is not the one that is audited."""
        return self.rows[client % len(self.rows)]
