"""Which epsilon a wanted score takes, by what was run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import write_run, write_sweep

from dpforest.errors import DPForestError
from fl_app.commands.cli import main as dpforest
from fl_app.report.answer import Answer, answer
from fl_app.report.figures.tradeoff import tradeoff
from fl_app.report.gather import gather
from fl_app.report.page import REPORT
from fl_app.report.wanted import Wanted, sought, sought_in_words

# Accuracy of three seeds by method and epsilon.
REACHED = {
    ("boost", 0.1): (0.60, 0.61, 0.62),
    ("boost", 1.0): (0.79, 0.81, 0.83),
    ("boost", 10.0): (0.90, 0.91, 0.92),
    ("one_shot", 0.1): (0.50, 0.50, 0.50),
    ("one_shot", 1.0): (0.70, 0.70, 0.70),
    ("one_shot", 10.0): (0.85, 0.86, 0.87),
    ("fext", 1.0): (0.40, 0.40, 0.40),
    ("centralized", math.inf): (0.95, 0.95, 0.95),
}


def write_runs(folder: Path, reached: dict[tuple[str, float], tuple[float, ...]] = REACHED, **more: Any) -> Path:
    for (method, epsilon), seeds in reached.items():
        for seed, score in enumerate(seeds):
            write_run(folder / f"{method}-{epsilon}-{seed}", method, epsilon, seed, [score] * 3,
                      noised=math.isfinite(epsilon), **more)  # fmt: skip
    return folder


def asked(folder: Path, text: str) -> Answer:
    (section,) = gather([folder]).sections
    return answer(section, Wanted.read(text))


def words(folder: Path, text: str) -> list[str]:
    found = sought(asked(folder, text))
    assert found is not None
    return found.words()


def test_the_least_epsilon_is_said_by_method_with_what_it_costs_and_who_never_gets_there(tmp_path: Path) -> None:
    found = sought(asked(write_runs(tmp_path), "0.8"))
    assert found is not None
    # The worst seed of boost is below 0.8 at epsilon 1, the best one of 0.1 too: it could be 1 to 10.
    assert found.words() == [
        "For accuracy 0.800 per record: boost takes the least epsilon, 1 (could be 1 to 10), at 6.0 kB, 1.5 s and 1 "
        "round a run; then one_shot at 10. Not reached by fext with 0.400 [0.400 to 0.400] at epsilon 1."
    ]
    ((panel, lines),) = found.tables()
    assert panel == "record"
    assert [[line[0], *line[3:7]] for line in lines] == [
        ["boost", "1", "1 to 10", "0.810 [0.790 to 0.830]", "0.610 [0.600 to 0.620]"],
        ["one_shot", "10", "10", "0.860 [0.850 to 0.870]", "0.700 [0.700 to 0.700]"],
    ]


def test_a_share_is_one_of_the_best_without_privacy(tmp_path: Path) -> None:
    (text,) = words(write_runs(tmp_path), "95%")
    assert text.startswith(
        "For 0.902, 95 % of the accuracy without privacy (centralized, 0.950 [0.950 to 0.950]) per record: boost takes "
        "the least epsilon, 10 (could be 10 to more than was run)"
    )


def test_a_score_that_nobody_reaches_is_answered_with_the_best(tmp_path: Path) -> None:
    assert words(write_runs(tmp_path), "0.97") == [
        "For accuracy 0.970 per record: no method with a guarantee reaches it; nearest is boost with 0.910 [0.900 to "
        "0.920] at epsilon 10. Without privacy it is not reached either: centralized, 0.950 [0.950 to 0.950]."
    ]


def test_whether_each_client_alone_reaches_it_is_said(tmp_path: Path) -> None:
    write_runs(tmp_path, {("boost", 1.0): (0.9, 0.9), ("alone", math.inf): (0.95, 0.95)})
    assert words(tmp_path, "0.8")[-1] == (
        "Each client alone, without privacy and sending nothing, reaches it: alone, 0.950 [0.950 to 0.950]."
    )
    assert not any("alone" in text for text in words(tmp_path, "0.96"))


def test_a_mean_that_falls_below_again_and_a_smallest_epsilon_are_said(tmp_path: Path) -> None:
    reached = {("boost", 1.0): (0.9,), ("boost", 10.0): (0.7,)}
    (text,) = words(write_runs(tmp_path, reached), "0.8")
    assert "1 (one seed says nothing of how sure that is)" in text
    assert "a smaller epsilon was not run; at 10 its mean is below it again." in text


@pytest.mark.parametrize(
    ("reached", "target", "text"),
    [
        ({("boost", 1.0): (0.9,)}, "95%", "no run without privacy is here"),
        ({("boost", 1.0): (0.9,), ("centralized", math.inf): (0.0,)}, "95%", "of which a share says nothing"),
        ({("boost", 1.0): (0.9,)}, "90", "no accuracy is above 1"),
    ],
)
def test_a_score_that_means_nothing_here_is_answered_so(
    tmp_path: Path, reached: dict[tuple[str, float], tuple[float, ...]], target: str, text: str
) -> None:
    assert text in words(write_runs(tmp_path, reached), target)[0]


@pytest.mark.parametrize("text", ["", "high", "nan", "inf", "0%", "101%", "95 percent", "0.9,0.8", "--1"])
def test_what_is_no_score_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(DPForestError, match=r"^report\.target '.*' must be a score such as 0\.9, or a share"):
        Wanted.read(text)


def test_each_panel_has_its_own_answer(tmp_path: Path) -> None:
    write_sweep(tmp_path, ("one_shot", "dp_fedavg"))
    found = words(tmp_path, "0.86")
    assert [text.partition(": ")[0].rpartition("per ")[2] for text in found] == ["record", "client's whole data"]
    assert "nearest is dp_fedavg" in found[1]


def test_the_terminal_and_the_page_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = write_runs(tmp_path / "runs")
    for command in ("compare", "report"):
        assert dpforest([command, str(runs), "report.target=0.8"]) == 0
        printed = capsys.readouterr().out
        assert "boost takes the least epsilon, 1" in printed
        assert "least epsilon" in printed
    narrow = sought_in_words([asked(runs, "0.8")], 80)
    assert max(map(len, narrow[narrow.index("per record\n") :].splitlines())) <= 80
    page = (runs / REPORT).read_text(encoding="utf-8")
    assert "boost takes the least epsilon, 1" in page
    assert "<h4>Which epsilon</h4>" in page
    assert dpforest(["report", "report.target=0.8"]) == 1
    assert "name a folder of runs" in capsys.readouterr().err


@pytest.mark.parametrize("seeds", [1, 3, 6])
def test_the_picture_has_a_column_an_epsilon_and_its_best_method(tmp_path: Path, seeds: int) -> None:
    reached = {
        ("boost", 1.0): [0.5 + 0.01 * s for s in range(seeds)],
        ("one_shot", 1.0): [0.4] * seeds,
        ("boost", 10.0): [0.985 + 0.03 * (s % 2) - 0.015 for s in range(seeds)],
        ("centralized", math.inf): [0.99] * seeds,
    }
    write_runs(tmp_path, {key: tuple(scores) for key, scores in reached.items()})
    ((_, figure),) = tradeoff(asked(tmp_path, "0.6"))
    (axes,) = figure.axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "10", "no privacy"]
    assert [text.get_text() for text in axes.texts if text.get_text().islower()].count("boost") == 2
    assert "one_shot" not in {text.get_text() for text in axes.texts}
    assert len(axes.patches) == 3
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [len(dot.get_xdata()) for dot in dots] == ([seeds] * 3 if seeds < 5 else [])  # type: ignore[arg-type]
    spans = [segment for each in axes.collections for segment in each.get_segments()]  # type: ignore[attr-defined]
    assert len(spans) == (3 if seeds >= 5 else 0)
    assert all(0 <= y <= 1 for segment in spans for _, y in segment), "no accuracy is above 1"


def test_a_diverged_regression_spoils_no_axis(tmp_path: Path) -> None:
    """An R^2 of two seeds, whose interval would be from -2.9 to 294."""
    write_runs(tmp_path, {("boost", 1.0): (-0.5, 0.2), ("boost", 10.0): (0.3, 0.4)}, target=True)
    found = asked(tmp_path, "0.3")
    assert found.verdicts[0].best.score.words == "-0.150 [-0.500 to 0.200]"
    ((_, figure),) = tradeoff(found)
    assert figure.axes[0].get_ylim()[0] == 0
    assert "-0.15" in {text.get_text() for text in figure.axes[0].texts}


def test_runs_of_different_data_have_an_answer_each(tmp_path: Path) -> None:
    for name, score in (("watch", 0.9), ("hapt", 0.7)):
        write_run(tmp_path / name, "boost", 1.0, 0, [score] * 3, dataset={"name": name})
    found = {section.dataset: sought(answer(section, Wanted(0.8))) for section in gather([tmp_path]).sections}
    said = {name: each.words()[0] for name, each in found.items() if each is not None}
    assert "boost takes the least epsilon, 1" in said["watch"]
    assert "nearest is boost with 0.700 at epsilon 1" in said["hapt"]


def test_where_all_runs_failed_there_is_a_page_that_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "FAILED.txt").write_text("BudgetExceeded: too much")
    assert dpforest(["report", str(tmp_path), "report.target=0.8"]) == 0
    assert "No run came to its end" in (tmp_path / REPORT).read_text(encoding="utf-8")
    assert dpforest(["compare", str(tmp_path), "report.target=0.8"]) == 1
    assert "error: no finished run in" in capsys.readouterr().err
