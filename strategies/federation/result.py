"""What a federated run gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from flwr.serverapp.strategy import Result

from dpforest.forest import Forest
from dpforest.ledger import Guarantee, Ledger
from strategies.federation.cohort import Cohort
from strategies.federation.evaluation import Evaluation, Joint
from strategies.federation.ledgers import worst_protected
from strategies.federation.traffic import Traffic
from strategies.forests import read_model
from strategies.messages import plain_arrays
from strategies.method import ServerSide


@dataclass
class Failure:
    """A client whose contribution to an exchange was lost.

    Parameters
    ----------
    round, client : int
    reason : str
    training : bool
        Whether it was to train, and not to evaluate.
    refused : bool
        Whether its owner does not allow it.
    """

    round: int
    client: int
    reason: str
    training: bool = True
    refused: bool = False


@dataclass(frozen=True)
class Exchange:
    """One exchange: what was asked, what came, and what the clients then said of the model.

    Parameters
    ----------
    number : int
        1-based.
    asked, answered : int
        Clients, and those of them with a sound answer.
    training : Traffic
    facts : mapping
        `ServerSide.round_facts`.
    evaluation : list of Evaluation or None
        None where there was no new model.
    joint : Joint or None
        What these say together; None where nobody reported.
    evaluating : Traffic or None
    """

    number: int
    asked: int
    answered: int
    training: Traffic
    facts: Mapping[str, Any]
    evaluation: list[Evaluation] | None = None
    joint: Joint | None = None
    evaluating: Traffic | None = None


@dataclass(kw_only=True, repr=False)
class FederatedResult(Result):
    """Flower's result, with what a private run adds: exchanges, ledgers, and the guarantee that follows.

    Parameters
    ----------
    side : ServerSide
        The method's server, which holds the final model.
    cohort : Cohort
    exchanges : list of Exchange
    ledgers : mapping of int to Ledger
        By client; what may have been released counts as spent.
    failures : list of Failure
    noise : {"seeded", "secure"}
        ``seeded`` if any client drew reproducible noise, as in simulations: then the guarantee is a researcher's.
    metrics_received : bool
        Whether any client reported test metrics in clear, also such as were of no use.
    noised_metrics_received : bool
        Whether any reported them under the guarantee.
    metrics_are_of_a_sum : bool
        Whether clients noised them together.
    traffic : mapping of int to Traffic
        By client.
    seconds : float
    """

    side: ServerSide[Any]
    cohort: Cohort
    exchanges: list[Exchange] = field(default_factory=list)
    ledgers: Mapping[int, Ledger] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    noise: str = "secure"
    metrics_received: bool = False
    noised_metrics_received: bool = False
    metrics_are_of_a_sum: bool = False
    traffic: Mapping[int, Traffic] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def worst_client(self) -> int:
        """The client with the weakest guarantee."""
        return worst_protected(self.ledgers)

    @property
    def guarantee(self) -> Guarantee:
        """That of the run: its worst-protected client's."""
        return self.ledgers[self.worst_client].guarantee()

    @property
    def evaluation(self) -> list[Evaluation]:
        """What clients reported about the final model."""
        return self.exchanges[-1].evaluation or []

    @property
    def left_out(self) -> dict[int, str]:
        """Clients that did not train in each exchange that they were to, and why: their first reason, once."""
        lost: dict[int, list[Failure]] = {}
        for failure in self.failures:
            if failure.training:
                lost.setdefault(failure.client, []).append(failure)
        return {client: _in_words(failures, len(self.exchanges)) for client, failures in sorted(lost.items())}

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the final model over all clients' test rows together; empty if nobody reported."""
        return dict(self.exchanges[-1].joint.metrics) if self.exchanges[-1].joint else {}

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Where the exact values of the metrics lie; empty where no client has noised its own."""
        return dict(self.exchanges[-1].joint.intervals) if self.exchanges[-1].joint else {}

    def save(self, folder: str | Path) -> None:
        """Write the final model into an existing folder."""
        self.side.save(Path(folder))


def _in_words(failures: list[Failure], exchanges: int) -> str:
    first = failures[0].reason
    return first if len(failures) == exchanges else f"in {len(failures)} of {exchanges} exchanges: {first}"


class ForestResult(FederatedResult):
    """The result of a method whose model is one forest."""

    @cached_property
    def forest(self) -> Forest:
        """The final forest: it predicts, explains itself and is saved like any other of `dpforest`."""
        return read_model(plain_arrays(self.arrays), self.side.task.schema)
