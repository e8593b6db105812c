"""Units and trust models make panels where runs differ in both: each with its answer, its marks and its curves."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from made_up_runs import CLIENT_UNIT, RECORD_UNIT, write_run

from dpforest.guarantee import NO_SERVER, Trust, TrustModel, Unit
from fl_app.report.answer import Answer, answer
from fl_app.report.figures.comparison import answer_picture
from fl_app.report.figures.epsilon import against_epsilon
from fl_app.report.figures.families import against_clients
from fl_app.report.gather import gather

SHARED = Trust("for sums by secure aggregation", "the server is honest", kind=TrustModel.SHARED)
CENTRAL = Trust("server trusted", "it sees all", kind=TrustModel.CENTRAL)
# What trees and a linear model reach: another one leads in each panel.
REACHED = {
    (RECORD_UNIT, NO_SERVER): (0.8, 0.7),
    (RECORD_UNIT, SHARED): (0.7, 0.8),
    (CLIENT_UNIT, NO_SERVER): (0.25, 0.2),
    (CLIENT_UNIT, SHARED): (0.5, 0.6),
}
PANELS = [
    "record, each client adding all noise",
    "record, noise shared under secure aggregation",
    "client's whole data, each client adding all noise",
    "client's whole data, noise shared under secure aggregation",
]


def four_panels(folder: Path, epsilons: tuple[float, ...] = (1.0, 10.0)) -> Answer:
    number = 0
    for (unit, trust), scores in REACHED.items():
        network = "dp_sgd" if unit is RECORD_UNIT else "dp_fedavg"
        for method, score, own in (("boost", scores[0], {"linear_share": 0}), (network, scores[1], {"hidden": "[]"})):
            for epsilon in epsilons:
                if unit is CLIENT_UNIT and trust is NO_SERVER and epsilon < 10:
                    continue  # nothing can be learned there
                for seed in range(3):
                    write_run(folder / str(number), method, epsilon, seed, [score] * 3, unit=unit, trust=trust,
                              delta=1e-6, **own)  # fmt: skip
                    number += 1
    write_run(folder / "alone", "standalone", math.inf, 0, [0.65] * 3, noised=False,
              trust=Trust("nothing leaves a client", kind=TrustModel.LOCAL))  # fmt: skip
    write_run(folder / "together", "centralized", math.inf, 0, [0.95] * 3, noised=False, trust=CENTRAL)
    return answer(gather([folder]).sections[0])


def test_each_unit_under_each_trust_has_an_answer_of_its_own(tmp_path: Path) -> None:
    found = four_panels(tmp_path)
    assert list(dict.fromkeys(verdict.panel for verdict in found.verdicts)) == PANELS
    assert found.headline() == (
        "At epsilon 1 to 10, the best guarantee (boost at epsilon 1) has the higher mean: accuracy 0.800 against 0.650 "
        "of each client's own model (standalone, which sends nothing); too few seeds to call that a difference. "
        "Per record, each client adding all noise: at epsilon 1 to 10, boost is best. "
        "Per record, noise shared under secure aggregation: at epsilon 1 to 10, dp_sgd is best. "
        "Per client's whole data, each client adding all noise: at epsilon 10, boost is best. "
        "Per client's whole data, noise shared under secure aggregation: at epsilon 1 to 10, dp_fedavg is best."
    )
    words = found.words()
    assert words[1].startswith(
        "At epsilon 1 per record, each client adding all noise, boost is best: accuracy 0.800 [0.800 to 0.800] ("
    )
    assert "another trust model" not in " ".join(words)


def test_what_does_no_better_than_the_most_frequent_class_is_called_so(tmp_path: Path) -> None:
    worse = [verdict.panel for verdict in four_panels(tmp_path).verdicts if "nothing was learned" in verdict.words()]
    # Of three classes as frequent as each other, guessing finds a third.
    assert worse == [PANELS[2]]


@pytest.mark.parametrize(
    ("second", "panels"),
    [
        ((RECORD_UNIT, SHARED), ["record"]),
        ((CLIENT_UNIT, NO_SERVER), ["record", "client's whole data"]),
        ((CLIENT_UNIT, SHARED), [PANELS[0], PANELS[3]]),
        ((CLIENT_UNIT, CENTRAL), [PANELS[0], "client's whole data, a trusted server adding the noise"]),
        # Of an older version only sentences are known, which nobody reads.
        ((CLIENT_UNIT, Trust("server trusted")), ["record", "client's whole data"]),
    ],
)
def test_trust_makes_a_panel_only_where_units_differ_too(
    tmp_path: Path, second: tuple[Unit, Trust], panels: list[str]
) -> None:
    write_run(tmp_path / "a", "boost", unit=RECORD_UNIT, trust=NO_SERVER)
    write_run(tmp_path / "b", "other", unit=second[0], trust=second[1])
    (section,) = gather([tmp_path]).sections
    assert section.panels == panels
    assert {verdict.panel for verdict in answer(section).verdicts} == set(panels)


def test_the_answer_has_four_panels_with_lines_to_compare_with(tmp_path: Path) -> None:
    ((_, figure),) = answer_picture(four_panels(tmp_path))
    assert [axes.get_title("left").replace("\n", " ") for axes in figure.axes] == [f"per {panel}" for panel in PANELS]
    for axes in figure.axes:
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "10"], "a gap is seen as one"
        levels = {line.get_label(): line.get_ydata()[0] for line in axes.lines if len(line.get_ydata()) == 2}
        assert levels == {
            "without privacy: centralized (server trusted)": pytest.approx(0.95),
            "without privacy: standalone, each client by itself": pytest.approx(0.65),
            "always the most frequent class": pytest.approx(1 / 3, abs=0.01),
        }
        behind = {line.get_zorder() for line in axes.lines if line.get_label() in levels}
        assert max(behind) < min(text.get_zorder() for text in axes.texts), "no line strikes a number through"
    gaps = [[text.get_text() for text in axes.texts].count("no score") for axes in figure.axes]
    assert gaps == [0, 0, 1, 0], "nothing could be learned at epsilon 1 there, and the figure says that it has no score"
    # A method looks the same in all panels, and is in the legend once.
    shown = [dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True)) for axes in figure.axes]
    colours = {panel["boost (delta 1e-06)"].lines[0].get_color() for panel in shown}
    assert len(colours) == 1


def test_curves_have_the_same_panels(tmp_path: Path) -> None:
    ((_, figure),) = against_epsilon(four_panels(tmp_path).section)
    titles = [axes.get_title("left").replace("\n", " ") for axes in figure.axes if axes.get_title("left")]
    assert [title.partition("unit: one ")[2] for title in titles] == PANELS
    assert len({axes.get_xlim() for axes in figure.axes}) == 1


def test_score_is_drawn_against_the_number_of_clients(tmp_path: Path) -> None:
    for method, slope in (("boost", 0.1), ("dp_fedavg", 0.05)):
        for clients in (3, 30, 300):
            for epsilon in (1.0, 10.0):
                reached = [0.3 + slope * math.log10(clients * epsilon)] * clients
                write_run(tmp_path / f"{method}-{clients}-{epsilon}", method, epsilon, 0, reached, unit=CLIENT_UNIT,
                          trust=SHARED, delta=1e-6, partition={"kind": "devices", "clients": clients})  # fmt: skip
    gathered = gather([tmp_path])
    assert len(gathered.sections) == 3
    ((_, figure),) = against_clients(gathered.families[0])
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    handles, labels = axes.get_legend_handles_labels()
    assert [label.partition(" (")[0] for label in labels] == [
        f"{method}, epsilon {epsilon}" for method in ("boost", "dp_fedavg") for epsilon in (1, 10)
    ]
    for handle in handles:
        assert list(handle.lines[0].get_xdata()) == [3, 30, 300]
    looks = {(handle.lines[0].get_color(), handle.lines[0].get_marker()) for handle in handles}
    assert len(looks) == 4


def test_one_number_of_clients_makes_no_figure(tmp_path: Path) -> None:
    for classes in (3, 12):
        write_run(tmp_path / str(classes), "boost", dataset={"classes": classes})
    assert [list(against_clients(family)) for family in gather([tmp_path]).families] == []
