"""``dpforest audit``: what it prints and keeps, its exit codes, and what it says about bad input."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hand_made import write_table

from fl_app.commands.cli import main as dpforest
from fl_app.results.audit_file import AUDIT, KeptAudit, read_audit
from fl_app.results.shapes import Misshapen
from strategies.one_shot import client as one_shot_client

TREES = ["strategy=one_shot", "strategy.depth=1", "strategy.trees=1", "strategy.leaf_share=0.9"]
SHORT = ["--repetitions", "400", "--jobs", "1"]


@pytest.fixture
def table(tmp_path: Path) -> list[str]:
    return ["dataset=table", *(f"dataset.{k}={v}" for k, v in write_table(tmp_path).items() if k != "name")]


def kept(folder: Path) -> KeptAudit:
    found = read_audit(folder)
    assert found is not None
    return found


def test_a_claim_is_printed_with_its_lower_bound_and_kept(
    table: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "audits" / "one"
    assert dpforest(["audit", *TREES, *table, "privacy.epsilon=2", f"output={folder}", *SHORT]) == 0
    said = capsys.readouterr().out
    for words in ("claim        epsilon 2 (pure)", "lower bound  epsilon ", "95 per cent", "half noise   epsilon",
                  "class counts of the leaves: epsilon", "your rows, without the one farthest out"):  # fmt: skip
        assert words in said
    found = kept(folder)
    assert (found.method, found.claims, found.violated, found.culprits) == ("one_shot", True, False, ())
    assert found.result.claim.epsilon == 2.0
    assert found.result.found.rates.draws == 160
    assert found.experiment["privacy"]["epsilon"] == 2.0
    assert dpforest(["audit", *TREES, *table, f"output={folder}", *SHORT]) == 2
    assert "is there already: name another folder by output=DIR" in capsys.readouterr().err


def test_a_guarantee_that_does_not_hold_ends_with_one_and_names_the_release(
    table: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    grow = one_shot_client.grow_trees

    def leaking(task: Any, X: np.ndarray, y: np.ndarray) -> Any:
        return replace(grow(task, X, y), metrics={"rows": float(len(y))})

    monkeypatch.setattr(one_shot_client, "grow_trees", leaking)
    options = [*TREES, *table, "strategy.rows=noised", f"output={tmp_path}", *SHORT]
    assert dpforest(["audit", *options]) == 1
    assert (
        "The guarantee does NOT hold, by: rows, which does not follow from what was noised" in capsys.readouterr().out
    )
    assert kept(tmp_path).violated


def test_a_method_without_a_guarantee_has_nothing_to_hold_and_shows_what_leaks(
    table: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["strategy=fext_published", "strategy.score=accuracy", "rounds=1", *table, f"output={tmp_path}", *SHORT]
    assert dpforest(["audit", *options]) == 0
    said = capsys.readouterr().out
    assert "claim        none: there is nothing to hold" in said
    assert "what leaks   epsilon" in said
    assert not kept(tmp_path).claims


def test_one_run_with_canaries(table: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dpforest(["audit", *TREES, *table, f"output={tmp_path}", "--canaries", "60", "--jobs", "1"]) == 0
    said = capsys.readouterr().out
    assert "neighbours   60 canaries, each in by a coin, and your rows" in said
    assert re.search(r"lower bound  epsilon .* of 12 guesses about 60 canaries of one run .* 1 repetition\)", said)
    assert "half noise   epsilon" in said
    assert kept(tmp_path).result.found.repetitions == 1


def test_a_method_that_sends_nothing(table: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert dpforest(["audit", "strategy=lrf", "strategy.trees=1", *table, *SHORT]) == 0
    assert "There is nothing to audit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--repetitions", "20"],
            r"error: 20 repetitions are too few to refute epsilon 1 \(pure\) .* --repetitions \d+",
        ),
        (["--repetitions", "0"], "error: --repetitions 0 must be a whole number from 1"),
        (["--canaries", "5"], r"error: 5 canaries are too few to refute epsilon 1 \(pure\) .* --canaries \d+ or more"),
        (["--canaries", "0"], "error: --canaries 0 must be a whole number from 1"),
        (["--canaries", "50", "--repetitions", "50"], "error: --canaries takes one run and --repetitions many"),
        (["--seconds", "0"], "error: --seconds 0 must be a number above 0"),
        (["--confidence", "1"], "error: --confidence 1 must lie between 0 and 1"),
        (["strategy=one_shoot"], "one_shot"),
        (["dataset.path=null"], "error: an audit needs rows to try, and only nodes have any"),
    ],
)
def test_bad_input_is_answered_with_one_line(
    table: list[str], options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dpforest(["audit", *TREES, *table, "--jobs", "1", *options]) == 2
    error = capsys.readouterr().err.strip()
    assert re.search(said, error), error
    assert error.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize(
    "damage",
    [{"version": 1}, {"method": 3}, {"result": {}}, {"culprits": "none"}, {"culprits": [3]}, {"violated": "no"},
     {"experiment": []}, {"experiment": {"privacy": 1}}, {"seconds": "long"}, {"seconds": -1}, {"leaks": [{}]},
     {"releases": [{"what": "w"}]}, {"worlds": [1]}, {"field": {"by": 3}}, {"method": "m" * 5000}],
)  # fmt: skip
def test_a_damaged_file_is_named(tmp_path: Path, damage: dict[str, Any]) -> None:
    assert read_audit(tmp_path) is None
    plain = {
        "version": 2, "method": "m", "guarantee": "g", "unit": "record", "neighbours": "n", "created": "now",
        "dpforest": "1", "violated": False, "claims": True, "has_power": False,
        "culprits": [], "leaks": [], "releases": [], "worlds": [],
        "seconds": 1.0, "field": None,
        "experiment": {"strategy": {"name": "m"}, "privacy": {"epsilon": 1.0, "delta": 0.0}},
        "result": {"epsilon": 1.0, "delta": 0.0, "confidence": 0.95, "half_noise": None, "violated": False,
                   "has_power": False, "found": {
            "epsilon": 0.5, "by": "all", "repetitions": 8, "mu": 0.0,
            "rates": {"hits": 1, "draws": 2, "false_hits": 0, "false_draws": 2},
        }},
    }  # fmt: skip
    (tmp_path / AUDIT).write_text(json.dumps(plain))
    assert kept(tmp_path).result.found.epsilon == 0.5
    (tmp_path / AUDIT).write_text(json.dumps(plain | damage))
    with pytest.raises(Misshapen, match="is no audit of this version"):
        read_audit(tmp_path)
    (tmp_path / AUDIT).write_text("{")
    with pytest.raises(Misshapen, match="is no audit of this version"):
        read_audit(tmp_path)
