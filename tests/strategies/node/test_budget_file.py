"""A node's budget over all its runs: one truth for many processes, and no file that is broken allows anything."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from strategies.node.budget_file import BrokenBudgetFile, BudgetFile, Request, RunSummary, Spent, SpentAlready

LIMIT = 1.0


def run(epsilon: float | None = 0.5, delta: float | None = 0.0) -> Spent:
    return Spent("2030-01-01T00:00:00+00:00", uuid.uuid4().hex, "one_shot", epsilon, delta, "a record", "nobody")


def spend(path: Path, epsilon: float | None = 0.5, delta: float | None = 0.0) -> bool:
    return BudgetFile(path).spend(run(epsilon, delta), LIMIT, 1e-6)


def _spend_at_once(path: Path, start: multiprocessing.Event, answers: multiprocessing.Queue) -> None:  # type: ignore[type-arg]
    start.wait(60)
    answers.put(spend(path))


def test_of_twenty_processes_at_once_two_are_allowed(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    start, answers = context.Event(), context.Queue()
    arguments = (tmp_path / "spent.db", start, answers)
    processes = [context.Process(target=_spend_at_once, args=arguments) for _ in range(20)]
    for process in processes:
        process.start()
    start.set()
    allowed = [answers.get(timeout=120) for _ in processes]
    for process in processes:
        process.join(60)
    assert sum(allowed) == 2
    assert [spent.epsilon for spent in BudgetFile(tmp_path / "spent.db").runs()] == [0.5, 0.5]
    assert [file.name for file in tmp_path.iterdir()] == ["spent.db"]


def test_runs_add_up_and_what_is_refused_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "spent.db"
    assert spend(path, 0.75, 6e-7)
    assert not spend(path, 0.5, 0.0)
    assert not spend(path, 0.1, 6e-7)
    assert spend(path, None, None), "a method without a budget counts for nothing"
    assert spend(path, 0.25, 0.0)
    assert not spend(path, 1e-6, 0.0)
    assert [spent.epsilon for spent in BudgetFile(path).runs()] == [0.75, None, 0.25]
    assert replace(BudgetFile(path).runs()[0], run="") == replace(run(0.75, 6e-7), run="")


def test_a_run_is_charged_once(tmp_path: Path) -> None:
    """A node that has lost its ledger, and a second node on the same data, would each release a whole budget again."""
    file, mine = BudgetFile(tmp_path / "spent.db"), run(0.25)
    assert file.spend(mine, LIMIT, 1e-6)
    with pytest.raises(SpentAlready):
        file.spend(mine, LIMIT, 1e-6)
    assert file.runs() == [mine]


def test_all_that_was_asked_is_summed_up_by_run(tmp_path: Path) -> None:
    file = BudgetFile(tmp_path / "spent.db")

    def message(number: str) -> int:
        return file.ask(Request(f"2030-01-0{number}", number, "train", "one_shot", 0.5, 0.0))

    file.answer(message("1"), "later", "answered")
    file.spend(replace(run(0.5), run="1"), LIMIT, 1e-6)
    file.answer(message("1"), "later", "refused", "too much")
    file.answer(message("2"), "later", "failed", "no such array")
    message("2")  # the node ended before it could answer
    assert file.summaries() == [
        RunSummary("1", "2030-01-01", "one_shot", 2, 1, 1, 0, 0.5, 0.0, "too much"),
        RunSummary("2", "2030-01-02", "one_shot", 2, 0, 0, 1, None, None, "no such array"),
    ]
    assert file.spent() == (0.5, 0.0)


def _edit(path: Path, *commands: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for command in commands:
            database.execute(command)


@pytest.mark.parametrize(
    "command",
    [
        "DELETE FROM runs",
        "UPDATE runs SET epsilon = 0.1",
        "DELETE FROM requests",
        "UPDATE requests SET kind = 'x'",
        "DELETE FROM answers",
        "UPDATE answers SET outcome = 'refused'",
    ],
)
def test_entries_are_final(tmp_path: Path, command: str) -> None:
    spend(tmp_path / "spent.db")
    file = BudgetFile(tmp_path / "spent.db")
    file.answer(file.ask(Request("2030-01-01T00:00:00+00:00", "7", "train", "one_shot", 1.0, 0.0)), "", "answered")
    with pytest.raises(sqlite3.IntegrityError, match="what was spent stays spent"):
        _edit(tmp_path / "spent.db", command)


@pytest.mark.parametrize("epsilon", ["-5", "0", "'false'", "'much'", "X'00'", "-9e999"])
def test_an_entry_that_is_no_cost_cannot_be_written(tmp_path: Path, epsilon: str) -> None:
    spend(tmp_path / "spent.db")
    command = f"INSERT INTO runs VALUES (NULL, 't', '1', 's', {epsilon}, 0.0, 'u', 't')"
    with pytest.raises(sqlite3.IntegrityError):
        _edit(tmp_path / "spent.db", command)


@pytest.mark.parametrize("epsilon", ["-5", "'false'", "9e999", "-9e999"])
def test_an_entry_that_is_no_cost_is_not_believed(tmp_path: Path, epsilon: str) -> None:
    path = tmp_path / "spent.db"
    spend(path)
    unchecked = "PRAGMA ignore_check_constraints = 1"
    _edit(path, unchecked, f"INSERT INTO runs VALUES (NULL, 't', '1', 's', {epsilon}, 0.0, 'u', 't')")
    with pytest.raises(BrokenBudgetFile):
        spend(path, 0.1)


def _old(path: Path) -> None:
    path.write_text(json.dumps([{"run": 1, "epsilon": 0.5, "delta": 0.0}], indent=1))


def _link(path: Path) -> None:
    spend(path.with_name("elsewhere.db"))
    path.symlink_to(path.with_name("elsewhere.db"))


def _cut_off(path: Path) -> None:
    spend(path)
    path.write_bytes(path.read_bytes()[:5000])


def _overwritten(path: Path) -> None:
    spend(path)
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(content)


def _other_version(path: Path) -> None:
    spend(path)
    _edit(path, "PRAGMA user_version = 3")


def _other_program(path: Path) -> None:
    _edit(path, "CREATE TABLE runs (epsilon, delta)")


def _without_table(path: Path) -> None:
    spend(path)
    _edit(path, "DROP TABLE runs")


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "JSON of an earlier version": (
        _old,
        "JSON list of an earlier version: name another budget-file, and lower max-eps",
    ),
    "text": (lambda path: path.write_text("no database"), "is no budget-file, or was damaged"),
    "an object": (lambda path: path.write_text("{}"), "is no budget-file, or was damaged"),
    "brackets": (lambda path: path.write_text("[" * 100_000), "JSON list"),
    "empty": (lambda path: path.write_bytes(b""), "is no budget-file, or was damaged"),
    "a link": (_link, "is no plain file"),
    "a link to nothing": (lambda path: path.symlink_to(path.with_name("nothing")), "is no plain file"),
    "a folder": (lambda path: path.mkdir(), "is no plain file"),
    "a pipe": (os.mkfifo, "is no plain file"),
    "cut off": (_cut_off, "malformed|damaged"),
    "overwritten": (_overwritten, "malformed|damaged"),
    "another version": (_other_version, "of another program or version \\(3, not 2\\)"),
    "another program": (_other_program, "of another program or version"),
    "without its table": (_without_table, "no such table"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_file_that_cannot_be_believed_allows_nothing(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "spent.db"
    make, words = BROKEN[kind]
    make(path)
    for _ in range(2):
        with pytest.raises(BrokenBudgetFile, match=words):
            spend(path, 1e-6)


def test_a_folder_that_is_not_there_allows_nothing(tmp_path: Path) -> None:
    with pytest.raises(BrokenBudgetFile, match="No such file"):
        spend(tmp_path / "nowhere" / "spent.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_is_read_only_allows_nothing(tmp_path: Path) -> None:
    spend(tmp_path / "spent.db", 0.1)
    (tmp_path / "spent.db").chmod(0o400)
    with pytest.raises(BrokenBudgetFile, match=r"readonly|read-only"):
        spend(tmp_path / "spent.db", 0.1)


def _spend_without_room(path: Path, bytes_left: int, answers: multiprocessing.Queue) -> None:  # type: ignore[type-arg]
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, bytes_left))
    try:
        answers.put(str(spend(path, 0.1)))
    except BrokenBudgetFile as error:
        answers.put(f"refused: {error}")


@pytest.mark.parametrize("bytes_left", [0, 512, 5000])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_full_disk_allows_nothing_and_leaves_the_file_as_it_was(
    tmp_path: Path, bytes_left: int, is_new: bool
) -> None:
    path = tmp_path / "spent.db"
    if not is_new:
        spend(path, 0.5)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=_spend_without_room, args=(path, bytes_left, answers))
    process.start()
    process.join(60)
    assert answers.get(timeout=60).startswith("refused: ")
    assert [file.name for file in tmp_path.iterdir() if not file.name.endswith("-journal")] == [path.name] * (
        not is_new
    )
    assert spend(path, 0.5), "once there is room again"
    assert not spend(path, 0.75)
