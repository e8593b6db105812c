"""``dpforest ledger``: claims of run folders, honest, too small, of another version, and hostile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import write_run

from fl_app.commands.cli import main
from fl_app.results.ledger_check import check_ledgers


def change(run: Path, edit: Callable[[dict[str, Any]], None]) -> Path:
    """Edit privacy.json of a run."""
    path = run / "privacy.json"
    plain = json.loads(path.read_text())
    edit(plain)
    path.write_text(json.dumps(plain))
    return run


def first_entry(privacy: dict[str, Any]) -> dict[str, Any]:
    return privacy["clients"]["0"]["entries"][0]


def test_an_honest_run_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", epsilon=1.0)
    assert main(["ledger", str(run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:6]] == ["client", "client", "client", "run"]
    assert all(line.endswith("holds") for line in lines[2:6])
    assert any(line.startswith("note: PLD is left out") for line in lines)


@pytest.mark.parametrize(
    "edit",
    [
        lambda plain: plain.update(epsilon=0.5),
        lambda plain: plain["clients"]["1"].update(epsilon=0.99),
        lambda plain: first_entry(plain).update(times=2),
        lambda plain: first_entry(plain).update(sensitivity=2.0),
        lambda plain: first_entry(plain).update(protected=False),
        lambda plain: first_entry(plain).update(epsilon="inf"),
        lambda plain: plain["clients"]["2"]["budget"].update(epsilon=0.5),
    ],
    ids=["run", "client", "times", "sensitivity", "unprotected", "infinite", "budget"],
)
def test_a_claim_that_is_too_small_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], edit: Callable[[dict[str, Any]], None]
) -> None:
    run = change(write_run(tmp_path / "run", epsilon=1.0), edit)
    assert main(["ledger", str(run)]) == 1
    assert "EXCEEDS" in capsys.readouterr().out


def test_what_was_underpaid_is_named(tmp_path: Path) -> None:
    run = change(write_run(tmp_path / "run"), lambda plain: first_entry(plain).update(sensitivity=2.0))
    assert any("more was spent" in remark and "class counts" in remark for remark in check_ledgers(run).remarks)


@pytest.mark.parametrize("options", [{"noised": False}, {"unprotected": "leaf means"}], ids=["open", "bare"])
def test_a_run_that_guarantees_nothing_has_nothing_to_exceed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: dict[str, Any]
) -> None:
    assert main(["ledger", str(write_run(tmp_path / "run", **options))]) == 0
    out = capsys.readouterr().out
    assert "nothing is claimed" in out
    assert "costs infinity" in out


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda plain: first_entry(plain).update(clipped=3), "'clipped'"),
        (lambda plain: first_entry(plain).pop("fixed_size"), "use the version that made the run"),
        (lambda plain: first_entry(plain).update(times=0), "times"),
        (lambda plain: plain.update(clients={}), "no ledger"),
        (lambda plain: plain.update(clients=3), "clients"),
    ],
    ids=["newer", "older", "times", "none", "shape"],
)
def test_ledgers_that_cannot_be_counted_end_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], edit: Callable[[dict[str, Any]], None], words: str
) -> None:
    run = change(write_run(tmp_path / "run"), edit)
    assert main(["ledger", str(run)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", ["ledger", "statement"])
def test_a_folder_without_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main([command, str(tmp_path)]) in (1, 2)
    assert "no privacy.json" in capsys.readouterr().err


def test_many_different_ledgers_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def edit(plain: dict[str, Any]) -> None:
        ledger = plain["clients"]["0"]
        plain["clients"] = {
            str(n): ledger | {"entries": [ledger["entries"][0] | {"epsilon": 1 / (n + 1)}]} for n in range(200)
        }

    assert main(["ledger", str(change(write_run(tmp_path / "run"), edit))]) == 2
    assert "different ledgers" in capsys.readouterr().err


def test_names_of_others_do_not_reach_the_terminal_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def edit(plain: dict[str, Any]) -> None:
        plain["clients"]["\x1b[31m\n9"] = plain["clients"].pop("0")

    main(["ledger", str(change(write_run(tmp_path / "run"), edit))])
    assert "\x1b" not in capsys.readouterr().out


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    remarks = check_ledgers(write_run(tmp_path / "run")).remarks
    assert any("OpenDP is left out: opendp.prelude is not installed" in remark for remark in remarks)
