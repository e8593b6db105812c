"""A node that answers by itself: the code of a run is nothing to it, and what it owes survives a restart."""

from __future__ import annotations

import csv
import errno
import json
import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from hand_made import SCHEMA, make, write_table

import dpforest
from dpforest.errors import DPForestError
from fl_app.data.sources import table
from fl_app.node import states
from fl_app.node.check import check_node
from fl_app.node.owner_file import OwnerFile, OwnerFileError
from fl_app.node.places import NodeRuns, StateLost, alone, check_state
from fl_app.node.serve import WarmNode
from fl_app.node.status import NodeStatus, node_status, write_csv
from strategies.flower_compat import identify_message, identify_run
from strategies.flower_compat.connection import Incoming, NotDelivered
from strategies.messages import ARRAYS, CONFIG
from strategies.node.budget_file import BudgetFile, RunSummary

EXPERIMENT = make({"name": "table", "schema": SCHEMA})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table, its schema and a ``node.toml``, of a user whose own state is elsewhere."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    path = Path(str(write_table(tmp_path)["path"]))
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(SCHEMA))
    write(tmp_path, f'data-path = "{path.name}"')
    return tmp_path


def write(home: Path, *more: str) -> None:
    lines = ["partition-id = 0", 'schema = "own.yaml"', 'state-folder = "state"', "max-epsilon = 2", *more]
    (home / "node.toml").write_text("\n".join([*lines, ""]))


def owner(home: Path, *more: str) -> OwnerFile:
    if more:
        (home / "node.toml").write_text((home / "node.toml").read_text() + "\n".join([*more, ""]))
    return OwnerFile.read(home / "node.toml")


def incoming(run: int, app: str = "dpforest/dpforest", version: str = dpforest.__version__, **config: Any) -> Incoming:
    identify_run(run, 7)
    settings = {"experiment": EXPERIMENT.to_json(), "run": "run 1", "clients": 1, "round": 1} | config
    message = Message(RecordDict({CONFIG: ConfigRecord(settings)}), 7, MessageType.TRAIN)
    identify_message(message, "1")
    return Incoming(message, run, app, version)


def said(node: WarmNode, message: Incoming) -> str:
    return str(node.answer(message, 7).content[CONFIG].get("error", "answered"))


@pytest.mark.parametrize(
    ("app", "version", "words"),
    [
        ("dpforest/dpforest", "0.0.9", "was started with version 0.0.9: install the same on both sides"),
        ("somebody/else", dpforest.__version__, "no code of a run; the run's bundle is somebody/else"),
        ("", "", "no code of a run; the run's bundle is unknown"),
        ("dpforest/dpforest", "1\n\x1b[2J" + "x" * 1000, "was started with version 1 [2J"),
    ],
)
def test_a_bundle_of_another_version_is_refused_in_words(home: Path, app: str, version: str, words: str) -> None:
    answer = said(WarmNode(owner(home)), incoming(1, app, version))
    assert answer.startswith(f"Refused: this node runs dpforest {dpforest.__version__}")
    assert words in answer
    assert len(answer) < 300


@pytest.mark.parametrize("kind", ["query", "train", "train.more", "evaluate", "system", "x"])
@pytest.mark.parametrize("version", [dpforest.__version__, "0.0.9"])
def test_every_message_is_written_down_and_answered(home: Path, kind: str, version: str) -> None:
    check_state(owner(home))
    message = incoming(1, version=version)
    message.message.metadata.__dict__["_message_type"] = kind
    with nullcontext() if kind != "x" else pytest.raises(NotDelivered):
        assert set(WarmNode(owner(home)).answer(message, 7).content) & {CONFIG}
    (run,) = node_status(owner(home)).runs
    assert (run.asked, run.answered + run.refused + run.failed) == (1, 1)


def test_a_node_that_is_started_again_goes_on_with_its_ledger(home: Path) -> None:
    check_state(owner(home))
    answer = WarmNode(owner(home)).answer(incoming(5), 7)
    assert ARRAYS in answer.content
    again = WarmNode(owner(home))
    assert said(again, incoming(5)) == "DPForestError: see its log", "its budget is spent"
    other_plan = incoming(5, experiment=make({"name": "table", "schema": SCHEMA}, epsilon=0.5).to_json())
    assert "the experiment is not the one that this run began with" in said(again, other_plan)
    assert [run.epsilon for run in BudgetFile(home / "state" / "budget.db").runs()] == [2.0]


def test_the_table_is_read_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home, 'data-path = "table.csv"', "lifetime-epsilon = 100")
    node, read = WarmNode(owner(home)), []
    original = table.read_table
    monkeypatch.setattr(
        table, "read_table", lambda path, *rest, **more: read.append(path) or original(path, *rest, **more)
    )
    assert [said(node, incoming(run)) for run in range(3)] == ["answered"] * 3
    assert len(read) == 1


def test_a_run_whose_ledger_is_lost_is_over(home: Path) -> None:
    write(home, 'data-path = "table.csv"', "lifetime-epsilon = 100")
    assert ARRAYS in WarmNode(owner(home)).answer(incoming(5), 7).content
    (home / "state" / "runs" / "5.state").unlink()
    assert "has no ledger of it; start a new run" in said(WarmNode(owner(home)), incoming(5))
    assert said(WarmNode(owner(home)), incoming(6)) == "answered"


@pytest.mark.parametrize("damage", [b"", b"x", b"x" * 1000])
def test_a_damaged_ledger_is_said_and_nothing_is_spent(home: Path, damage: bytes) -> None:
    write(home, 'data-path = "table.csv"', "lifetime-epsilon = 100")
    assert ARRAYS in WarmNode(owner(home)).answer(incoming(5), 7).content
    (home / "state" / "runs" / "5.state").write_bytes(damage)
    assert "ledger of the run is damaged; start a new run" in said(WarmNode(owner(home)), incoming(5))
    assert len(BudgetFile(home / "state" / "budget.db").runs()) == 1


def test_what_cannot_be_kept_does_not_leave(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts again would not know what was released."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(states.os, "replace", full)
    answer = WarmNode(owner(home)).answer(incoming(5), 7)
    assert set(answer.content) == {CONFIG}
    assert "cannot keep its ledger" in str(answer.content[CONFIG]["error"])


def test_a_table_without_a_schema_of_the_owners_is_not_read(home: Path) -> None:
    (home / "node.toml").write_text(
        'partition-id = 0\ndata-path = "table.csv"\nstate-folder = "state"\nmax-epsilon = 2\n'
    )
    assert "this node's owner has described no table" in said(WarmNode(owner(home)), incoming(1))


def test_all_runs_together_keep_the_lifetime_limit(home: Path) -> None:
    write(home, 'data-path = "table.csv"', "lifetime-epsilon = 4")
    node = WarmNode(owner(home))
    assert [said(node, incoming(run)) == "answered" for run in range(4)] == [True, True, False, False]
    status = node_status(owner(home))
    assert status.spent == (4.0, 0.0)
    assert [(run.asked, run.answered, run.refused, run.epsilon) for run in status.runs] == [
        (1, 1, 0, 2.0), (1, 1, 0, 2.0), (1, 0, 1, None), (1, 0, 1, None),
    ]  # fmt: skip
    assert "spent: epsilon 4, delta 0\nremaining: epsilon 0," in status.text()
    write_csv(status, home / "status.csv")
    lines = (home / "status.csv").read_text().splitlines()
    assert lines[0].startswith("run,began,strategy,asked,answered,refused,failed,epsilon,delta,last_words")
    assert len(lines) == 5


@pytest.mark.parametrize("words", ["=1+1", "\t=1", "\uff1d1", "@SUM(1)", "+1 or so", "\x1b[2J=1", "-1"])
def test_words_of_a_server_are_no_formula(home: Path, words: str) -> None:
    run = RunSummary("7", "2026", words, 1, 0, 1, 0, None, None, words)
    write_csv(NodeStatus([run], (0, 0), (1, 1)), home / "status.csv")
    with (home / "status.csv").open(newline="") as file:
        _, cells = csv.reader(file)
    assert cells[2] == cells[-1]
    assert (cells[2] == words) if words == "-1" else cells[2][0] not in "=+-@\t\uff1d\x1b"


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({}, "another node is running with data-path .*table.csv"),
        ({"state-folder": "elsewhere"}, "another node is running with data-path .*table.csv"),
        ({"data-path": "other.csv"}, "another node is running with state-folder .*state"),
    ],
)
def test_two_nodes_on_the_same_data_or_state_are_one_too_many(home: Path, other: dict[str, str], words: str) -> None:
    (home / "other.csv").write_text("x")
    (home / "elsewhere").mkdir()
    first = owner(home)
    second = replace(
        first, node_config=dict(first.node_config) | {key: str(home / name) for key, name in other.items()}
    )
    with alone(first), pytest.raises(NodeRuns, match=words), alone(second):
        pass
    with alone(second):
        pass


def test_another_state_folder_is_no_new_budget(home: Path) -> None:
    check_state(owner(home))
    text = (home / "node.toml").read_text().replace('"state"', '"elsewhere"')
    (home / "node.toml").write_text(text)
    with pytest.raises(StateLost, match=r"the budget of .* is kept in .*state.budget.db, and not in"):
        check_state(owner(home))


def test_a_part_of_the_state_that_is_gone_is_said(home: Path) -> None:
    state = home / "state"
    check_state(owner(home))
    assert said(WarmNode(owner(home)), incoming(1)) == "answered"
    (state / "secret").rename(state / "was")
    with pytest.raises(StateLost, match=r"secret is gone, which chose the test rows"):
        check_state(owner(home))
    (state / "was").rename(state / "secret")
    check_state(owner(home))
    (state / "budget.db").unlink()
    with pytest.raises(StateLost, match="nobody knows what this node has spent: put back a copy"):
        check_state(owner(home))
    shutil.rmtree(state)
    with pytest.raises(StateLost, match=r"is gone, in which the budget of .* was kept: put back a copy"):
        check_state(owner(home))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("max-epsilom = 1", "says 'max-epsilom', which is no setting; did you mean 'max-epsilon'"),
        ("strategies = [1]", "expected one value"),
        ("rows = {}", "expected one value"),
        ("x =", "is no TOML"),
        ('private-key = "nowhere"', "private-key .*nowhere cannot be read"),
        ('private-key = "own.yaml"', "cannot be read .*ssh-keygen -t ecdsa"),
        ('max-delta = "1e-6"', "max-delta '1e-6' must be a finite number"),
    ],
)
def test_what_is_wrong_in_the_file_is_one_line(home: Path, line: str, words: str) -> None:
    with pytest.raises(DPForestError, match=words):
        check_node(owner(home, line))


@pytest.mark.parametrize("line", ["rows = 5", "partition-id = true", "partition-id = -1", 'partition-id = "0"'])
def test_every_node_has_a_number(home: Path, line: str) -> None:
    (home / "node.toml").write_text(line)
    with pytest.raises(OwnerFileError, match=r"partition-id = .*: every node of a federation has a whole number"):
        owner(home)


def test_a_check_says_whom_the_node_knows(home: Path) -> None:
    keys = [ec.generate_private_key(ec.SECP384R1()) for _ in range(3)]
    private = keys[0].private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = [key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode() for key in keys]
    (home / "node.key").write_bytes(private)
    (home / "fellows.pub").write_text("\n".join(public))
    assert "secure sums: not signed" in "\n".join(check_node(owner(home))[0])
    assert "secure sums: signed; the server is trusted" in "\n".join(
        check_node(owner(home, 'private-key = "node.key"'))[0]
    )
    lines, _ = check_node(owner(home, 'fellows = "fellows.pub"', "min-fellows = 2"))
    assert "of 3 known keys at least 2 must be in a sum" in "\n".join(lines)
    assert "the server is not trusted" in "\n".join(lines)
    (home / "node.toml").write_text((home / "node.toml").read_text().replace("min-fellows = 2", "min-fellows = 3"))
    with pytest.raises(DPForestError, match="min-fellows 3 is above the number of keys in its fellows"):
        check_node(owner(home))


def test_a_check_says_what_is_left_out_and_what_is_allowed(home: Path) -> None:
    file = home / "table.csv"
    file.write_text(file.read_text() + f"c0,{'x' * 5},0.5,low\n")
    narrow = json.loads(json.dumps(SCHEMA))
    narrow["features"][1]["use"] = False
    (home / "own.yaml").write_text(yaml.safe_dump(narrow))
    lines, failed = check_node(owner(home, 'units = ["record"]', "max-seconds = 5"))
    text = "\n".join(lines)
    assert failed
    assert f"line {len(file.read_text().splitlines())}" in text
    names = [feature["name"] for feature in SCHEMA["features"]]
    assert f"kept back (use = false): {names[1]}" in text
    assert "one run may spend at most epsilon 2" in text
    assert "units: record" in text
    assert "5 seconds" in text
