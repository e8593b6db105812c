"""Which rows train and which evaluate: random rows, the end of each recording, whole recordings, or whole subjects."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np

from dpforest.settings import FromZero, InnerShare, Says, Seed, Share, Whole
from fl_app.data.cache import Recent
from fl_app.data.partition import (
    Partition,
    check_client,
    client_rows,
    client_subjects,
    device_subject,
    device_subjects,
    group_subjects,
    sampled_share,
    typed_rows,
)
from fl_app.data.source import DataError, DataSettings, DataSource, Rows, check_choice

VALIDATION_SHARE = 0.2
NODE_TEST_SHARE = 0.2
# Test and validation rows are drawn at stages 0 and 1.
_PUBLIC_STAGE = 2


@dataclass(frozen=True)
class Evaluation(DataSettings):
    """Which rows are held out.

    Parameters
    ----------
    split
        ``row``: random rows of each client, stratified by class. It flatters every model where
        neighbouring rows look alike. ``time``: the last rows of each recording, in the order of time.
        ``recording``: whole recordings of each client.
        ``subject``: all rows of some subjects, who take no part in training.
    part
        ``validation`` holds out a fifth of the training rows (or as many more subjects) in the
        same way and leaves the test rows out of everything, so that settings can be tuned.
    test_share
        Share of rows or recordings to hold out.
    seed
        Of the choice of rows or recordings.
    fold
        Which subjects are held out: block ``fold`` of a fixed random order.
    held_out
        Subjects a fold; null means a sixth of them.
    public_share
        Share of the test rows (under ``split=recording``: of the test recordings) that is declared public: a method's
        server may see these rows, nobody trains on them, and no model is evaluated on them. They are the same for both
        values of ``part``. It stands for data of consenting people of the same kind; what such data would cost is
        outside of any guarantee.
    clients
        How many of the clients that have test rows evaluate a model, drawn by ``seed``; null for all. A sample is
        enough where there are thousands, each of whom predicts with the whole model.
    metrics
        ``private`` evaluates the final model alone, and has each client noise its sums within the run's budget, as real
        nodes do by default; ``clear`` is exact, in simulations and where a node's owner allows it.
    subjects
        Names of the subjects to hold out, for ``split=subject``, instead of a fold. Under
        ``part=validation`` the first ``held_out`` of the others in the fixed order are evaluated on.

    Raises
    ------
    DataError
        A value is not allowed.
    """

    group = "evaluation."

    split: Literal["row", "time", "recording", "subject"] = "row"
    part: Literal["test", "validation"] = "test"
    test_share: Annotated[InnerShare, Says("be between 0 and 1")] = 0.2
    seed: Seed = 42
    fold: FromZero = 0
    held_out: Whole | None = None
    clients: Whole | None = None
    subjects: Annotated[tuple[str, ...], Says("be a list of names, in quotes where they are numbers")] = ()
    metrics: Literal["clear", "private"] = "clear"
    public_share: Annotated[Share, Says("be 0 (none) or a number below 1")] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.subjects and (self.split != "subject" or self.fold != 0):
            raise DataError(
                f"evaluation.subjects {list(self.subjects)} are held out by name: set evaluation.split=subject and "
                "leave evaluation.fold at 0"
            )

    def sampled(self, clients: list[int]) -> list[int]:
        """Those of the clients with test rows that evaluate, ascending."""
        if self.clients is None or self.clients >= len(clients):
            return clients
        return sorted(np.random.default_rng(self.seed).choice(clients, self.clients, replace=False).tolist())


@dataclass(frozen=True, eq=False)
class ClientData:
    """The rows that a client trains on, those it evaluates a model on, and those declared public; any may be empty."""

    train: Rows
    test: Rows
    public: Rows


def subject_roles(subjects: Sequence[str], evaluation: Evaluation) -> dict[str, str]:
    """What each subject is for under ``split=subject``: ``train``, ``test`` or ``unused``.

    The fixed order is ``np.random.default_rng(0).permutation``; the subjects of a validation are
    the block after the test block, and the test subjects are then unused.

    Raises
    ------
    DataError
        There are too few subjects for the fold, or a named one does not exist.
    """
    order = [subjects[position] for position in np.random.default_rng(0).permutation(len(subjects))]
    if evaluation.subjects:
        block, others, size = _named_block(order, evaluation)
    else:
        block, others, size = _fold_block(order, evaluation)
    evaluated = block if evaluation.part == "test" else others[:size]
    return {name: "test" if name in evaluated else "unused" if name in block else "train" for name in subjects}


def _named_block(order: list[str], evaluation: Evaluation) -> tuple[list[str], list[str], int]:
    for name in evaluation.subjects:
        check_choice("evaluation.subjects", name, sorted(order))
    others = [name for name in order if name not in evaluation.subjects]
    size = evaluation.held_out or max(1, round(len(others) / 6))
    if len(others) <= (size if evaluation.part == "validation" else 0):
        raise DataError(
            f"evaluation.subjects leaves {len(others)} of {len(order)} subjects, and evaluation.part={evaluation.part} "
            "no subject to train on: name fewer, or lower evaluation.held_out"
        )
    return list(evaluation.subjects), others, size


def _fold_block(order: list[str], evaluation: Evaluation) -> tuple[list[str], list[str], int]:
    n = len(order)
    size = evaluation.held_out or max(1, round(n / 6))
    blocks = 1 if evaluation.part == "test" else 2
    if size * blocks >= n:
        raise DataError(
            f"evaluation.held_out {size} leaves no subject of {n} to train on ({blocks} such blocks are held out): "
            f"use at most {(n - 1) // blocks}"
        )
    start = evaluation.fold * size
    if start + size > n:
        raise DataError(
            f"evaluation.fold {evaluation.fold} does not exist: {n} subjects make folds 0 to {n // size - 1}"
        )
    return order[start : start + size], order[start + size :] + order[:start], size


def client_roles(source: DataSource, partition: Partition, evaluation: Evaluation, clients: int) -> list[str]:
    """What each client is for: ``train`` (and evaluating on its held-out rows), ``test`` or ``unused``.

    Raises
    ------
    DataError
        The combination makes no sense, or the numbers do not fit it.
    """
    _check_combination(source, partition, evaluation)
    check_client(source, partition, 0, clients)
    if evaluation.split != "subject":
        return ["train"] * clients
    roles = subject_roles(source.subjects(), evaluation)
    if partition.kind == "devices":
        return [roles[subject] for subject in device_subjects(source, clients)]
    return [roles[group[0]] for group in group_subjects(source.subjects(), clients, roles)]


def split_rows(rows: Rows, evaluation: Evaluation, is_classification: bool, client: int = 0) -> tuple[Rows, Rows]:
    """Divide a client's rows for ``split=row``, ``time`` or ``recording``.

    Parameters
    ----------
    rows : Rows
    evaluation : Evaluation
    is_classification : bool
        Stratify by class: of the row, or the most frequent one of the recording.
    client : int
        Clients draw independently, or all would hold out the same classes of few recordings.

    Returns
    -------
    train, test : Rows
        Under ``part=validation`` both are of the training rows. A class with one row (or
        recording) stays in training, and so does a client's only row (or recording).
    """
    train = rows
    test = rows.take([])
    shares = [evaluation.test_share] + ([VALIDATION_SHARE] if evaluation.part == "validation" else [])
    for stage, share in enumerate(shares):
        rng = np.random.default_rng([evaluation.seed, client, stage])
        held_out = _held_out(train, evaluation.split, share, is_classification, rng)
        train, test = train.take(~held_out), train.take(held_out)
    if evaluation.part == "test" and evaluation.public_share:
        test = test.take(~_public(test, evaluation, is_classification, client))
    return train, test


def _test_rows(rows: Rows, evaluation: Evaluation, is_classification: bool, client: int) -> Rows:
    """The test part of a client's rows, whatever part is evaluated on, public rows included."""
    return split_rows(rows, replace(evaluation, part="test", public_share=0.0), is_classification, client)[1]


def _public(test: Rows, evaluation: Evaluation, is_classification: bool, client: int) -> np.ndarray:
    """Mask of the rows of a test part that are public."""
    split = "row" if evaluation.split == "subject" else evaluation.split
    rng = np.random.default_rng([evaluation.seed, client, _PUBLIC_STAGE])
    return _held_out(test, split, evaluation.public_share, is_classification, rng)


def _overlapping(
    source: DataSource, partition: Partition, evaluation: Evaluation, client: int, clients: int
) -> ClientData:
    """Training rows that a client draws for itself; held-out rows are held out of all and divided evenly."""
    rows = Rows.concat([source.load(subject) for subject in source.subjects()])
    is_classification = source.schema().is_classification
    test = _test_rows(rows, evaluation, is_classification, 0)
    public = test.take(_public(test, evaluation, is_classification, 0))
    train, held_out = split_rows(rows, evaluation, is_classification, 0)
    mine = slice(client, None, clients)
    return ClientData(
        train.take(sampled_share(len(train), partition, client)),
        held_out.take(np.arange(len(held_out))[mine]),
        public.take(np.arange(len(public))[mine]),
    )


def _held_out(rows: Rows, split: str, share: float, is_classification: bool, rng: np.random.Generator) -> np.ndarray:
    labels = rows.y if is_classification else np.zeros(len(rows), dtype=np.int64)
    if split == "row":
        return _stratified(labels, share, rng)
    recordings, recording, sizes = np.unique(rows.recording, return_inverse=True, return_counts=True)
    if split == "time":
        order = np.argsort(recording, kind="stable")
        place = np.empty(len(rows), dtype=np.int64)
        place[order] = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return place >= (sizes - np.minimum(np.round(sizes * share).astype(np.int64), sizes - 1))[recording]
    counts = np.zeros((len(recordings), int(labels.max(initial=0)) + 1), dtype=np.int64)
    np.add.at(counts, (recording, labels), 1)
    return _stratified(counts.argmax(axis=1), share, rng)[recording]


def _stratified(strata: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """A random mask of about ``share`` of the items, each stratum in proportion and never whole."""
    _, stratum, sizes = np.unique(strata, return_inverse=True, return_counts=True)
    exact = sizes * share
    taken = np.minimum(np.floor(exact).astype(int), sizes - 1)
    room = sizes - 1 - taken
    missing = min(round(len(strata) * share) - int(taken.sum()), int((room > 0).sum()))
    # what rounding down left goes to the largest remainders, ties at random
    priority = np.lexsort((rng.random(len(sizes)), -np.round(exact - taken, 9), room == 0))
    taken[priority[: max(0, missing)]] += 1
    order = np.lexsort((rng.random(len(strata)), stratum))
    rank = np.empty(len(strata), dtype=np.int64)
    rank[order] = np.arange(len(strata)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return rank < taken[stratum]


def client_data(
    source: DataSource, partition: Partition, evaluation: Evaluation, client: int, clients: int
) -> ClientData:
    """The training and test rows of one client; recent ones are remembered in this process.

    Parameters
    ----------
    source, partition, evaluation
        The data set, who holds what, and what is held out.
    client : int
        From 0; Flower's ``partition-id``.
    clients : int
        How many there are; Flower's ``num-partitions``.

    Raises
    ------
    DataError
        The combination makes no sense, or the numbers do not fit it.
    """
    _check_combination(source, partition, evaluation)
    check_client(source, partition, client, clients)
    subjects = source.subjects()
    by_subject = evaluation.split == "subject"
    roles = subject_roles(subjects, evaluation) if by_subject else dict.fromkeys(subjects, "train")
    whose = group_subjects(subjects, clients, roles)[client] if partition.kind == "subject" else subjects
    of_device = device_subject(source, client, clients) if partition.kind == "devices" else None

    is_classification = source.schema().is_classification

    def build() -> ClientData:
        if partition.kind == "overlap":
            return _overlapping(source, partition, evaluation, client, clients)
        if not by_subject:
            rows = client_rows(source, partition, client, clients)
            public = rows.take([])
            if evaluation.public_share:
                held_out = _test_rows(rows, evaluation, is_classification, client)
                public = held_out.take(_public(held_out, evaluation, is_classification, client))
            train, test = split_rows(rows, evaluation, is_classification, client)
            if partition.kind == "user_types" and partition.whole_test:
                train = typed_rows(train, source, partition, client, clients)
            return ClientData(train, test, public)
        if of_device is None:
            rows = Rows.concat([source.load(subject) for subject in whose])
        else:
            rows = client_rows(source, partition, client, clients)
        none = rows.take([])
        role = roles[of_device or whose[0]]
        if role == "train":
            return ClientData(rows, none, none)
        # Under part=validation the test subjects are unused, but for the rows of theirs that are public.
        is_test = (role == "test") == (evaluation.part == "test")
        mask = _public(rows, evaluation, is_classification, client) if is_test else np.zeros(len(rows), dtype=bool)
        return ClientData(none, rows.take(~mask) if role == "test" else none, rows.take(mask))

    return recent.get(repr((source.fingerprint(whose), partition, evaluation, client, clients)), build)


def node_data(source: DataSource, path: Any, client: int, clients: int, secret: bytes) -> ClientData:
    """The training and test rows of a real node; nothing of them is written to a disk.

    Nothing here follows a server's wishes: values out of bounds are clipped, and each record falls to a side by a keyed
    hash of what it is made of (see `DataSource.node_rows`), a fifth to the test rows. So one record more or less leaves
    all others where they are, and the guarantee about training rows holds for the node's whole table. Whatever columns,
    order or windows a server asks for, and however often: a test row is one in every run, and is never trained on.

    Parameters
    ----------
    source : DataSource
        What the server describes.
    path : str or None
        The node's own file or folder; None takes the client's part of a data set that the node finds by itself.
    client, clients : int
        Which part.
    secret : bytes
        The node's own; see `fl_app.engine.node_state.node_secret`.
    """
    if path is not None:
        own: DataSource = source.at(str(path))
        whose = own.subjects()
    else:
        own = type(source)(replace(source.settings, out_of_bounds="clip"))
        whose = client_subjects(own, client, clients)

    def build() -> ClientData:
        parts = [own.node_rows(subject) for subject in whose]
        rows = Rows.concat([part for part, _ in parts])
        is_test = np.array([_falls_to_test(origin, secret) for _, origins in parts for origin in origins], dtype=bool)
        return ClientData(rows.take(~is_test), rows.take(is_test), rows.take([]))

    return recent.get(repr(("node", own.fingerprint(whose), secret)), build)


def _falls_to_test(origin: bytes, secret: bytes) -> bool:
    digest = hashlib.blake2b(origin, key=secret, digest_size=8).digest()
    return int.from_bytes(digest, "big") < NODE_TEST_SHARE * 2**64


def public_rows(source: DataSource, partition: Partition, evaluation: Evaluation, clients: int) -> Rows:
    """The rows that ``evaluation.public_share`` declares public, of all clients together.

    For a server. In a federation of real nodes it takes them from its own copy of the data set.

    Raises
    ------
    DataError
        As `client_data`.
    """
    return Rows.concat([client_data(source, partition, evaluation, c, clients).public for c in range(clients)])


def _bytes(data: ClientData) -> int:
    return sum(rows.X.nbytes + rows.y.nbytes + rows.recording.nbytes for rows in (data.train, data.test, data.public))


# A sweep comes back to the same clients again and again, in any worker: half a gigabyte a process.
recent: Recent[ClientData] = Recent(500_000_000, _bytes)


def _check_combination(source: DataSource, partition: Partition, evaluation: Evaluation) -> None:
    if evaluation.split == "row":
        if source.keeps_time_order:
            raise DataError(
                f"evaluation.split=row would put neighbouring samples of {source.name} on both sides: use time (the "
                "end of each recording), recording or subject"
            )
        return
    if evaluation.split == "recording" and not source.has_recordings:
        raise DataError(
            f"evaluation.split=recording needs recordings, and {source.name} has none (for a table, set "
            "dataset.recording_column): use row or subject"
        )
    whole = ("subject", "devices") if evaluation.split == "subject" else ("subject", "time_blocks", "user_types")
    if partition.kind not in whole:
        what = "subject" if evaluation.split == "subject" else "recording"
        raise DataError(
            f"partition={partition.kind} spreads each {what} over clients, so evaluation.split="
            f"{evaluation.split} would hold out what others train on: use partition={' or '.join(whole)}, "
            "or evaluation=row"
        )
    if evaluation.split == "subject" and len(source.subjects()) == 1:
        raise DataError(f"evaluation.split=subject needs several subjects, and {source.name} has one: use row")
