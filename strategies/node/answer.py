"""Answering a message: it is validated, answered from the node's own rows, and paid for in its ledger."""

from __future__ import annotations

import hashlib
import json
import logging
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict

from dpforest.errors import DPForestError
from dpforest.guarantee import PrivacyUnit, TrustModel
from dpforest.ledger import TEST_ROWS, Ledger
from dpforest.noise import Noise, Secure, Seeded
from dpforest.schema import Schema
from strategies.flower_compat import is_simulated
from strategies.messages import (
    ARRAYS,
    AT_END,
    CONFIG,
    METRICS,
    PHASE,
    BadMessage,
    Declined,
    RowsChanged,
    error_content,
    read_arrays,
    read_config,
    to_arrays_record,
    update_content,
)
from strategies.method import Arrays, ClientSide, ClientTask, Task
from strategies.metrics import classification_sums, regression_sums
from strategies.node.budget_file import Outcome
from strategies.node.consent import (
    Refused,
    check_owner_allows,
    check_schema,
    check_shares_metrics,
    check_work,
    node_identity,
    shares_privately,
    spend_lifetime_budget,
    write_answer,
    write_request,
)
from strategies.plan import RunPlan
from strategies.private_metrics import LAST, NOISED, PrivateSums, predict_each, shared_sums

if TYPE_CHECKING:
    from strategies.secure_aggregation.fellows import Identity

log = logging.getLogger(__name__)

_STATE, _FAILED = "dpforest", "failed"
_INTRODUCE, _TRAIN, _EVALUATE = "introduce", "train", "evaluate"  # kinds of messages
FAILURE = "whether training fails"


class Sayable(DPForestError):
    """An error of a node whose text shows nothing of its rows, so that a server may read it."""


class NotYet(Refused):
    """Test metrics were asked for before the end of a run."""


P = TypeVar("P", bound=RunPlan)


class Host(ABC, Generic[P]):
    """What an app brings: how its messages name a run, and its rows.

    Attributes
    ----------
    setting : str
        The setting of a message that holds the run's plan.
    """

    setting: ClassVar[str]

    @abstractmethod
    def plan(self, text: str) -> P:
        """The plan in a message; nothing in it is believed."""

    def check(self, plan: P, context: Context) -> None:
        """What a node must know, with its owner's consent, before it spends anything; raises `Refused`."""

    @abstractmethod
    def rows(
        self, plan: P, context: Context, client: int, clients: int, part: Literal["train", "test"]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The node's rows of a part, inside the schema's bounds.

        ``X`` is in single precision, the other has class indices or targets.
        """


@dataclass(frozen=True)
class _Asked:
    """One message with what it is about."""

    config: ConfigRecord
    arrays: dict[str, np.ndarray]
    context: Context
    host: Host[Any]
    text: str
    plan: RunPlan
    client: int

    @property
    def clients(self) -> int:
        return _whole(self.config, "clients")

    @property
    def simulated(self) -> bool:
        return is_simulated(self.context)

    @property
    def is_seeded(self) -> bool:
        return self.simulated and self.plan.noise == "seeded"

    @property
    def kind_of_noise(self) -> Literal["seeded", "secure"]:
        return "seeded" if self.is_seeded else "secure"

    def rows(self, part: Literal["train", "test"]) -> tuple[np.ndarray, np.ndarray]:
        return self.host.rows(self.plan, self.context, self.client, self.clients, part)


def introduce(message: Message, context: Context) -> Message:
    """Say which part of the federation this node plays; public facts of its configuration only.

    Parameters
    ----------
    message : Message
        From the server; untrusted.
    context : Context
        Of the node.

    Returns
    -------
    Message
        The number of its client, and its versions.
    """

    def content() -> RecordDict:
        try:
            return RecordDict({CONFIG: ConfigRecord({"partition-id": _partition_id(context)})})
        except BadMessage as error:
            log.warning("%s", error)
            return error_content(-1, error)

    return Message(_on_record(_INTRODUCE, None, context, content), reply_to=message)


def train(message: Message, context: Context, host: Host[Any]) -> Message:
    """One exchange of a method: learn from the training rows and send what the ledger allows."""
    return _answer(message, context, host, _train)


def evaluate(message: Message, context: Context, host: Host[Any]) -> Message:
    """Score the current model on the node's test rows, for the researcher."""
    return _answer(message, context, host, _evaluate)


def _answer(message: Message, context: Context, host: Host[Any], action: Callable[[_Asked], RecordDict]) -> Message:
    kind = _EVALUATE if action is _evaluate else _TRAIN
    content = partial(_content, message, context, host, action)
    plan = None
    if not is_simulated(context):
        with suppress(Exception):  # said by `_content`
            plan = _plan(host, _text(host, message))
    return Message(_on_record(kind, plan, context, content), reply_to=message)


def _on_record(kind: str, plan: RunPlan | None, context: Context, content: Callable[[], RecordDict]) -> RecordDict:
    """What is answered to a message; a real node writes down that it came, and then what it is answered."""
    if is_simulated(context):
        return content()
    try:
        number = write_request(kind, plan, context)
        answer = content()
        said = answer.config_records.get(CONFIG, ConfigRecord())
        outcome: Outcome = "answered"
        if "error" in said:
            outcome = "refused" if said.get("refused") is True else "failed"
        write_answer(number, outcome, str(said.get("error", "")), context)
        return answer
    except Refused as error:
        return error_content(-1, error, refused=True, unprotected=_has_failed(context))


def _content(message: Message, context: Context, host: Host[Any], action: Callable[[_Asked], RecordDict]) -> RecordDict:
    client = -1
    try:
        client = _partition_id(context)
        config = read_config(message.content)
        text = _text(host, message)
        plan = _plan(host, text)
        check_owner_allows(plan, context)
        host.check(plan, context)
        return action(_Asked(config, read_arrays(message.content), context, host, text, plan, client))
    except Exception as error:
        if not is_simulated(context):  # there the server says it
            log.warning("client %d: %s: %s", client, type(error).__name__, error)
        # The text of an error may show a data value, which must not leave a real node.
        sayable = is_simulated(context) or isinstance(error, BadMessage | Refused | Declined | Sayable)
        public = error if sayable else DPForestError("see its log")
        content = error_content(client, public, isinstance(error, Refused | Declined), _has_failed(context))
        if isinstance(error, NotYet):
            content.config_records[CONFIG][AT_END] = True
        return content


def _text(host: Host[Any], message: Message) -> str:
    return str(read_config(message.content).get(host.setting, ""))


def _train(asked: _Asked) -> RecordDict:
    # First the task: it binds this run to this plan, so that no run can try many questions until one works.
    task = _client_task(asked)
    with _accounted(asked, task):
        X, y = asked.rows("train")
        if not len(X) and (task.simulated or not _hides_rows(asked.plan)):
            # On a real node this answer tells none from one, so what guarantees anything about one learns from none.
            raise BadMessage("this client has no training rows")
        update = asked.plan.method.client().train(task, X, y, asked.arrays)
        return update_content(update, asked.client, task.ledger, asked.kind_of_noise)


@contextmanager
def _accounted(asked: _Asked, task: ClientTask[Any]) -> Iterator[None]:
    """Keep the ledger whatever comes, and end the run after a failure that may follow from rows."""
    try:
        yield
    except Exception as error:
        if not task.simulated and _may_show_rows(error):
            _end_run(asked.context, task.ledger, error)
        raise
    finally:
        # Also where training fails after it has drawn its noise: that it failed may follow from what was paid for.
        _keep_ledger(asked.context, task.ledger)


def _hides_rows(plan: RunPlan) -> bool:
    """Whether a ledger may guarantee something against the server, so that it must not learn whether there are rows."""
    protection = plan.protection
    hidden = protection.unit.kind is PrivacyUnit.RECORD or protection.trust.kind is not TrustModel.CENTRAL
    return protection.by_client_alone or (plan.method.uses_budget and hidden)


def _may_show_rows(error: Exception) -> bool:
    """Whether it may follow from rows that this was raised; see `ClientSide.train` for what does not."""
    return isinstance(error, RowsChanged) or not isinstance(error, DPForestError)


def _end_run(context: Context, ledger: Ledger, error: Exception) -> None:
    """Write down that the server sees a failure which nobody foresaw, and answer nothing more in this run.

    The failure itself cannot be taken back: an answer made up in its place would be known by its noise. So the
    guarantee of the run ends, in the ledger of whom it was given to, and one such fact is all that a run can show.
    """
    ledger.unprotected(FAILURE, f"{type(error).__name__}, which may follow from rows; see the log of this node")
    context.state.config_records[_STATE][_FAILED] = True
    log.error("training failed in a way that may show rows, so this run has no guarantee any more", exc_info=error)


def _has_failed(context: Context) -> bool:
    """Whether `_end_run` has ended this run."""
    return _FAILED in context.state.config_records.get(_STATE, {})


def _evaluate(asked: _Asked) -> RecordDict:
    check_shares_metrics(asked.plan, asked.context)
    if PHASE in asked.config and not shares_privately(asked.plan, asked.context):
        raise Refused("this node shares its test metrics in clear, and not in a sum")
    return (_evaluate_privately if shares_privately(asked.plan, asked.context) else _evaluate_in_clear)(asked)


def _evaluate_privately(asked: _Asked) -> RecordDict:
    """Noised sums of the test rows, once in a run; `strategies.private_metrics` has the proof.

    Whatever is asked, and whether the rows are any: what is sent has one form, and after the charge no error but what
    follows from the message can be had without ending the run.
    """
    if asked.config.get(LAST) is not True:
        raise NotYet("this node shares its test metrics once, of the model at the end of a run")
    task = _client_task(asked)
    side = asked.plan.method.client()
    model_to_send(side, task, shows=False)
    if PHASE in asked.config:
        return _evaluate_in_a_sum(asked, task, side)
    release = PrivateSums(task.schema, task.budget.epsilon)
    with _accounted(asked, task):
        noised = _noised_sums(asked, task, side, release).tolist()
    said = ConfigRecord(
        {"client": asked.client, "noise": asked.kind_of_noise, "ledger": json.dumps(task.ledger.to_dict())}
    )
    return RecordDict({METRICS: MetricRecord({NOISED: noised}), CONFIG: said})


def _evaluate_in_a_sum(asked: _Asked, task: ClientTask[Any], side: ClientSide[Any]) -> RecordDict:
    """The same where nodes share noise: an answer of secure aggregation, of which one is of test rows."""
    from strategies.secure_aggregation.sharing import secure_update  # slow to import, and needed at the end only

    release, secure = shared_sums(task)
    if task.identity is not None:
        about = hashlib.sha256(b"test metrics " + task.identity.about).digest()
        task = replace(task, identity=replace(task.identity, about=about))
    model = {name: array for name, array in asked.arrays.items() if not name.startswith("secure.")}

    def vector() -> np.ndarray:
        return _noised_sums(replace(asked, arrays=model), task, side, release, secure.largest_sum)

    with _accounted(asked, task):
        update = secure_update(task, secure.terms, asked.arrays, vector, NOISED)
        return update_content(update, asked.client, task.ledger, asked.kind_of_noise)


def _noised_sums(
    asked: _Asked, task: ClientTask[Any], side: ClientSide[Any], release: PrivateSums, largest: int | None = None
) -> np.ndarray:
    """Charge for test metrics, read the test rows, and noise their sums, cut off at ``largest`` before."""
    if any(entry.rows == TEST_ROWS for entry in task.ledger.entries):
        raise Refused("this node has shared its test metrics of this run")
    paid = release.mechanism.charge(release.entry, task.ledger)
    X, y = asked.rows("test")
    exact = release.exact(y, predict_each(side, task, X, asked.arrays))
    return paid.draw(exact if largest is None else np.clip(exact, -largest, largest), task.noise(NOISED))


def _evaluate_in_clear(asked: _Asked) -> RecordDict:
    task = _client_task(asked)
    X, y = asked.rows("test")
    if not len(X):
        raise BadMessage("this client has no test rows")
    side = asked.plan.method.client()
    arrays = asked.arrays
    own = model_to_send(side, task, shows=task.simulated)
    predicted = side.predict(task, X, arrays)
    sums = classification_sums if task.schema.is_classification else regression_sums
    metrics = MetricRecord({**sums(y, predicted)})
    by_owner = {}
    if bool(asked.config.get("by-owner", False)) and task.schema.is_classification:
        by_owner = _accuracy_by_owner(asked.plan, task, X, y, arrays)
    answer = ConfigRecord({"client": asked.client, "by_owner": json.dumps(by_owner)})
    content = RecordDict({METRICS: metrics, CONFIG: answer})
    if own is not None:
        content[ARRAYS] = to_arrays_record(own)
    return content


def model_to_send(side: ClientSide, task: ClientTask, shows: bool) -> Arrays | None:
    """The model that only this client has, if it ``shows`` it: in a simulation, where metrics are in clear.

    Raises
    ------
    Refused
        It does not, and the method gives each client its own, whether there is one or not. It may hold exact counts
        of training rows, and its metrics would tell them to who knows or chose test rows.
    """
    try:
        own = side.own_model(task)
    except DPForestError:
        if shows:
            raise
        own = {}
    if own is not None and not shows:
        raise Refused("this node's model is its own, made from training rows in clear: no metrics of it are shared")
    return own


def _accuracy_by_owner(
    plan: RunPlan, task: ClientTask, X: np.ndarray, y: np.ndarray, arrays: Arrays
) -> dict[str, dict[str, float]]:
    """Accuracy of each owner's part on all test rows (key ``all``) and on random subsets of the asked sizes."""
    votes = plan.method.client().predict_by_owner(task, X, arrays) or {}
    order = task.rng("memorization").permutation(len(y))
    subsets = {"all": order} | {str(n): order[:n] for n in plan.memorization}
    return {
        size: {str(owner): float((vote[index] == y[index]).mean()) for owner, vote in votes.items()}
        for size, index in subsets.items()
    }


def _client_task(asked: _Asked) -> ClientTask:
    clients, round_ = asked.clients, _whole(asked.config, "round")
    seed, client, simulated, seeded = asked.plan.seed, asked.client, asked.simulated, asked.is_seeded

    def entropy(purpose: str) -> np.random.SeedSequence:
        return np.random.SeedSequence(seed, spawn_key=(client, round_, zlib.crc32(purpose.encode())))

    def noise(purpose: str) -> Noise:
        return Seeded(entropy(purpose)) if seeded else Secure()

    def rng(purpose: str) -> np.random.Generator:
        return np.random.default_rng(entropy(purpose) if simulated else None)

    task = _task(asked.host, asked.text, clients)
    check_schema(task.schema, asked.context)
    check_work(asked.plan, task, asked.context)
    return ClientTask.of(
        task,
        client=client,
        round=round_,
        ledger=_ledger(asked, task.schema),
        noise=noise,
        rng=rng,
        state=asked.context.state,
        config=asked.config,
        simulated=simulated,
        identity=_identity(asked),
    )


def _identity(asked: _Asked) -> Identity | None:
    about = hashlib.sha256(f"{asked.context.run_id} {_terms(asked)}".encode()).digest()
    return node_identity(asked.context, about)


def _terms(asked: _Asked) -> str:
    """Hash of what a run is about, which stays from its first message to its last."""
    return hashlib.sha256(f"{asked.clients!r} {asked.text!r}".encode()).hexdigest()


def _ledger(asked: _Asked, schema: Schema) -> Ledger:
    """The client's ledger of this run, empty at its first message."""
    run = str(asked.config.get("run", ""))
    terms = _terms(asked)
    kept = asked.context.state.config_records.get(_STATE)
    if kept is not None and kept["run"] == run:
        if kept["terms"] != terms:
            # Otherwise a server could train on some rows and then ask about others, or raise the budget.
            raise Refused("the experiment is not the one that this run began with; start a new run")
        if _has_failed(asked.context):
            raise Refused("training has failed on this node, which takes no more part in this run")
        return Ledger.from_dict(json.loads(str(kept["ledger"])))
    if kept is not None and not asked.simulated:
        # Otherwise a server could start over, with a new budget, as often as it likes.
        raise Refused("this node has already spent a budget in this Flower run; start a new run")
    if not asked.simulated:
        spend_lifetime_budget(asked.plan, asked.context)
    state = asked.context.state
    state.clear()
    identity = _identity(asked)
    knows_fellows = identity is not None and identity.accepted is not None
    ledger = asked.plan.protection.ledger(asked.plan.budget, schema, knows_fellows)
    state[_STATE] = ConfigRecord({"run": run, "terms": terms, "ledger": json.dumps(ledger.to_dict())})
    return ledger


def _keep_ledger(context: Context, ledger: Ledger) -> None:
    kept = context.state.config_records[_STATE]
    kept["ledger"] = json.dumps(ledger.to_dict())


@lru_cache(maxsize=16)
def _plan(host: Host[Any], text: str) -> RunPlan:
    return host.plan(text)


@lru_cache(maxsize=16)
def _task(host: Host[Any], text: str, clients: int) -> Task[Any]:
    return _plan(host, text).task(clients)


def _partition_id(context: Context) -> int:
    value = context.node_config.get("partition-id")
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadMessage(
            f"this node's partition-id is {value!r}; set it in the node configuration (0, 1, ... one number a node)"
        )
    return value


def _whole(config: ConfigRecord, name: str) -> int:
    value = config.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10_000_000:
        raise BadMessage(f"the message says {name}={value!r}; expected a whole number from 1")
    return value
