"""Who holds which rows: by subject, or rows of all subjects divided anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np

from dpforest.schema import Schema
from dpforest.settings import InnerShare, Positive, Range, Seed, Whole, check_setting
from fl_app.data.cache import Recent
from fl_app.data.source import DataError, DataSettings, DataSource, Rows

Kind = Literal["subject", "iid", "dirichlet", "quantity", "label_shares", "time_blocks", "overlap", "user_types",
               "devices"]  # fmt: skip
UserType = Literal["A", "B", "C"]


@dataclass(frozen=True)
class Partition(DataSettings):
    """How rows are divided among clients.

    Parameters
    ----------
    kind
        ``subject``: whole subjects. ``iid``: equal random shares of all rows. ``dirichlet``: each
        class is divided in proportions drawn from a symmetric Dirichlet distribution (Hsu et al.
        2019). ``quantity``: random rows, in shares drawn from one. ``label_shares``: random rows,
        so that the clients differ in their share of the first class as ``shares`` says.
        ``time_blocks``: consecutive rows in the order of time, about as many for each client,
        and whole recordings where there are any. ``overlap``: every client draws ``share`` of all
        training rows for itself, so that a row may lie with several; for comparisons with sources
        that did so. ``user_types``: whole subjects, of whom a third each keep all rows (A), a random
        sample of them (B) or some classes only (C), drawn by ``seed`` (Liu et al. 2022). ``devices``: the recordings
        of each subject are cut into blocks, which are divided among devices of that subject, each a client; for any
        number of clients, whose rows are as alike as those of one person.
    clients
        Number of clients; null means one a subject, or one for each of ``shares``.
    alpha
        Concentration of the Dirichlet distribution; a small one is more skewed.
    seed
        Of the random kinds.
    shares
        For ``label_shares``: the share of the first class in each client's rows. It is met, with equally many rows
        for each client, when the mean is the share of the first class in all rows; otherwise all are shifted towards
        it.
    share
        For ``overlap``: what each client draws of the training rows. For
        ``user_types``: what users of type B keep of their rows.
    class_share
        For ``user_types``: what users of type C keep of the classes that they have (one at least).
    block
        For ``devices``: consecutive rows of a recording that stay together; those that are left at its end are a block.
    order
        For ``devices``: ``random`` draws which device of its subject has a block, ``time`` gives each a stretch.
    whole_test
        For ``user_types``: rows are held out before types take any away, so that a user of type C
        is evaluated on classes that it never trained on. The paper's text says otherwise, but its
        figures for LRF hardly allow it.

    Raises
    ------
    DataError
        A value is not allowed.
    """

    group = "partition."

    kind: Kind = "subject"
    clients: Whole | None = None
    alpha: Positive = 0.5
    seed: Seed = 42
    shares: tuple[InnerShare, ...] = ()
    share: Annotated[float, Range(0, 1, above=True)] = 0.5
    class_share: Annotated[float, Range(0, 1, above=True)] = 0.5
    block: Whole = 60
    order: Literal["random", "time"] = "random"
    whole_test: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.shares) != (self.kind == "label_shares"):
            raise DataError(
                f"partition.shares {list(self.shares)} and partition.kind {self.kind!r} do not fit: kind label_shares "
                "needs one share a client, and no other kind has any"
            )
        object.__setattr__(self, "shares", tuple(map(float, self.shares)))
        if self.kind == "label_shares" and self.clients is None:
            object.__setattr__(self, "clients", len(self.shares))
        if self.kind == "label_shares" and self.clients != len(self.shares):
            raise DataError(
                f"partition.clients {self.clients} differs from the number of partition.shares, {len(self.shares)}: "
                "give one share a client"
            )

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
        if self.kind in ("subject", "user_types") and self.clients > subjects:
            raise DataError(
                f"{self.clients} clients are more than the {subjects} subjects of {source.name}: use {subjects} "
                "clients (nodes) or fewer, or partition=devices"
            )
        if self.kind == "devices" and self.clients < subjects:
            raise DataError(
                f"{self.clients} devices are fewer than the {subjects} subjects of {source.name}, each of whom has one "
                f"at least: use {subjects} clients (nodes) or more, or partition=subject"
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
    clients in proportion to its subjects (one at least), which are handed out in turn.

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
    shares = dict.fromkeys(by_role, 1)
    for _ in range(clients - len(by_role)):
        # the next client goes to the role with the most subjects a client
        shares[max(shares, key=lambda role: len(by_role[role]) / shares[role])] += 1
    return [tuple(by_role[role][start::share]) for role, share in shares.items() for start in range(share)]


def client_subjects(source: DataSource, client: int, clients: int) -> tuple[str, ...]:
    """The subjects of one client, where subjects stay whole.

    Raises
    ------
    DataError
        There are fewer subjects than clients.
    """
    check_client(source, Partition(), client, clients)
    subjects = source.subjects()
    return group_subjects(subjects, clients, dict.fromkeys(subjects, "train"))[client]


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
    if partition.kind in ("subject", "user_types"):
        rows = Rows.concat([source.load(subject) for subject in client_subjects(source, client, clients)])
        if partition.kind == "subject" or partition.whole_test:
            return rows
        return typed_rows(rows, source, partition, client, clients)
    if partition.kind == "overlap":
        rows = Rows.concat([source.load(subject) for subject in source.subjects()])
        return rows.take(sampled_share(len(rows), partition, client))
    return _division(source, partition, clients).of(client)


def device_subjects(source: DataSource, clients: int) -> list[str]:
    """Whose each device is (kind ``devices``), in the order of subjects."""
    subjects = source.subjects()
    return [subjects[at] for at in np.repeat(np.arange(len(subjects)), _devices_of_each(len(subjects), clients))]


def device_subject(source: DataSource, client: int, clients: int) -> str:
    """Whose one device is."""
    subjects = source.subjects()
    ends = np.cumsum(_devices_of_each(len(subjects), clients))
    return subjects[int(np.searchsorted(ends, client, side="right"))]


def _devices_of_each(subjects: int, clients: int) -> np.ndarray:
    """How many devices each subject has: about as many."""
    fewest, more = divmod(clients, subjects)
    return fewest + (np.arange(subjects) < more)


def user_type(partition: Partition, client: int, clients: int) -> UserType:
    """Which type a client has under kind ``user_types``: a third each, in a random order."""
    place = int(np.random.default_rng(partition.seed).permutation(clients)[client])
    types: tuple[UserType, ...] = ("A", "B", "C")
    return types[place * len(types) // clients]


def typed_rows(rows: Rows, source: DataSource, partition: Partition, client: int, clients: int) -> Rows:
    """What a user's type leaves of its rows (kind ``user_types``).

    Raises
    ------
    DataError
        Type C takes classes away, and the data set has none.
    """
    kind, rng = user_type(partition, client, clients), np.random.default_rng([partition.seed, client])
    if kind == "A" or not len(rows):
        return rows
    if kind == "B":
        return rows.take(np.sort(rng.permutation(len(rows))[: max(1, round(partition.share * len(rows)))]))
    if not source.schema().is_classification:
        raise DataError(f"partition user_types takes classes away, and {source.name} has none: use quantity or iid")
    classes = np.unique(rows.y)
    kept = rng.permutation(classes)[: max(1, round(partition.class_share * len(classes)))]
    return rows.take(np.isin(rows.y, kept))


def sampled_share(n: int, partition: Partition, client: int) -> np.ndarray:
    """Positions that a client draws for itself of ``n`` rows, ascending (kind ``overlap``)."""
    rng = np.random.default_rng([partition.seed, client])
    return np.sort(rng.permutation(n)[: max(1, round(partition.share * n))])


def check_client(source: DataSource, partition: Partition, client: int, clients: int) -> None:
    """Refuse a client that the partition does not make.

    Raises
    ------
    DataError
        ``clients`` is not the partition's number, or ``client`` is not below it.
    """
    check_setting("number of clients", clients, Whole, DataError)
    expected = (partition if partition.clients else replace(partition, clients=clients)).count(source)
    if clients != expected:
        raise DataError(
            f"the federation has {clients} nodes, but partition {partition.kind} of {source.name} makes {expected} "
            f"clients: start {expected} nodes (num-supernodes={expected}) or change partition.clients"
        )
    if isinstance(client, bool) or not isinstance(client, int) or not 0 <= client < clients:
        raise DataError(f"client {client!r} must be a whole number, in 0 to {clients - 1}")


@dataclass(frozen=True, eq=False)
class _Division:
    rows: Rows  # of all clients, one behind the other; recordings are numbered through the data set
    ends: np.ndarray  # of each client's rows in them

    def of(self, client: int) -> Rows:
        """A client's rows, in the order of subjects and time; views of those of all, which nobody may change."""
        part = slice(self.ends[client - 1] if client else 0, self.ends[client])
        return Rows(self.rows.X[part], self.rows.y[part], self.rows.recording[part])

    @property
    def bytes(self) -> int:
        return self.rows.X.nbytes + self.rows.y.nbytes + self.rows.recording.nbytes


def _division(source: DataSource, partition: Partition, clients: int) -> _Division:
    def divide() -> _Division:
        if partition.kind in ("dirichlet", "label_shares") and not source.schema().is_classification:
            raise DataError(
                f"partition {partition.kind} skews classes, and {source.name} has none: use quantity or iid"
            )
        tables = [source.load(subject) for subject in source.subjects()]
        pooled = Rows.concat(tables)
        recording = pooled.recording if source.has_recordings else np.arange(len(pooled))
        subject = np.repeat(np.arange(len(tables)), [len(rows) for rows in tables])
        owner = DIVISIONS[partition.kind](_Pool(pooled.y, recording, subject, len(tables), clients, partition))
        rows = pooled.take(np.argsort(owner, kind="stable"))
        for array in (rows.X, rows.y, rows.recording):
            array.flags.writeable = False
        return _Division(rows, np.cumsum(np.bincount(owner, minlength=clients)))

    return recent.get(repr((source.fingerprint(source.subjects()), partition, clients)), divide)


# A copy of the whole data set each.
recent: Recent[_Division] = Recent(500_000_000, lambda division: division.bytes)


@dataclass(frozen=True, eq=False)
class _Pool:
    y: np.ndarray  # of all rows
    recording: np.ndarray  # of all rows; each row is its own where there are no recordings
    subject: np.ndarray  # number of each row's subject, ascending
    subjects: int
    clients: int
    partition: Partition

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.partition.seed)


def _divide_evenly(pool: _Pool) -> np.ndarray:
    owner = np.empty(len(pool.y), dtype=np.int64)
    owner[pool.rng.permutation(len(pool.y))] = np.arange(len(pool.y)) % pool.clients
    return owner


def _divide_by_quantity(pool: _Pool) -> np.ndarray:
    rng = pool.rng
    return _divide_in_proportion(len(pool.y), rng.dirichlet(np.full(pool.clients, pool.partition.alpha)), rng)


def _divide_by_class(pool: _Pool) -> np.ndarray:
    rng, owner = pool.rng, np.empty(len(pool.y), dtype=np.int64)
    for label in np.unique(pool.y):
        members = np.flatnonzero(pool.y == label)
        proportions = rng.dirichlet(np.full(pool.clients, pool.partition.alpha))
        owner[members] = _divide_in_proportion(len(members), proportions, rng)
    return owner


def _divide_by_share(pool: _Pool) -> np.ndarray:
    rng, owner = pool.rng, np.empty(len(pool.y), dtype=np.int64)
    first = np.array(pool.partition.shares)
    for members, share in ((pool.y == 0, first), (pool.y != 0, 1 - first)):
        owner[members] = _divide_in_proportion(int(members.sum()), share / share.sum(), rng)
    return owner


def _divide_in_time(pool: _Pool) -> np.ndarray:
    # recordings are not divided, so that holding out whole ones stays honest
    _, first, recording, sizes = np.unique(pool.recording, return_index=True, return_inverse=True, return_counts=True)
    n, order = len(first), np.argsort(first)
    if n < pool.clients:
        raise DataError(f"partition time_blocks cannot make {pool.clients} blocks of {n} recordings: use {n} clients")
    ends = np.cumsum(sizes[order])
    number = np.arange(1, pool.clients)
    cuts = np.searchsorted(ends, number * len(pool.y) / pool.clients - sizes.mean() / 2) + 1
    # one recording a client at least
    cuts = np.maximum.accumulate(np.maximum(cuts - number, 0)) + number
    cuts = np.minimum(cuts, n - pool.clients + number)
    block = np.empty(n, dtype=np.int64)
    block[order] = np.searchsorted(cuts, np.arange(n), side="right")
    return block[recording]


def _divide_among_devices(pool: _Pool) -> np.ndarray:
    rng, owner, first = pool.rng, np.empty(len(pool.y), dtype=np.int64), 0
    for at, devices in enumerate(_devices_of_each(pool.subjects, pool.clients).tolist()):
        own = slice(*np.searchsorted(pool.subject, [at, at + 1]))
        block = _blocks(pool.recording[own], pool.partition.block)
        n = int(block[-1]) + 1 if len(block) else 0
        if n < devices:
            raise DataError(
                f"partition devices cannot make {devices} devices of one subject's {n} blocks of up to "
                f"{pool.partition.block} rows: use fewer partition.clients, or a smaller partition.block"
            )
        place = rng.permutation(n) if pool.partition.order == "random" else np.arange(n)
        owner[own] = first + (place * devices // n)[block]
        first += devices
    return owner


def _blocks(recording: np.ndarray, length: int) -> np.ndarray:
    """Number of the block of each row of a subject, ascending; recordings stand behind one another."""
    start = np.flatnonzero(np.diff(recording, prepend=recording[:1] - 1))
    within = np.arange(len(recording)) - np.repeat(start, np.diff(start, append=len(recording)))
    return np.cumsum(within % length == 0) - 1


def _divide_in_proportion(n: int, proportions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    bounds = np.round(np.cumsum(proportions)[:-1] * n).astype(int)
    owner = np.empty(n, dtype=np.int64)
    owner[rng.permutation(n)] = np.searchsorted(bounds, np.arange(n), side="right")
    return owner


DIVISIONS: dict[str, Callable[[_Pool], np.ndarray]] = {
    "iid": _divide_evenly,
    "dirichlet": _divide_by_class,
    "quantity": _divide_by_quantity,
    "label_shares": _divide_by_share,
    "time_blocks": _divide_in_time,
    "devices": _divide_among_devices,
}
