"""Published values against what their settings reach here, and what differs."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest
from made_up_runs import write_run

from fl_app.commands.cli import main as dpforest
from fl_app.report import papers
from fl_app.report.gather import gather
from fl_app.report.papers.compared import HEADER, compared, pairs
from fl_app.report.papers.published import published, published_on
from fl_app.report.sections import Section

HAPT = {"name": "hapt", "features": "statistics"}
SOURCES = sorted(path.stem for path in Path(papers.__file__).parent.glob("*.yaml"))


@pytest.fixture
def chapter(tmp_path: Path) -> Section:
    """The chapter's setting done as written, at two of its epsilons, and what it compares with."""
    for seed in range(3):
        for epsilon, score in ((0.5, 0.151), (10.0, 0.302)):
            own = [score + 0.01 * (seed - 1)] * 3
            write_run(tmp_path / f"{epsilon}-{seed}", "dp_fedavg_published", epsilon, seed, own, dataset=HAPT,
                      unprotected="weights")  # fmt: skip
        write_run(tmp_path / f"fedavg-{seed}", "fedavg", math.inf, seed, [0.96] * 3, dataset=HAPT, noised=False)
        write_run(tmp_path / f"tight-{seed}", "dp_fedavg", 0.5, seed, [0.4] * 3, dataset=HAPT)
    (section,) = gather([tmp_path]).sections
    return section


def test_a_paper_that_its_own_setting_does_not_reach_is_said_so(chapter: Section) -> None:
    lines, sentences = compared(chapter)
    assert dict(zip(HEADER, lines[0], strict=True)) == {
        "source": "HAR chapter, table 1 (epsilon a round, no valid guarantee; held-out rows not stated)",
        "method": "DP-FedAvg",
        "at": "epsilon 0.5",
        "metric": "accuracy",
        "paper": "0.8812",
        "ours": "0.151 [0.141 to 0.161]",
        "seeds": "3",
        "ours less paper": "-0.730",
    }
    assert [line[1:3] for line in lines[1:]] == [["DP-FedAvg", "epsilon 10"], ["FedAvg", "no privacy"]]
    (sentence,) = sentences
    assert sentence.startswith(
        "HAR chapter, table 1: Federated Learning: Balancing Privacy and Utility in Human Activity Recognition, "
        "DP-FedAvg: it says accuracy 0.881 at epsilon 0.5 (ours 0.151 [0.141 to 0.161]), 0.958 at epsilon 10 "
    )
    assert "What is known of why: the chapter adds noise" in sentence
    assert not next(pair for pair in pairs(chapter) if pair.method == "FedAvg").differs, "0.9622 and 0.96"


def test_only_runs_of_the_published_setting_stand_next_to_it(tmp_path: Path) -> None:
    write_run(tmp_path / "tight", "one_shot", 1.0, dataset={"name": "hugadb"}, accounting="tight", depth=5)
    write_run(tmp_path / "other", "one_shot", 1.0, dataset={"name": "hugadb"}, accounting="published", depth=7)
    assert compared(gather([tmp_path]).sections[0]) == ([], [])
    write_run(tmp_path / "same", "one_shot", 1.0, 0, [0.505] * 3, dataset={"name": "hugadb"}, accounting="published",
              depth=5)  # fmt: skip
    (pair,) = pairs(gather([tmp_path]).sections[0])
    assert (pair.method, pair.paper, pair.differs) == ("depth 5", 0.505, False)


def test_types_of_users_and_rounds_have_their_values(tmp_path: Path) -> None:
    run = write_run(tmp_path / "users" / "a", "pp_fprf", 20.0, dataset=HAPT, accounting="published", trees=20)
    clients = pd.read_csv(run / "clients.csv").assign(type=["A", "B", "C"], accuracy_lrf=[0.932, 0.8, 0.7])
    clients.to_csv(run / "clients.csv", index=False)
    found = {(pair.method, pair.at): pair for pair in pairs(gather([tmp_path / "users"]).sections[0])}
    assert len(found) == 8, "two methods, three types and all"
    assert (found["lrf", "users of type A"].gap, found["lrf", "users of type A"].differs) == (0, False)
    assert found["lrf", "all users"].ours.mean == pytest.approx((0.932 + 0.8 + 0.7) / 3)
    write_run(tmp_path / "rounds" / "a", "fext", 1.0, dataset={"name": "appliances"}, target=True, rounds=4,
              accounting="published")  # fmt: skip
    rounds = pairs(gather([tmp_path / "rounds"]).sections[0])
    assert [(pair.at, pair.paper) for pair in rounds] == [("round 1", 5500.0), ("round 4", 5250.0)]
    assert all(pair.differs for pair in rounds)


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_has_a_title_and_a_setting_of_ours_for_each_of_its_curves(name: str) -> None:
    source = published(name)
    assert source["title"]
    assert source["why"]
    curves = [*source.get("accuracy", {}), *source.get("without_privacy", {}), *source.get("mse", {})]
    assert set(curves) | ({"by_type"} if "by_type" in source else set()) == set(source["ours"])
    assert source in published_on(source["dataset"], source["split"])


def test_the_terminal_and_the_page_have_the_table(
    chapter: Section, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dpforest(["compare", str(tmp_path)]) == 0
    assert "ours less paper" in capsys.readouterr().out
    assert dpforest(["report", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<h3>Papers against ours</h3>" in page
    assert "-0.730" in page
