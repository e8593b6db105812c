"""What our own app brings to a node: experiments in its messages, and data sets or the owner's table as its rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from flwr.app import Context

from fl_app.data import DataError, DataSource, node_data
from fl_app.data.sources.table import TableSource
from fl_app.engine.experiment import Experiment
from fl_app.engine.node_state import node_secret
from fl_app.engine.owner_schema import check_owner_schema
from strategies.flower_compat import is_simulated
from strategies.node.answer import Host
from strategies.node.app import NodeApp
from strategies.node.consent import Refused


def check_has_data(source: DataSource, context: Context) -> None:
    """Hold a data set against a real node's ``data-path``; no row is read.

    Raises
    ------
    Refused
        The node cannot have such a data set, whatever is in its files.
    """
    path = context.node_config.get("data-path")
    if path is None:
        if source.on_nodes:
            raise Refused("this node has no data-path; its owner sets it in the node configuration")
        if source.is_made_up:
            raise Refused(f"a real node makes no rows up for {source.name}; its owner sets data-path to files")
        return
    if not isinstance(path, str) or not path:
        raise Refused(f"this node's data-path {path!r} must be the path of a file or a folder")
    if "\0" in path or not Path(path).expanduser().exists():
        raise Refused("this node's data-path must be the path of a file or a folder that is there")
    try:
        source.at(path)
    except DataError as error:
        raise Refused(str(error)) from None


def _check_owner_schema(source: DataSource, context: Context, is_required: bool) -> None:
    """Hold what a server asks of a table against what the owner offers."""
    path = context.node_config.get("schema")
    if path is None:
        if is_required and isinstance(source, TableSource):
            raise Refused("this node's owner has described no table; schema=... in the node configuration does")
        return
    if not isinstance(source, TableSource):
        raise Refused(f"this node has a table (dataset=table), and not {source.name}")
    check_owner_schema(source.schema(), path)
    if (column := source.settings.recording_column) is not None:
        raise Refused(f"this node's owner offers no column {column!r} (dataset.recording_column)")


@dataclass(frozen=True)
class ExperimentHost(Host[Experiment]):
    """Answers messages about experiments.

    Parameters
    ----------
    needs_schema : bool
        Whether a table is only read under a schema of its owner's.
    """

    setting: ClassVar[str] = "experiment"
    needs_schema: bool = False

    def plan(self, text: str) -> Experiment:
        return Experiment.from_json(text)

    def check(self, plan: Experiment, context: Context) -> None:
        if is_simulated(context):
            return
        if plan.dataset.get("path") is not None or isinstance(plan.dataset.get("schema"), str):
            raise Refused(
                "this node opens no file that a server names; its owner sets data-path in the node configuration"
            )
        # The ledger and the owner's limits count what is released about a record, and a person is in every sample.
        if (records := plan.source.records_per_sample) > 1:
            raise Refused(
                f"windows overlap (dataset.overlap=count): a raw sample would be in up to {records} records and cost "
                f"{records} x epsilon; on real nodes set dataset.step to dataset.length or more"
            )
        _check_owner_schema(plan.source, context, self.needs_schema)
        check_has_data(plan.source, context)
        node_secret(context.node_config)

    def rows(
        self, plan: Experiment, context: Context, client: int, clients: int, part: Literal["train", "test"]
    ) -> tuple[np.ndarray, np.ndarray]:
        own = context.node_config.get("data-path")
        if is_simulated(context) and own is None:
            data = plan.client_data(client, clients)
        else:
            data = node_data(plan.source, own, client, clients, node_secret(context.node_config))
        rows = data.train if part == "train" else data.test
        return rows.X, rows.y


class ExperimentApp(NodeApp):
    """The ClientApp of experiments.

    A class of this package, as an engine ships the app to its actors: they import `fl_app` for it before anything else
    of ours, and so find our packages first, whatever is in their working directory.
    """
