"""The contract of a method: what its two sides are given and what they give back.

A method is one folder with ``server.py`` (what the app runs as a Flower strategy) and ``client.py`` (what a client
does with its own rows), joined by a `Method` in its ``__init__.py``. The app finds it by name
(`strategies.registry`) and never looks inside.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from flwr.app import RecordDict

from dpforest.errors import DPForestError
from dpforest.guarantee import PrivacyUnit, Trust, TrustModel, Unit
from dpforest.ledger import Budget, Entry, Ledger
from dpforest.noise import Noise
from dpforest.schema import FROM_DATA, Schema
from dpforest.settings import Settings
from strategies.style import Style, palette_style
from strategies.updates import Arrays, Entrusted, Public, Released, Unprotected, Update

if TYPE_CHECKING:
    from strategies.secure_aggregation.fellows import Identity

__all__ = [
    "Arrays",
    "Charges",
    "ClientSide",
    "ClientTask",
    "ClientUpdate",
    "Entrusted",
    "Method",
    "Protection",
    "Public",
    "Released",
    "Scope",
    "ServerSide",
    "Signal",
    "Task",
    "TooFewClients",
    "Unprotected",
    "Update",
]


S = TypeVar("S")  # settings of a method
S_co = TypeVar("S_co", covariant=True)


@dataclass(frozen=True)
class Task(Generic[S_co]):
    """What both sides know before the data: public facts and settings.

    Parameters
    ----------
    schema : Schema
        Public description of the rows.
    settings : object
        The method's own settings, an instance of ``Method.settings``.
    budget : Budget
        Total that each client may spend over the run.
    rounds : int
        Rounds of the run.
    clients : int
        Clients that train.
    seed : int
        Of the simulation.
    public_rows : callable of () to (X, y), or None
        For a server only: loads rows that are declared public, which are neither training nor test rows of anybody
        (``evaluation.public_share``). None where there are none.
    deployed : bool
        For a server only: whether real nodes take part, so that it draws what must stay secret cryptographically,
        whatever the configuration says.
    unit : PrivacyUnit
        What the guarantee is about; one of those that the method has a proof for (`Method.protections`).
    trust : TrustModel
        Who adds the noise; likewise.
    """

    schema: Schema
    settings: S_co
    budget: Budget
    rounds: int
    clients: int
    seed: int
    public_rows: Callable[[], tuple[np.ndarray, np.ndarray]] | None = field(default=None, kw_only=True)
    deployed: bool = field(default=False, kw_only=True)
    unit: PrivacyUnit = field(default=PrivacyUnit.RECORD, kw_only=True)
    trust: TrustModel = field(default=TrustModel.LOCAL, kw_only=True)


@dataclass(frozen=True)
class Work:
    """What one message makes a client do at most, by public facts alone: the owner of a node limits it.

    Parameters
    ----------
    nodes : int
        Nodes of all trees that it grows or fills.
    scores : int
        Candidate splits among which the nodes of all these trees choose.
    products : int
        Products of a network's weights with values of rows, in training; what else a step takes counts for a million.
    """

    nodes: int = 0
    scores: int = 0
    products: int = 0


@dataclass(frozen=True)
class ClientTask(Task[S_co]):
    """What a client's side is given for one message.

    Parameters
    ----------
    client : int
        Which client this is, 0-based.
    round : int
        1-based.
    ledger : Ledger
        The client's own, carried over the rounds of a run; every release is charged here.
    noise : callable of str to Noise
        A noise source for a named purpose; independent between purposes, clients and rounds.
    rng : callable of str to Generator
        Reproducible randomness that is not about privacy (shuffles, initial weights).
    state : RecordDict
        Stays on the client between the rounds of a run.
    config : mapping
        Settings of this one message from the method's server side; untrusted.
    simulated : bool
        Whether the node is simulated, where what it answers reaches a researcher who has all rows anyway. On a real
        node, test metrics reach the server: nothing that training rows decide without a mechanism may show in them.
    identity : Identity, optional
        What the node signs secure sums with, and whom its owner accepts in them.
    """

    client: int = field(default=0, kw_only=True)
    round: int = field(default=1, kw_only=True)
    ledger: Ledger = field(kw_only=True)
    noise: Callable[[str], Noise] = field(kw_only=True)
    rng: Callable[[str], np.random.Generator] = field(kw_only=True)
    state: RecordDict = field(default_factory=RecordDict, kw_only=True)
    config: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    simulated: bool = field(default=False, kw_only=True)
    identity: Identity | None = field(default=None, kw_only=True)

    @staticmethod
    def of(task: Task[S], **own: Any) -> ClientTask[S]:
        """A task with what one message of one client adds to it."""
        return ClientTask(**{known.name: getattr(task, known.name) for known in fields(Task)}, **own)


@dataclass(frozen=True)
class ClientUpdate:
    """An update as the server sees it: with its client, and the kind of noise that the client says it drew."""

    arrays: Arrays
    metrics: Mapping[str, float] = field(default_factory=dict)
    client: int = 0
    noise: str = "seeded"


@dataclass(frozen=True)
class Signal:
    """What the public number of rows says about the trees of a run: whether their leaves stand out of the noise.

    Parameters
    ----------
    trees : int
        Of the finished model.
    depth : int
        Levels of their splits.
    rows : float
        In a leaf on average, of all clients whose sums are added up.
    noise : float
        Standard deviation of a leaf's noise, in rows: what adding a row changes at most.
    stands_out : bool
        Whether the method learns something from such leaves.
    numbers : int
        That one client sends over the run.
    """

    trees: int
    depth: int
    rows: float
    noise: float
    stands_out: bool
    numbers: int


class ClientSide(ABC, Generic[S]):
    """What a client does with its own rows.

    Attributes
    ----------
    predicts_alone : bool
        Whether the prediction of a row is the same to the last bit whatever other rows are predicted with it. Where it
        is not (products of matrices round by the size of a batch), private test metrics ask for one row at a time.
    """

    predicts_alone: ClassVar[bool] = True

    @abstractmethod
    def train(self, task: ClientTask[S], X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        """Learn from the client's training rows.

        Parameters
        ----------
        task : ClientTask
        X : ndarray of shape (n_rows, n_features)
            Inside the schema's bounds.
        y : ndarray of shape (n_rows,)
            Class indices, or targets.
        arrays : mapping of str to ndarray
            The current model from the server; untrusted, empty before the first round.

        Raises
        ------
        DPForestError
            What follows from the message, from public numbers, or from what a mechanism has let through, and from
            nothing else: a server sees that it was raised. Whatever else comes out of here is taken to follow from
            rows, and on a real node ends the guarantee of the run.
        """

    @abstractmethod
    def predict(self, task: ClientTask[S], X: np.ndarray, arrays: Arrays) -> np.ndarray:
        """Class probabilities (n_rows, n_classes), or targets (n_rows,), by the current model."""

    def predict_by_owner(self, task: ClientTask[S], X: np.ndarray, arrays: Arrays) -> dict[int, np.ndarray] | None:
        """Predicted classes by the part of the model that each client contributed, if the model has such parts."""
        return None

    def may_choose_own_model(self, task: ClientTask[S]) -> bool:
        """Whether it predicts by a model of its own where that fits its rows better, so metrics are of this choice."""
        return False

    def own_model(self, task: ClientTask[S]) -> Arrays | None:
        """The model that only this client has, if the method gives each its own.

        A simulation shows it to the researcher with the evaluation (`ServerSide.take_own_model`); a real node shows
        neither the model nor metrics of it.
        """
        return None


@dataclass(frozen=True)
class Charges:
    """What an exchange costs a client that answers it.

    Parameters
    ----------
    each : sequence of Entry
        Written for this exchange alone.
    once : sequence of Entry
        Written for the whole run by the first of such exchanges that a client answers, and by no other.
    """

    each: Sequence[Entry] = ()
    once: Sequence[Entry] = ()


class TooFewClients(RuntimeError):
    """Fewer clients answered than the run needs."""


class ServerSide(ABC, Generic[S]):
    """The server's part of a method, as plain functions over updates.

    `strategies.federation` runs it as a Flower strategy: in each exchange it sends one message to every participant
    and hands the sound replies to `aggregate`. A method whose rounds need several exchanges (secure aggregation,
    growing level by level) counts exchanges where others count rounds.
    """

    def __init__(self, task: Task[S]) -> None:
        self.task = task

    @abstractmethod
    def planned(self) -> list[Entry]:
        """What one client will release over the run; the app refuses it before training if it is too much."""

    def charges(self, exchange: int, client: int, update: ClientUpdate | None = None) -> Charges:
        """What a client has written into its ledger when it has answered an exchange.

        The app holds every ledger against it: one that says more is refused, and one that says less guarantees nothing.
        Asked when the exchange begins, and with the client's answer before `aggregate` is given it. By default all that
        is planned is due with the first answer; a method that charges exchange by exchange overrides this.

        Parameters
        ----------
        update : ClientUpdate, optional
            The client's answer, where it has come; not checked yet.
        """
        return Charges(once=self.planned())

    def signal(self) -> Signal | None:
        """How far trees stand out of the noise, by public facts; None for what has no trees, or does not say."""
        return None

    def unprotected(self) -> list[str]:
        """What a client will send without protection, in the words of its ledger (`Unprotected.facts`).

        Empty if everything is covered.
        """
        return []

    def initial_arrays(self) -> Arrays:
        """The model before the first round."""
        return {}

    def start_from(self, arrays: Arrays) -> None:
        """Begin with a model of the user's own in place of `initial_arrays`.

        Raises
        ------
        DPForestError
            The method cannot, or the model does not fit.
        """
        raise DPForestError(f"{type(self).__name__} begins without a model: leave initial_arrays out, or empty")

    @property
    def exchanges(self) -> int:
        """Exchanges of the run, at most; one a round by default."""
        return self.task.rounds

    def is_round_end(self, exchange: int) -> bool:
        """Whether a new model exists after this exchange, so that it is worth evaluating."""
        return True

    def is_enough(self, clients: Collection[int]) -> bool:
        """Whether the next exchange is worth its price where only these training clients are connected.

        The app waits for enough of them, up to its timeout; if too few come, `participants` is offered those that did.
        True, so that the app never waits, if it does not matter.
        """
        return True

    def participants(self, exchange: int, clients: list[int]) -> list[int]:
        """Which of the training clients take part in an exchange; all by default."""
        return clients

    def arrays_for(self, exchange: int, client: int) -> Arrays | None:
        """Arrays for one client's message; None sends the current model to all."""
        return None

    def config(self, exchange: int, client: int) -> Mapping[str, Any]:
        """Settings for one client's message of an exchange."""
        return {}

    @property
    def needs_answers(self) -> bool:
        """Whether an exchange with too few sound answers (``min_clients``) ends the run.

        False for a method whose guarantee covers who is there: then the end of a run would itself say something about
        a client, and a missing answer must count as an update of its own. False also for a method with a rule of its
        own, which keeps what the run has learned.
        """
        return True

    def check(self, update: ClientUpdate) -> None:
        """Raise ``DPForestError`` if an update is not sound; its client then counts as failed."""

    @abstractmethod
    def aggregate(self, exchange: int, updates: list[ClientUpdate]) -> Arrays | None:
        """The new model from the sound updates of an exchange; None keeps the one there is."""

    @property
    def rounds_done(self) -> int | None:
        """Rounds that are finished, as the user counts them; None where an exchange is a round."""
        return None

    def progress(self) -> str:
        """A few words about the exchange that just ended, for the log."""
        return ""

    @property
    def finished(self) -> bool:
        """Whether to stop before all rounds are done."""
        return False

    def take_own_model(self, client: int, arrays: Arrays) -> None:
        """The (untrusted) model that a client of a simulation has of its own; for `save` and `client_facts`.

        Raise ``DPForestError`` if it is not sound; the client's evaluation then counts as failed.
        """

    def client_facts(self, client: int, ledger: Ledger | None) -> dict[str, Any]:
        """More columns for ``clients.csv`` about one client with its ledger at the end; None if it was never asked."""
        return {}

    def report(self) -> dict[str, Any]:
        """Facts about the finished run for its ``metrics.json``."""
        return {}

    def round_facts(self) -> dict[str, Any]:
        """More columns for ``rounds.csv`` about the exchange that just ended."""
        return {}

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the final model into an existing folder."""


@dataclass(frozen=True)
class Protection:
    """A privacy unit under a trust model: what a method has a proof for.

    Parameters
    ----------
    unit : Unit
        With its neighbours.
    trust : Trust
        Who exactly must be trusted.
    by_client_alone : bool
        Whether the client's own mechanisms cover all that it sends, whatever the server does. A real node takes part
        in anything else only if its owner has named the method in the node configuration.
    among_known : Trust, optional
        Who must be trusted by a client whose owner lists the fellows that it accepts in secure sums.
    """

    unit: Unit
    trust: Trust
    by_client_alone: bool = False
    among_known: Trust | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.unit, Unit) and isinstance(self.trust, Trust) and self.unit.kind and self.trust.kind):
            raise DPForestError(
                "unit and trust of a protection must be a Unit and a Trust of dpforest.guarantee of a kind"
            )

    def __str__(self) -> str:
        return f"privacy.unit={self.unit.kind} privacy.trust={self.trust.kind}"

    def ledger(self, budget: Budget, schema: Schema, knows_fellows: bool = False) -> Ledger:
        """A client's ledger at the beginning of a run: what is unprotected from the start is what its schema shows."""
        trust = self.among_known if knows_fellows and self.among_known else self.trust
        ledger = Ledger(budget, self.unit, trust)
        if schema.leak:
            ledger.unprotected(schema.leak, FROM_DATA)
        return ledger

    def for_task(self) -> dict[str, Any]:
        """What a `Task` is given of it."""
        return {"unit": self.unit.kind, "trust": self.trust.kind}


class Scope(Enum):
    """Whose rows make a client's model."""

    FEDERATED = "its own, and what other clients send"
    ALONE = "its own, and nothing but test metrics leaves it"
    POOLED = "all clients' rows in one place"


@dataclass(frozen=True)
class Method:
    """A method under its name.

    Parameters
    ----------
    name : str
        As in ``conf/strategy``.
    settings : type of Settings
        Frozen dataclass; what its values may be and mean stands in it.
    server : type of ServerSide
    client : type of ClientSide
    protections : sequence of Protection, or callable of settings to one
        All units and trust models that it has a proof for; the first is the one when the experiment does not say.
    default_rounds : int
        Rounds when the experiment does not say.
    uses_rounds : bool
        False for a method that does the same however many rounds are asked for.
    uses_budget : bool
        False for a method that guarantees nothing whatever epsilon says: its runs have an infinite budget.
    comparison_methods : callable of settings to mapping of str to mapping
        Methods, with their settings, that a simulation also runs, on the same rows, for comparison, each with a
        budget of its own; none by default.
    requires : callable of str to None
        Raises ``DPForestError`` where something that the method of that name needs is not installed; imports nothing.
    work : callable of Task to Work, or None
        How much one message asks of a client. A real node takes part in no method that does not say.
    scope : Scope
        Whose rows make a client's model: reports compare a federation with what there is without one.
    style : Style, or callable of its settings as configured to Style
        Colour, mark and line in figures; by default one of a palette, by its name.
    """

    name: str
    settings: type[Settings]
    server: Callable[[Task[Any]], ServerSide[Any]]
    client: Callable[[], ClientSide[Any]]
    protections: Sequence[Protection] | Callable[[Any], Sequence[Protection]]
    default_rounds: int = 1
    uses_rounds: bool = True
    uses_budget: bool = True
    comparison_methods: Callable[[Any], Mapping[str, Mapping[str, Any]]] = lambda settings: {}
    requires: Callable[[str], None] = lambda name: None
    work: Callable[[Task[Any]], Work] | None = None
    scope: Scope = Scope.FEDERATED
    style: Style | Callable[[Mapping[str, Any]], Style] | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.settings, type) and issubclass(self.settings, Settings)):
            raise DPForestError(
                f"settings of the method {self.name!r} must be a subclass of dpforest.settings.Settings"
            )
        if not callable(self.protections) and not all(isinstance(each, Protection) for each in self.protections):
            raise DPForestError(f"protections of the method {self.name!r} must be instances of Protection")

    def protection(self, settings: Any, unit: str | None = None, trust: str | None = None) -> Protection:
        """What the method proves for a unit under a trust model; None means the method's own.

        A method without a budget guarantees nothing under any of them.

        Raises
        ------
        DPForestError
            The method has no proof for it; says the nearest that it has one for.
        """
        wanted = {"unit": unit, "trust": trust}
        proven = self.protections(settings) if callable(self.protections) else self.protections
        fitting = [each for each in proven if unit in (None, each.unit.kind) and trust in (None, each.trust.kind)]
        if fitting or not self.uses_budget:
            return [*fitting, *proven][0]
        near = max(proven, key=lambda each: (each.unit.kind == unit, each.trust.kind == trust))
        asked = " ".join(f"privacy.{name}={value}" for name, value in wanted.items() if value is not None)
        raise DPForestError(f"strategy {self.name} has no proof for {asked}; the nearest that it has one for is {near}")

    def style_under(self, settings: Mapping[str, Any]) -> Style:
        """Colour, mark and line under settings as a configuration has them."""
        if self.style is None:
            return palette_style(self.name)
        return self.style if isinstance(self.style, Style) else self.style(settings)
