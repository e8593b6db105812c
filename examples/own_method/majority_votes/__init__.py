"""A method as somebody else would bring it: every client sends noised class counts, the model is their shares."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpforest.guarantee import NO_SERVER, RECORD_UNIT
from dpforest.ledger import Entry
from dpforest.mechanisms import DiscreteLaplaceCounts
from dpforest.settings import InnerShare, Settings
from strategies.method import (
    Arrays,
    ClientSide,
    ClientTask,
    ClientUpdate,
    Method,
    Protection,
    Released,
    ServerSide,
    Task,
    Update,
    Work,
)


@dataclass(frozen=True)
class MajoritySettings(Settings):
    """How the budget is used.

    Parameters
    ----------
    share
        Part of the budget that is spent.
    """

    share: InnerShare = 0.9


def _counts(task: Task) -> DiscreteLaplaceCounts:
    return DiscreteLaplaceCounts(task.budget.epsilon * task.settings.share)


class MajorityClient(ClientSide):
    """Counts its rows by class."""

    def train(self, task: ClientTask, X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        exact = np.bincount(y, minlength=task.schema.n_outputs)
        counts = _counts(task)
        noised = counts.release(exact, counts.entry("class counts"), task.ledger, task.noise("counts"))
        return Update(Released(task.ledger, {"counts": noised}))

    def predict(self, task: ClientTask, X: np.ndarray, arrays: Arrays) -> np.ndarray:
        return np.tile(arrays["shares"], (len(X), 1))


class MajorityServer(ServerSide):
    """Adds the counts up."""

    def planned(self) -> list[Entry]:
        return [_counts(self.task).entry("class counts")]

    def aggregate(self, exchange: int, updates: list[ClientUpdate]) -> Arrays:
        self.total = np.maximum(np.sum([update.arrays["counts"] for update in updates], axis=0), 1)
        return {"shares": self.total / self.total.sum()}

    def save(self, folder: Path) -> None:
        (folder / "counts.json").write_text(json.dumps(self.total.tolist()))


METHOD = Method(
    name="majority_votes",
    settings=MajoritySettings,
    server=MajorityServer,
    client=MajorityClient,
    protections=(Protection(RECORD_UNIT, NO_SERVER, True),),
    work=lambda task: Work(),
)
