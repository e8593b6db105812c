"""What travels: records under fixed names. Everything received is checked here before use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from dpforest.errors import DPForestError, one_line
from dpforest.ledger import Ledger
from dpforest.texts import parse_json
from strategies.method import Arrays, ClientUpdate, Update

ARRAYS, CONFIG, METRICS = "arrays", "config", "metrics"
LONGEST = 500  # characters that are shown of what a client says
UNPROTECTED = "unprotected"
AT_END = "at-end"
PHASE = "phase"  # the setting that says what of secure aggregation is asked for
_MAX_DIMENSIONS = 8
# Names, kinds and bytes of the arrays that this process has read last, and what they are.
_last_read: tuple[list[tuple[str, str, bytes]], dict[str, np.ndarray]] = ([], {})


class BadMessage(DPForestError):
    """A message does not have the form that the protocol gives it."""


class Declined(DPForestError):
    """A client will not do what a message asks, by what it knows but rows; a server may read why."""


class RowsChanged(DPForestError):
    """A client's rows are not those that its run began with: a fact about rows that no mechanism has let through."""

    def __init__(self) -> None:
        super().__init__("the rows of this client have changed since the run began: start a new run")


def to_arrays_record(arrays: Arrays) -> ArrayRecord:
    """Pack named arrays as npy bytes (no pickle)."""
    record = ArrayRecord()  # Flower would copy every Array of a dict that it is given
    for name, array in arrays.items():
        record[name] = Array.from_numpy_ndarray(np.ascontiguousarray(array))
    return record


def read_arrays(content: RecordDict) -> dict[str, np.ndarray]:
    """Named arrays of a message.

    Raises
    ------
    BadMessage
        An array cannot be read as plain numbers.
    """
    record = content.get(ARRAYS)
    return plain_arrays(record) if isinstance(record, ArrayRecord) else {}


def plain_arrays(record: ArrayRecord) -> dict[str, np.ndarray]:
    """Named arrays of a record; raises as `read_arrays`.

    What the process has read last is remembered: many clients of a simulation are sent the same model. So nobody may
    change the arrays.
    """
    global _last_read
    sent = [(name, array.stype, array.data) for name, array in record.items()]
    known, arrays = _last_read
    # Of the same bytes object, Python knows without a look at them.
    if sent != known:
        arrays = _read_plain(record)
        _last_read = (sent, arrays)
    return dict(arrays)


def _read_plain(record: ArrayRecord) -> dict[str, np.ndarray]:
    arrays = {}
    for name, array in record.items():
        try:
            value = array.numpy()
        except Exception as error:
            raise BadMessage(f"array {name!r} cannot be read: {type(error).__name__}") from error
        if not isinstance(value, np.ndarray):  # NumPy also opens zip archives of arrays
            raise BadMessage(f"array {name!r} is no single array")
        if value.dtype.kind not in "iufb" or value.ndim > _MAX_DIMENSIONS:
            raise BadMessage(
                f"array {name!r} has type {value.dtype} and {value.ndim} dimensions; expected plain numbers"
            )
        value.flags.writeable = False
        arrays[name] = value
    return arrays


def read_config(content: RecordDict) -> ConfigRecord:
    """The settings of a message.

    Raises
    ------
    BadMessage
        It has none.
    """
    config = content.get(CONFIG)
    if not isinstance(config, ConfigRecord):
        raise BadMessage("the message has no settings")
    return config


def update_content(update: Update, client: int, ledger: Ledger, noise: Literal["seeded", "secure"]) -> RecordDict:
    """A client's reply to a training message."""
    return RecordDict(
        {
            ARRAYS: to_arrays_record(update.arrays),
            METRICS: MetricRecord({name: float(value) for name, value in update.metrics.items()}),
            CONFIG: ConfigRecord({"client": client, "noise": noise, "ledger": json.dumps(ledger.to_dict())}),
        }
    )


def read_update(message: Message, client: int) -> tuple[ClientUpdate, Ledger]:
    """A client's update and ledger.

    Raises
    ------
    BadMessage
        The reply is an error, or does not have the form of an update.
    """
    if message.has_error():
        raise BadMessage(one_line(f"the client failed: {message.error.reason}", LONGEST))
    config = read_config(message.content)
    if "error" in config:
        raise BadMessage(one_line(str(config["error"]), LONGEST))
    metrics = message.content.metric_records.get(METRICS, MetricRecord())
    ledger = read_ledger(message)
    numbers = {name: float(value) for name, value in metrics.items() if isinstance(value, int | float)}
    noise = "secure" if config.get("noise") == "secure" else "seeded"
    return ClientUpdate(read_arrays(message.content), numbers, client, noise), ledger


def read_ledger(message: Message) -> Ledger:
    """The client's ledger in its reply; raises `BadMessage`."""
    try:
        return Ledger.from_dict(parse_json(str(read_config(message.content)["ledger"])))
    except (KeyError, DPForestError) as error:
        raise BadMessage(f"the reply has no readable ledger: {error}") from error


def error_content(client: int, error: Exception, refused: bool = False, unprotected: bool = False) -> RecordDict:
    """A client's reply when it cannot, or as its owner decides will not, do what was asked.

    A real node passes only what shows no data.

    Parameters
    ----------
    unprotected : bool
        That it failed may itself follow from rows, so that nothing is guaranteed about this client any more.
    """
    words = f"{type(error).__name__}: {error}"
    config = ConfigRecord({"client": client, "error": words, "refused": refused, UNPROTECTED: unprotected})
    return RecordDict({CONFIG: config})


def copied(config: Mapping[str, Any]) -> ConfigRecord:
    """A record of its own for one message; Flower shares a record that is given to several."""
    return ConfigRecord(dict(config))
