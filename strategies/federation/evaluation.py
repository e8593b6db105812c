"""What a client reports about the current model on its test rows; all of it is checked."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from flwr.app import Message

from dpforest.errors import one_line
from dpforest.schema import Schema
from dpforest.texts import parse_json
from strategies.messages import CONFIG, LONGEST, METRICS, BadMessage, read_arrays, read_config
from strategies.method import Arrays
from strategies.metrics import Sums, add_sums, check_sums, joint_metrics, noised_summary
from strategies.private_metrics import NOISED, PrivateSums

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evaluation:
    """What one client reported.

    Parameters
    ----------
    client : int
    sums : mapping of str to list of float
        See `strategies.metrics`.
    by_owner : mapping of str to mapping of int to float
        Accuracy of each owner's part of the model, by number of test rows.
    own_model : mapping of str to ndarray
        The model that only this client has, in a simulation; empty if it has none.
    release : PrivateSums, optional
        Of which the sums are, where they are noised.
    clients : int
        Whose sums they are together, and whose noise is in them.
    """

    client: int
    sums: Sums
    by_owner: Mapping[str, Mapping[int, float]]
    own_model: Arrays
    release: PrivateSums | None = None
    clients: int = 1


@dataclass(frozen=True)
class Joint:
    """What several clients' test rows together say.

    Parameters
    ----------
    sums : mapping of str to list of float
        Those that all of the clients have.
    metrics : mapping of str to float
    intervals : mapping of str to (float, float)
        Where the exact metrics lie (`strategies.metrics.noised_summary`); empty where nothing is noised.
    """

    sums: Sums
    metrics: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def joint(evaluations: Sequence[Evaluation]) -> Joint:
    """Sums and metrics of several clients, at least one, together."""
    release = next((each.release for each in evaluations if each.release), None)
    if release is None:
        total = add_sums(each.sums for each in evaluations)
        return Joint(total, joint_metrics([total]))
    sums = add_sums(each.sums if each.release else release.sums_in_clear(each.sums) for each in evaluations)
    noised = sum(each.clients for each in evaluations if each.release is not None)
    try:
        metrics, intervals = noised_summary(sums, release.possible(sums, noised))
    except Exception as error:  # as in `joint_metrics`
        log.warning("no test metrics: %s: %s", type(error).__name__, error)
        return Joint(sums, {})
    return Joint(sums, metrics, intervals)


def has_metrics(reply: Message) -> bool:
    """Whether a reply holds test metrics, also such as are of no use."""
    return reply.has_content() and reply.content.metric_records.get(METRICS) is not None


def refuses(reply: Message) -> bool:
    """Whether a client says that its owner does not allow what it was asked."""
    config = reply.content.config_records.get(CONFIG) if reply.has_content() else None
    return config is not None and config.get("refused") is True


def refusal(reply: Message) -> str | None:
    """Why a client's owner shares no metrics, in its words; None if it does not refuse."""
    return one_line(str(read_config(reply.content).get("error")), LONGEST) if refuses(reply) else None


def is_noised(reply: Message) -> bool:
    """Whether a reply says that its test metrics are noised."""
    return has_metrics(reply) and NOISED in reply.content.metric_records[METRICS]


def read_evaluation(
    reply: Message, client: int, schema: Schema, owners: Collection[int], release: PrivateSums | None = None
) -> Evaluation:
    """A client's evaluation.

    Parameters
    ----------
    reply : Message
    client : int
    schema : Schema
    owners : collection of int
        Clients that train.
    release : PrivateSums, optional
        What a client may send noised.

    Raises
    ------
    DPForestError
        The reply is an error, does not have the form of an evaluation, or says what cannot be.
    """
    if reply.has_error():
        raise BadMessage(one_line(f"the client failed: {reply.error.reason}", LONGEST))
    config = read_config(reply.content)
    if "error" in config:
        raise BadMessage(one_line(str(config["error"]), LONGEST))
    metrics = reply.content.metric_records.get(METRICS)
    if metrics is None:
        raise BadMessage("the evaluation has no metrics")
    if release is not None and NOISED in metrics:
        noised = release.sums(release.read(metrics[NOISED]))
        return Evaluation(client, noised, {}, {}, release)
    sums = {name: [float(x) for x in values] for name, values in metrics.items() if isinstance(values, list)}
    check_sums(sums, schema)
    by_owner = _read_by_owner(str(config.get("by_owner", "{}")), owners)
    return Evaluation(client, sums, by_owner, read_arrays(reply.content))


def _read_by_owner(text: str, owners: Collection[int]) -> dict[str, dict[int, float]]:
    try:
        plain = parse_json(text)
        by_owner = {size: {int(owner): float(x) for owner, x in row.items()} for size, row in plain.items()}
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise BadMessage(f"accuracies by owner cannot be read: {error}") from error
    rows = list(by_owner.values())
    if any(set(row) != set(rows[0]) or not set(row) <= set(owners) for row in rows):
        raise BadMessage("accuracies by owner name clients that do not train, or not the same at all sizes")
    if any(not 0 <= value <= 1 for row in rows for value in row.values()):
        raise BadMessage("an accuracy by owner is not between 0 and 1")
    return by_owner
