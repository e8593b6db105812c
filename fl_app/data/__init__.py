"""Data sets, how their rows are divided among clients, and what is held out."""

from fl_app.data.partition import Partition, client_rows, client_schema, user_type
from fl_app.data.registry import build_source
from fl_app.data.source import DataError, DataSource, Rows, describe_clipped, describe_dropped, is_large
from fl_app.data.split import (
    ClientData,
    Evaluation,
    client_data,
    client_roles,
    node_data,
    public_rows,
    split_rows,
)

__all__ = [
    "ClientData",
    "DataError",
    "DataSource",
    "Evaluation",
    "Partition",
    "Rows",
    "build_source",
    "client_data",
    "client_roles",
    "client_rows",
    "client_schema",
    "describe_clipped",
    "describe_dropped",
    "is_large",
    "node_data",
    "public_rows",
    "split_rows",
    "user_type",
]
