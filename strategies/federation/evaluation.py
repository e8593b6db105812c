"""What a client reports about the current model on its test rows; all of it is checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from flwr.app import Message

from dpforest.errors import one_line
from dpforest.schema import Schema
from dpforest.texts import parse_json
from strategies.messages import LONGEST, METRICS, BadMessage, read_arrays, read_config
from strategies.method import Arrays
from strategies.metrics import Sums, check_sums


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
    """

    client: int
    sums: Sums
    by_owner: Mapping[str, Mapping[int, float]]
    own_model: Arrays


def has_metrics(reply: Message) -> bool:
    """Whether a reply holds test metrics, also such as are of no use."""
    return reply.has_content() and reply.content.metric_records.get(METRICS) is not None


def refusal(reply: Message) -> str | None:
    """Why a client's owner shares no metrics, in its words; None if it does not refuse."""
    if reply.has_error():
        return None
    config = read_config(reply.content)
    return one_line(str(config.get("error")), LONGEST) if config.get("refused") is True else None


def read_evaluation(reply: Message, client: int, schema: Schema, owners: Collection[int]) -> Evaluation:
    """A client's evaluation.

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
