"""The client's door: every message is validated, answered from the node's own rows, and paid for in its ledger."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import zlib
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from dpforest.errors import DPForestError
from dpforest.ledger import RECORD_UNIT, Ledger
from dpforest.noise import Noise, Secure, Seeded
from fl_app.data import ClientData, client_data, node_data
from fl_app.experiment import Experiment
from fl_app.metrics import classification_sums, regression_sums
from fl_app.node_state import StateError, node_secret
from fl_app.owner import (
    Refused,
    check_has_data,
    check_owner_allows,
    check_work,
    is_simulated,
    spend_lifetime_budget,
)
from strategies.messages import (
    ARRAYS,
    CONFIG,
    METRICS,
    BadMessage,
    RowsChanged,
    error_content,
    read_arrays,
    read_config,
    to_arrays_record,
    update_content,
)
from strategies.method import Arrays, ClientSide, ClientTask, Task

log = logging.getLogger(__name__)

# `flwr run` loads this before it starts Ray, which would otherwise join a cluster that is there, or wait without a word
# for one that is dead.
os.environ.setdefault("RAY_ADDRESS", "local")

app = ClientApp()
_STATE, _FAILED = "dpforest", "failed"
FAILURE = "whether training fails"


@app.query()
def introduce(message: Message, context: Context) -> Message:
    """Say which part of the federation this node plays; public facts of its configuration only."""
    try:
        content = RecordDict({CONFIG: ConfigRecord({"partition-id": _partition_id(context)})})
    except BadMessage as error:
        log.warning("%s", error)
        content = error_content(-1, error)
    return Message(content, reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """One exchange of a method: learn from the training rows and send what the ledger allows."""
    return _answer(message, context, _train)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Score the current model on the node's test rows, for the researcher."""
    return _answer(message, context, _evaluate)


def _answer(
    message: Message, context: Context, action: Callable[[Message, Context, Experiment, int], RecordDict]
) -> Message:
    client = -1
    try:
        client = _partition_id(context)
        config = read_config(message.content)
        experiment = _experiment(str(config.get("experiment", "")))
        check_owner_allows(experiment, context, message.metadata.message_type.startswith("evaluate"))
        _check_on_node(experiment, context)
        content = action(message, context, experiment, client)
    except Exception as error:
        if not is_simulated(context):  # there the server says it
            log.warning("client %d: %s: %s", client, type(error).__name__, error)
        # The text of an error may show a data value, which must not leave a real node.
        sayable = is_simulated(context) or isinstance(error, BadMessage | Refused | StateError)
        public = error if sayable else DPForestError("see its log")
        content = error_content(client, public, isinstance(error, Refused), _has_failed(context))
    return Message(content, reply_to=message)


def _check_on_node(experiment: Experiment, context: Context) -> None:
    """What a real node must be sure of before it spends anything."""
    if is_simulated(context):
        return
    # The ledger and the owner's limits count what is released about a record, and a person is in every sample.
    if (records := experiment.source.records_per_sample) > 1:
        raise Refused(
            f"windows overlap (dataset.overlap=count): a raw sample would be in up to {records} records and cost "
            f"{records} x epsilon; on real nodes set dataset.step to dataset.length or more"
        )
    check_has_data(experiment.source, context)
    node_secret(context.node_config)


def _train(message: Message, context: Context, experiment: Experiment, client: int) -> RecordDict:
    config = read_config(message.content)
    clients, arrays = _whole(config, "clients"), read_arrays(message.content)
    # First the task: it binds this run to this experiment, so that no run can try many questions until one works.
    task = _client_task(message, context, experiment, client, clients)
    try:
        rows = _data(experiment, context, client, clients).train
        if not len(rows) and (task.simulated or not _promises_about_records(experiment)):
            # On a real node this answer tells none from one, so whatever promises anything about one learns from none.
            raise BadMessage("this client has no training rows")
        update = experiment.method.client().train(task, rows.X, rows.y, arrays)
        return update_content(update, client, task.ledger, "seeded" if _is_seeded(experiment, context) else "secure")
    except Exception as error:
        if not task.simulated and _may_show_rows(error):
            _end_run(context, task.ledger, error)
        raise
    finally:
        # Also where training fails after it has drawn its noise: that it failed may follow from what was paid for.
        _keep_ledger(context, task.ledger)


def _promises_about_records(experiment: Experiment) -> bool:
    """Whether a ledger may guarantee something about single records, by the client alone or by sums over clients."""
    method = experiment.method
    return method.protects_itself(experiment.settings) or (method.uses_budget and method.unit == RECORD_UNIT)


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


def _evaluate(message: Message, context: Context, experiment: Experiment, client: int) -> RecordDict:
    config = read_config(message.content)
    clients, arrays = _whole(config, "clients"), read_arrays(message.content)
    task = _client_task(message, context, experiment, client, clients)
    rows = _data(experiment, context, client, clients).test
    if not len(rows):
        raise BadMessage("this client has no test rows")
    side = experiment.method.client()
    own = _own_model(side, task, context)
    predicted = side.predict(task, rows.X, arrays)
    sums = classification_sums if task.schema.is_classification else regression_sums
    metrics = MetricRecord({**sums(rows.y, predicted)})
    by_owner = {}
    if bool(config.get("by-owner", False)) and task.schema.is_classification:
        by_owner = _accuracy_by_owner(experiment, task, rows.X, rows.y, arrays)
    content = RecordDict({METRICS: metrics, CONFIG: ConfigRecord({"client": client, "by_owner": json.dumps(by_owner)})})
    if own is not None:
        content[ARRAYS] = to_arrays_record(own)
    return content


def _own_model(side: ClientSide, task: ClientTask, context: Context) -> Arrays | None:
    """The model that only this client has, for a simulation.

    Raises
    ------
    Refused
        On a real node, if the method gives each client its own, whether there is one or not. It may hold exact counts
        of training rows, and its metrics would tell them to who knows or chose test rows.
    """
    try:
        own = side.own_model(task)
    except DPForestError:
        if _shows_own_model(context):
            raise
        own = {}
    if own is not None and not _shows_own_model(context):
        raise Refused("this node's model is its own, made from training rows in clear: no metrics of it are shared")
    return own


def _accuracy_by_owner(
    experiment: Experiment, task: ClientTask, X: np.ndarray, y: np.ndarray, arrays: dict[str, np.ndarray]
) -> dict[str, dict[str, float]]:
    """Accuracy of each owner's part on all test rows (key ``all``) and on random subsets of the asked sizes."""
    votes = experiment.method.client().predict_by_owner(task, X, arrays) or {}
    order = task.rng("memorization").permutation(len(y))
    subsets = {"all": order} | {str(n): order[:n] for n in experiment.memorization}
    return {
        size: {str(owner): float((vote[index] == y[index]).mean()) for owner, vote in votes.items()}
        for size, index in subsets.items()
    }


def _client_task(message: Message, context: Context, experiment: Experiment, client: int, clients: int) -> ClientTask:
    config = read_config(message.content)
    round_ = _whole(config, "round")
    simulated = is_simulated(context)

    def entropy(purpose: str) -> np.random.SeedSequence:
        return np.random.SeedSequence(experiment.seed, spawn_key=(client, round_, zlib.crc32(purpose.encode())))

    def noise(purpose: str) -> Noise:
        return Seeded(entropy(purpose)) if _is_seeded(experiment, context) else Secure()

    def rng(purpose: str) -> np.random.Generator:
        return np.random.default_rng(entropy(purpose) if simulated else None)

    task = _task(str(config.get("experiment", "")), clients)
    check_work(experiment, task, context)
    return ClientTask(
        **task.__dict__,
        client=client,
        round=round_,
        ledger=_ledger(context, experiment, config, simulated),
        noise=noise,
        rng=rng,
        state=context.state,
        config=config,
        simulated=simulated,
    )


def _shows_own_model(context: Context) -> bool:
    """A client's own model may hold its exact counts, so only a simulation shows it, or how it does, to anybody."""
    return is_simulated(context)


def _is_seeded(experiment: Experiment, context: Context) -> bool:
    return is_simulated(context) and experiment.privacy.noise == "seeded"


def _ledger(context: Context, experiment: Experiment, config: ConfigRecord, simulated: bool) -> Ledger:
    """The client's ledger of this run, empty at its first message."""
    run = str(config.get("run", ""))
    terms = hashlib.sha256(f"{config.get('clients')!r} {config.get('experiment')!r}".encode()).hexdigest()
    kept = context.state.config_records.get(_STATE)
    if kept is not None and kept["run"] == run:
        if kept["terms"] != terms:
            # Otherwise a server could train on some rows and then ask about others, or raise the budget.
            raise Refused("the experiment is not the one that this run began with; start a new run")
        if _has_failed(context):
            raise Refused("training has failed on this node, which takes no more part in this run")
        return Ledger.from_dict(json.loads(str(kept["ledger"])))
    if kept is not None and not simulated:
        # Otherwise a server could start over, with a new budget, as often as it likes.
        raise Refused("this node has already spent a budget in this Flower run; start a new run")
    if not simulated:
        spend_lifetime_budget(experiment, context)
    context.state.clear()
    ledger = Ledger(experiment.budget, experiment.method.unit, experiment.trust)
    context.state[_STATE] = ConfigRecord({"run": run, "terms": terms, "ledger": json.dumps(ledger.to_dict())})
    return ledger


def _keep_ledger(context: Context, ledger: Ledger) -> None:
    kept = context.state.config_records[_STATE]
    kept["ledger"] = json.dumps(ledger.to_dict())


def _data(experiment: Experiment, context: Context, client: int, clients: int) -> ClientData:
    if is_simulated(context) and context.node_config.get("data-path") is None:
        return client_data(experiment.source, experiment.partition, experiment.evaluation, client, clients)
    secret = node_secret(context.node_config)
    return node_data(experiment.source, context.node_config.get("data-path"), client, clients, secret)


@lru_cache(maxsize=16)
def _experiment(text: str) -> Experiment:
    return Experiment.from_json(text)


@lru_cache(maxsize=16)
def _task(text: str, clients: int) -> Task:
    return _experiment(text).task(clients)


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
