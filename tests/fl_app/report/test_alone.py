"""Whether to federate: each client's own model against the best guarantee."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from made_up_runs import CLIENT_UNIT, RECORD_UNIT, write_run

from dpforest.guarantee import NO_SERVER, Trust, TrustModel
from fl_app.report.alone import Outcome
from fl_app.report.answer import Answer, answer
from fl_app.report.figures.comparison import answer_picture
from fl_app.report.figures.tradeoff import tradeoff
from fl_app.report.gather import gather

SHARED = Trust("for sums by secure aggregation", kind=TrustModel.SHARED)


def compared(folder: Path, own: float, guarantees: Sequence[float], seeds: int = 3, **more: object) -> Answer:
    """One guarantee an epsilon 1, 10, 100 against each client's own model."""
    for seed in range(seeds):
        write_run(folder / f"own{seed}", "alone", math.inf, seed, [own - 0.01, own, own + 0.01], noised=False, **more)
        for power, reached in enumerate(guarantees):
            write_run(folder / f"{power}-{seed}", "boost", 10.0**power, seed, [reached] * 3, **more)
    (section,) = gather([folder]).sections
    return answer(section)


def test_the_first_sentence_says_not_to_federate_and_for_whom(tmp_path: Path) -> None:
    found = compared(tmp_path, 0.9, [0.6, 0.7])
    assert found.sentences()[:2] == [
        "Do not federate at epsilon 1 to 10 for the clients' own rows: each client's own model (alone, which sends "
        "nothing) reaches accuracy 0.900 against 0.700 of the best guarantee (boost at epsilon 10), and is better for "
        "3 of 3 clients.",
        "Being alone means having no model for a person that nobody trained on: for such people this does not hold "
        "(evaluation=subject holds them out).",
    ]


@pytest.mark.parametrize(
    ("own", "guarantees", "seeds", "outcomes", "begins"),
    [
        (0.9, [0.6, 0.903], 3, [Outcome.ALONE, Outcome.UNSURE], "Do not federate at epsilon 1 for"),
        (0.5, [0.8, 0.9], 3, [Outcome.FEDERATED] * 2, "Federate at epsilon 1 to 10: the best guarantee (boost at"),
        (0.9, [0.6], 1, [Outcome.ALONE_UNSURE], "At epsilon 1, each client's own model (alone, which sends"),
        (0.5, [0.9], 2, [Outcome.UNSURE], "At epsilon 1, the best guarantee (boost) has the higher mean: accuracy"),
    ],
)
def test_each_range_of_epsilon_has_its_own_word(
    tmp_path: Path, own: float, guarantees: list[float], seeds: int, outcomes: list[Outcome], begins: str
) -> None:
    found = compared(tmp_path, own, guarantees, seeds)
    assert found.alone is not None
    assert [rival.outcome for rival in found.alone.rivals] == outcomes
    assert found.headline().startswith(begins)
    assert ("too few seeds to call that a difference" in found.headline()) == (seeds < 3)
    assert ("no model for a person" in found.headline()) == any("ALONE" in each.name for each in outcomes)


def test_for_whom_it_holds_is_counted_by_client(tmp_path: Path) -> None:
    for seed in range(3):
        write_run(tmp_path / f"own{seed}", "alone", math.inf, seed, [0.99, 0.99, 0.5], noised=False)
        write_run(tmp_path / f"one{seed}", "boost", 1.0, seed, [0.7, 0.7, 0.7])
    found = answer(gather([tmp_path]).sections[0]).alone
    assert found is not None
    assert found.better_for(found.rivals[0]) == (2, 3)
    # Over clients the gaps 0.29, 0.29 and -0.2 are no difference.
    assert found.rivals[0].outcome is Outcome.ALONE_UNSURE
    assert "and is better for 2 of 3 clients; no difference is shown" in found.sentences()[0]


def test_r2_is_compared_as_accuracy_is(tmp_path: Path) -> None:
    found = compared(tmp_path, 0.8, [0.3], target=True)
    assert found.headline().startswith("Do not federate at epsilon 1 for the clients' own rows: ")
    assert "reaches R^2 0.800 against 0.300 of the best guarantee" in found.headline()
    assert found.section.most_frequent["r2"] == 0


def test_who_is_private_alone_is_no_federation(tmp_path: Path) -> None:
    for seed in range(3):
        write_run(tmp_path / f"a{seed}", "standalone", 1.0, seed, [0.9] * 3)
        write_run(tmp_path / f"b{seed}", "boost", 1.0, seed, [0.8] * 3)
        write_run(tmp_path / f"c{seed}", "standalone", 10.0, seed, [0.9] * 3)
    found = answer(gather([tmp_path]).sections[0])
    (verdict,) = found.verdicts  # at epsilon 10 nobody federates
    assert [other.setting for other in verdict.ranking] == ["boost"]
    assert "Alone under the same epsilon, a client has standalone: 0.900" in verdict.words()
    assert found.alone is None, "a private model is not what a client has anyway"
    for seed in range(3):
        shutil.rmtree(tmp_path / f"b{seed}")
    only = answer(gather([tmp_path]).sections[0])
    assert [verdict.best.setting for verdict in only.verdicts] == ["standalone"] * 2, "there is nothing else"


def test_who_is_alone_makes_no_panel_of_its_own(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "boost", unit=RECORD_UNIT, trust=SHARED)
    write_run(tmp_path / "b", "dp_fedavg", unit=CLIENT_UNIT, trust=SHARED)
    write_run(tmp_path / "c", "standalone", unit=RECORD_UNIT, trust=NO_SERVER)
    found = answer(gather([tmp_path]).sections[0])
    assert found.section.panels == ["record", "client's whole data"]
    assert [verdict.best.setting for verdict in found.verdicts] == ["boost", "dp_fedavg"]


def test_the_picture_has_the_lines_to_compare_with(tmp_path: Path) -> None:
    write_run(tmp_path / "pooled", "centralized", math.inf, 0, [0.95] * 3, noised=False)
    write_run(tmp_path / "own", "standalone", math.inf, 0, [0.8] * 3, noised=False)
    ((_, figure),) = answer_picture(compared(tmp_path, 0.9, [0.6]))
    labels = figure.axes[0].get_legend_handles_labels()[1]
    assert [label.partition(" (")[0] for label in labels if label.startswith("without privacy")] == [
        "without privacy: centralized",
        "without privacy: alone, each client by itself",
    ], "of what each client has alone, the best"


def test_the_trade_off_has_a_column_of_each_clients_own_model(tmp_path: Path) -> None:
    write_run(tmp_path / "pooled", "centralized", math.inf, 0, [0.95] * 3, noised=False)
    ((_, figure),) = tradeoff(compared(tmp_path, 0.9, [0.6, 0.7]))
    (axes,) = figure.axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "10", "alone", "no privacy"]
    assert [bar.get_height() for bar in axes.patches[:4]] == pytest.approx([0.6, 0.7, 0.9, 0.95])
