"""ClientApps: one for any host, and one for anybody's own loading code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from flwr.app import Context, Message

from dpforest.errors import SchemaError
from dpforest.schema import Schema
from strategies.flower_compat import ShippedClientApp
from strategies.node.answer import Host, evaluate, introduce, train
from strategies.plan import PLAN, MethodPlan


class NodeApp(ShippedClientApp):
    """A ClientApp that answers from a host's rows.

    Parameters
    ----------
    host : Host
    simulated : bool
        Whether who starts the app plays its nodes.
    """

    def __init__(self, host: Host[Any], simulated: bool = False) -> None:
        super().__init__(simulated)
        self.host = host
        self.query()(introduce)
        self.train()(partial(train, host=host))
        self.evaluate()(partial(evaluate, host=host))

    def __reduce__(self) -> tuple[Callable[..., NodeApp], tuple[Any, ...]]:
        return type(self), (self.host, True)


@dataclass(frozen=True)
class LocalRows:
    """A node's own rows.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features), DataFrame or mapping of columns
        For training, in the schema's units; a matrix in the order of its features. What is out of bounds is clipped.
    y : array-like of shape (n_rows,)
        Class names, or targets.
    test_X, test_y : optional
        For evaluation. The same records in every run: one that was tested on must never be trained on. That private
        test metrics cost a record nothing on top of training needs a division that places each record by that record
        alone, such as by a keyed hash of it, and not a random or a stratified one of the whole table.

    Examples
    --------
    >>> rows = LocalRows({"age": [31, 54]}, ["well", "ill"])
    >>> rows.test_X is None
    True
    """

    X: Any
    y: Any
    test_X: Any = None
    test_y: Any = None


Load = Callable[[Context], LocalRows]


class RowsUnreadable(RuntimeError):
    """A node's own loading code failed, or its rows do not fit the schema: a fact about rows."""


@dataclass(frozen=True)
class LoadedRows(Host[MethodPlan]):
    """Rows from somebody's own loading code."""

    load: Load
    setting: ClassVar[str] = PLAN

    def plan(self, text: str) -> MethodPlan:
        return MethodPlan.from_text(text)

    def rows(
        self, plan: MethodPlan, context: Context, client: int, clients: int, part: Literal["train", "test"]
    ) -> tuple[np.ndarray, np.ndarray]:
        schema = plan.task(clients).schema
        try:
            rows = self.load(context)
            X, y = (rows.X, rows.y) if part == "train" else (rows.test_X, rows.test_y)
            return _none(schema) if X is None else _checked(schema, X, y)
        except Exception as error:
            raise RowsUnreadable(f"the {part} rows cannot be read: {type(error).__name__}: {error}") from error


class PrivateClientApp(NodeApp):
    """A ClientApp that trains any of the private methods on rows of your own.

    It keeps the node's ledger between messages, refuses what exceeds the budget, holds every message against what the
    node's owner allows, and draws secure noise on a real node.

    Parameters
    ----------
    load : callable of Context to LocalRows
        Your loading code; called for each message, so keep what is slow to read. Of a module that Flower can import.

    Examples
    --------
    >>> from strategies import LocalRows, PrivateClientApp
    >>> def load(context):
    ...     return LocalRows(X=[[0.1], [0.9]], y=["no", "yes"])
    >>> app = PrivateClientApp(load)
    """

    def __init__(self, load: Load) -> None:
        super().__init__(LoadedRows(load))

    def __reduce__(self) -> tuple[Callable[..., NodeApp], tuple[Any, ...]]:
        return NodeApp, (self.host, True)


def answer_train(message: Message, context: Context, load: Load) -> Message:
    """Answer a training message in a ClientApp of your own; that one counts as a real node wherever it runs.

    Parameters
    ----------
    message : Message
        From the server; untrusted.
    context : Context
        Of the node: its configuration and state.
    load : callable of Context to LocalRows
        Gives the node's rows.

    Returns
    -------
    Message
        The update with its ledger, or an error that says nothing about rows.
    """
    return train(message, context, LoadedRows(load))


def answer_evaluate(message: Message, context: Context, load: Load) -> Message:
    """Answer an evaluation message in a ClientApp of your own; see `answer_train`.

    Parameters
    ----------
    message : Message
        From the server; untrusted.
    context : Context
        Of the node: its configuration and state.
    load : callable of Context to LocalRows
        Gives the node's rows.

    Returns
    -------
    Message
        Sums over test rows as the owner allows, or an error that says nothing about rows.
    """
    return evaluate(message, context, LoadedRows(load))


def _none(schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    kind = np.int64 if schema.is_classification else np.float64
    return np.empty((0, schema.n_features), np.float32), np.empty(0, kind)


def _checked(schema: Schema, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    rows = schema.matrix(X) if hasattr(X, "keys") else schema.check_matrix(X)[0]
    target = schema.encode_classes(y) if schema.target_range is None else np.asarray(y, np.float64)
    if target.shape != (len(rows),):
        raise SchemaError(f"{len(rows)} rows have targets of shape {target.shape}: give one a row")
    if schema.target_range is not None:
        if not np.isfinite(target).all():
            raise SchemaError("a target is NaN or infinite: drop such rows first")
        target = np.clip(target, *schema.target_range)
    return rows, target
