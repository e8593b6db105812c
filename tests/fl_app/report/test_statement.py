"""``statement.html``: what it says of runs of every kind, of what was measured, and of names from data."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_runs import write_run

from dpforest.errors import DPForestError
from dpforest.guarantee import CLIENT_UNIT
from fl_app.commands.cli import main
from fl_app.report.page import write_report
from fl_app.report.statement import write_statement
from tests.fuzz.mutations import damaged_plain

HOSTILE = "<script>alert('x')</script> & \"q\" {{ 7 * 7 }}"


def words_of(page: Path) -> str:
    """The text of a page, in one line."""
    body = page.read_text(encoding="utf-8").partition("<body>")[2]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def edit(run: Path, name: str, **values: Any) -> None:
    plain = json.loads((run / name).read_text())
    (run / name).write_text(json.dumps(plain | values))


def test_a_guarantee_and_what_it_says_of_more_than_a_record(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", epsilon=0.5, public_rows=20)
    edit(run, "privacy.json", records_an_hour=4)
    text = words_of(write_statement(run))
    assert "This run gives a guarantee: epsilon at most 0.5 (pure, delta 0), for one record." in text
    assert "is right at most 62.3 per cent of the time" in text
    assert "It is a simulation." in text
    assert "An hour of recording: at most 4 records 88.1 per cent of the time 2 0 k x epsilon" in text
    assert "20 by their public order of magnitude" in text
    assert "nothing useful (99.996 per cent) 10 0 k x epsilon" in text
    assert "class counts of the leaves discrete Laplace, scale 2 for a sensitivity of 1" in text
    assert "Clients 0 to 2, the same for each" in text
    assert "NIST Special Publication 800-226" in text
    assert "10.6028/NIST.SP.800-226" in text
    assert not list(run.glob(".*"))


def test_a_curve_where_there_is_a_delta(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", delta=1e-6)
    entry = {"what": "sums", "mechanism": "Gaussian", "epsilon": 0.0, "mu": 0.2, "times": 1, "rows": "all",
             "sampling": 1.0, "fixed_size": False, "protected": True, "note": ""}  # fmt: skip
    plain = json.loads((run / "privacy.json").read_text())
    for ledger in plain["clients"].values():
        ledger["entries"] = [entry]
    (run / "privacy.json").write_text(json.dumps(plain))
    page = write_statement(run)
    assert "<svg" in page.read_text(encoding="utf-8")
    assert "Gaussian: k x mu" in words_of(page)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"noised": False}, "Nothing that left the clients was noised."),
        ({"noised": False}, "weights"),
        ({"unprotected": "leaf means"}, "leaf means"),
    ],
    ids=["open", "why", "bare"],
)
def test_a_run_without_a_guarantee_says_so_first(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    text = words_of(write_statement(write_run(tmp_path / "run", **options)))
    assert re.match(r"Privacy statement Run run: .{0,150}? This run guarantees nothing\.", text)
    assert reason in text.partition("1. What is guaranteed")[0]
    assert "per cent of the time" not in text


def test_a_run_in_which_nothing_left_says_that(tmp_path: Path) -> None:
    text = words_of(write_statement(write_run(tmp_path / "run", noise_in_ledger=False)))
    assert "Nothing that depends on a client's records left any client in this run." in text.replace("\u2019", "'")


@pytest.mark.parametrize("change", [{"times": 2}, {"protected": False}, {"epsilon": "inf"}])
def test_a_claim_that_ledgers_do_not_bear_out_gets_no_statement(tmp_path: Path, change: dict[str, Any]) -> None:
    run = write_run(tmp_path / "run")
    plain = json.loads((run / "privacy.json").read_text())
    plain["clients"]["1"]["entries"][0] |= change
    (run / "privacy.json").write_text(json.dumps(plain))
    with pytest.raises(DPForestError, match="cost more than the run claims"):
        write_statement(run)
    assert not (run / "statement.html").exists()


def test_a_client_is_a_unit_of_its_own(tmp_path: Path) -> None:
    text = words_of(write_statement(write_run(tmp_path / "run", unit=CLIENT_UNIT, epsilon=1.0)))
    assert (
        "All data of one client: a person's whole data, where a client is one person 73.2 per cent of the time 1 0"
        in text
    )
    assert "of a client that stays: two steps 88.1 per cent of the time 2 0" in text


def test_names_are_text(tmp_path: Path) -> None:
    run = write_run(tmp_path / HOSTILE.replace("/", "_"), unprotected=HOSTILE, classes=(HOSTILE, "b"),
                    dataset={"name": HOSTILE})  # fmt: skip
    edit(run, "privacy.json", record=HOSTILE, note=HOSTILE, evaluation=HOSTILE, noise=HOSTILE, dpforest=HOSTILE)
    page = write_statement(run)
    assert "<script" not in page.read_text(encoding="utf-8")
    assert words_of(page).count(HOSTILE) >= 6


def audit_of(**values: Any) -> dict[str, Any]:
    """As ``audit.json`` has it, of a made-up run."""
    rates = {"hits": 800, "draws": 1000, "false_hits": 10, "false_draws": 1000}
    found = {"by": "all that goes out", "rates": rates, "repetitions": 4000, "epsilon": 0.527, "mu": 0.0}
    result = {"epsilon": 1.0, "delta": 0.0, "confidence": 0.95, "violated": False, "has_power": True, "found": found,
              "half_noise": found | {"epsilon": 1.564}}  # fmt: skip
    experiment = {"strategy": {"name": "one_shot"}, "privacy": {"epsilon": 1.0, "delta": 0.0}}
    return {"version": 2, "field": None, "has_power": True, "method": "one_shot", "claims": True, "violated": False,
            "culprits": [], "leaks": [], "releases": [], "worlds": [], "seconds": 60.0,
            "guarantee": "", "unit": "record", "neighbours": "a record alone", "result": result,
            "created": "2026-01-31T12:00:00+00:00", "dpforest": "0.1.0", "experiment": experiment,
            **values}  # fmt: skip


def attack_on(**values: Any) -> dict[str, Any]:
    """As ``attack.json`` has it."""
    line = {"of": "this method", "level": "file", "attack": HOSTILE, "whose": "this model",
            "area": [0.551, 0.5, 0.6], "balanced_accuracy": [0.53, 0.5, 0.56]}  # fmt: skip
    line |= {"true_positives": {}, "members": 240, "others": 60}
    return {"method": "one_shot", "epsilon": 1.0, "delta": 0.0, "holds": True, "models": 12, "records": 300,
            "seconds": 1.0, "membership": [line], "allowed": None, "score": 0.9, "influence": None, "controls": [],
            "reconstruction": {"lines": [], "note": ""}, "attributes": {"lines": [], "note": ""},
            "words": ["Only epsilon bounds it."], **values}  # fmt: skip


def test_audits_and_attacks_are_cited(tmp_path: Path) -> None:
    run = write_run(tmp_path / "sweep" / "run")
    assert "Audit: none was run." in words_of(write_statement(run))
    (tmp_path / "sweep" / "audit.json").write_text(json.dumps(audit_of()))
    (run / "attack.json").write_text(json.dumps(attack_on()))
    page = write_statement(run)
    text = words_of(page)
    assert "claimed epsilon 1; measured, with 95 per cent confidence, at least 0.527" in text
    assert "With half the noise it measured 1.564: it would have seen such a fault." in text
    assert "0.551 [0.500, 0.600]" in text
    assert "Only epsilon bounds it." in text
    assert "<script" not in page.read_text(encoding="utf-8")


def test_a_refuted_claim_is_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "audit.json").write_text(json.dumps(audit_of(violated=True, culprits=["splits"])))
    assert "The claim is refuted by: splits." in words_of(write_statement(run))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("audit.json", "{"),
        ("audit.json", "[]"),
        ("audit.json", json.dumps(audit_of(result=3))),
        ("audit.json", json.dumps(audit_of(experiment={"strategy": {"name": "boost"}, "privacy": {}}))),
        ("audit.json", json.dumps(audit_of(experiment={"privacy": {"epsilon": [], "delta": 0}}))),
        ("attack.json", json.dumps(attack_on(epsilon=3.0))),
    ],
)
def test_what_cannot_be_cited_is_named(tmp_path: Path, name: str, content: str) -> None:
    run = write_run(tmp_path / "run")
    (run / name).write_text(content)
    assert f"{name} is not cited" in words_of(write_statement(run))


def test_the_command_writes_it_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run")
    assert main(["statement", str(run)]) == 0
    assert (run / "statement.html").is_file()
    assert "statement.html" in capsys.readouterr().out
    (run / "metrics.json").write_text("{")
    assert main(["statement", str(run)]) == 1
    assert "damaged" in capsys.readouterr().err


def test_damage_costs_the_statement_in_one_line(tmp_path: Path) -> None:
    """Whatever stands in privacy.json: a page, or a refusal."""
    run = write_run(tmp_path / "run", public_rows=50)
    sound = json.loads((run / "privacy.json").read_text())
    rng = np.random.default_rng(1)
    refusals = []
    for _ in range(150):
        (run / "privacy.json").write_text(json.dumps(damaged_plain(sound, rng)))
        try:
            write_statement(run)
        except DPForestError as error:
            refusals.append(str(error))
    assert 10 < len(refusals) < 140
    assert "\n" not in "".join(refusals)


def test_a_report_says_more_than_the_record_and_links_the_statement(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a run" / "0", public_rows=20)
    write_statement(run)
    page = write_report([tmp_path / "a run"], tmp_path / "out")
    assert 'href="../a%20run/0/statement.html"' in page.read_text(encoding="utf-8")
    assert "20 by their public order of magnitude" in words_of(page)
