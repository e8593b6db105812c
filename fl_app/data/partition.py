"""Who holds which rows: by subject, or rows of all subjects dealt out again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from dpforest.schema import Schema
from fl_app.data.cache import Recent
from fl_app.data.source import DataError, DataSource, Rows, check_choice, check_integer

Kind = Literal["subject", "iid", "dirichlet", "quantity"]


@dataclass(frozen=True)
class Partition:
    """How rows are divided among clients.

    Parameters
    ----------
    kind : {"subject", "iid", "dirichlet", "quantity"}
        ``subject``: whole subjects. ``iid``: equal random shares of all rows. ``dirichlet``: each
        class is divided in proportions drawn from a symmetric Dirichlet distribution (Hsu et al.
        2019). ``quantity``: random rows, in shares drawn from one.
    clients : int or None
        Number of clients; None means one a subject.
    alpha : float
        Concentration of the Dirichlet distribution; a small one is more skewed.
    seed : int
        Of the random kinds.

    Raises
    ------
    DataError
        A value is not allowed.
    """

    kind: Kind = "subject"
    clients: int | None = None
    alpha: float = 0.5
    seed: int = 42

    def __post_init__(self) -> None:
        check_choice("partition.kind", self.kind, ["subject", *DEALERS])
        if self.clients is not None:
            check_integer("partition.clients", self.clients, 1)
        number = isinstance(self.alpha, int | float) and not isinstance(self.alpha, bool)
        if not (number and math.isfinite(self.alpha) and self.alpha > 0):
            raise DataError(f"partition.alpha {self.alpha!r} must be a finite number above 0")
        check_integer("partition.seed", self.seed, 0)

    def count(self, source: DataSource) -> int:
        """Number of clients this partition makes of a data set.

        Raises
        ------
        DataError
            There are more clients than subjects to give them.
        """
        subjects = len(source.subjects())
        if self.clients is None:
            return subjects
        if self.kind == "subject" and self.clients > subjects:
            raise DataError(
                f"{self.clients} clients are more than the {subjects} subjects of {source.name}: use {subjects} "
                "clients (nodes) or fewer, or partition=iid"
            )
        return self.clients


def client_schema(source: DataSource, clients: int) -> Schema:
    """The public schema of a client: ``rows`` scaled by how many clients share the subjects.

    Numbers of subjects and of clients are public; numbers of rows are not used.
    """
    schema = source.schema()
    if schema.rows is None:
        return schema
    return schema.with_rows(max(1, round(schema.rows * len(source.subjects()) / clients)))


def group_subjects(subjects: Sequence[str], clients: int, roles: Mapping[str, str]) -> list[tuple[str, ...]]:
    """The subjects of each client, so that the subjects of a client all have the same role.

    With one client a subject the order is that of ``subjects``. With fewer, each role gets
    clients in proportion to its subjects (one at least), which are dealt out in turn.

    Raises
    ------
    DataError
        Fewer clients than roles, or more than subjects.
    """
    if clients == len(subjects):
        return [(subject,) for subject in subjects]
    by_role: dict[str, list[str]] = {}
    for subject in subjects:
        by_role.setdefault(roles[subject], []).append(subject)
    if not len(by_role) <= clients <= len(subjects):
        raise DataError(
            f"{clients} clients for {len(subjects)} subjects, of which some are "
            f"{' and some '.join(by_role)}: use {len(by_role)} to {len(subjects)} clients (nodes)"
        )
    shares = {role: 1 for role in by_role}
    for _ in range(clients - len(by_role)):
        # the next client goes to the role with the most subjects a client
        shares[max(shares, key=lambda role: len(by_role[role]) / shares[role])] += 1
    return [tuple(by_role[role][start::share]) for role, share in shares.items() for start in range(share)]


def client_rows(source: DataSource, partition: Partition, client: int, clients: int) -> Rows:
    """All rows of one client.

    Parameters
    ----------
    source : DataSource
    partition : Partition
    client : int
        From 0; Flower's ``partition-id``.
    clients : int
        How many there are; Flower's ``num-partitions``.

    Returns
    -------
    Rows
        In the order of subjects and time. Recordings keep apart.

    Raises
    ------
    DataError
        The numbers do not fit the partition.
    """
    check_client(source, partition, client, clients)
    if partition.kind == "subject":
        subjects = source.subjects()
        group = group_subjects(subjects, clients, dict.fromkeys(subjects, "train"))[client]
        return Rows.concat([source.load(subject) for subject in group])
    deal = _dealt(source, partition, clients)
    mine = deal.rows[client]
    parts = []
    for subject, start, end, offset in zip(source.subjects(), deal.starts, deal.starts[1:], deal.offsets, strict=False):
        rows = source.load(subject).take(mine[np.searchsorted(mine, start) : np.searchsorted(mine, end)] - start)
        # recordings are numbered through the data set, so that all clients number them alike
        parts.append(Rows(rows.X, rows.y, rows.recording + offset))
    return Rows(
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate([part.recording for part in parts]),
    )


def check_client(source: DataSource, partition: Partition, client: int, clients: int) -> None:
    """Refuse a client that the partition does not make.

    Raises
    ------
    DataError
        ``clients`` is not the partition's number, or ``client`` is not below it.
    """
    check_integer("number of clients", clients, 1)
    expected = replace(partition, clients=partition.clients or clients).count(source)
    if clients != expected:
        raise DataError(
            f"the federation has {clients} nodes, but partition {partition.kind} of {source.name} makes {expected} "
            f"clients: start {expected} nodes (num-supernodes={expected}) or change partition.clients"
        )
    check_integer("client", client, 0, clients - 1)


@dataclass(frozen=True, eq=False)
class _Dealt:
    rows: list[np.ndarray]  # of each client, ascending positions in the whole data set
    starts: np.ndarray  # first position of each subject, then the number of all rows
    offsets: np.ndarray  # what to add to each subject's recording ids


def _dealt(source: DataSource, partition: Partition, clients: int) -> _Dealt:
    def deal() -> _Dealt:
        if partition.kind == "dirichlet" and not source.schema().is_classification:
            raise DataError(f"partition dirichlet skews classes, and {source.name} has none: use quantity or iid")
        tables = [source.load(subject) for subject in source.subjects()]
        y = np.concatenate([rows.y for rows in tables])
        owner = DEALERS[partition.kind](y, clients, partition.alpha, np.random.default_rng(partition.seed))
        ends = np.cumsum(np.bincount(owner, minlength=clients))
        return _Dealt(
            np.split(np.argsort(owner, kind="stable"), ends[:-1]),
            np.cumsum([0] + [len(rows) for rows in tables]),
            np.cumsum([0] + [int(rows.recording.max(initial=-1)) + 1 for rows in tables]),
        )

    return _deals.get(repr((source.fingerprint(source.subjects()), partition, clients)), deal)


_deals: Recent[_Dealt] = Recent(4)


def _deal_evenly(y: np.ndarray, clients: int, alpha: float, rng: np.random.Generator) -> np.ndarray:
    owner = np.empty(len(y), dtype=np.int64)
    owner[rng.permutation(len(y))] = np.arange(len(y)) % clients
    return owner


def _deal_by_quantity(y: np.ndarray, clients: int, alpha: float, rng: np.random.Generator) -> np.ndarray:
    bounds = np.round(np.cumsum(rng.dirichlet(np.full(clients, alpha)))[:-1] * len(y)).astype(int)
    owner = np.empty(len(y), dtype=np.int64)
    owner[rng.permutation(len(y))] = np.searchsorted(bounds, np.arange(len(y)), side="right")
    return owner


def _deal_by_class(y: np.ndarray, clients: int, alpha: float, rng: np.random.Generator) -> np.ndarray:
    owner = np.empty(len(y), dtype=np.int64)
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        owner[members] = _deal_by_quantity(members, clients, alpha, rng)
    return owner


DEALERS: dict[str, Callable[[np.ndarray, int, float, np.random.Generator], np.ndarray]] = {
    "iid": _deal_evenly,
    "dirichlet": _deal_by_class,
    "quantity": _deal_by_quantity,
}
