"""The figure of score against what an attacker gets, from attack.json in run folders."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import write_run

from dpforest.attacks import most_area
from dpforest.errors import DPForestError
from fl_app.report.figures.attacks import against_attackers
from fl_app.report.gather import gather
from fl_app.report.page import write_report
from fl_app.results.attack import ATTACK, FILE, INFORMED, LEVELS, OUTPUTS, strongest, write_attack
from fl_app.results.finished import read_run


def found(epsilon: float, areas: tuple[float, float, float]) -> dict[str, Any]:
    """What attacks found, with these areas at the three levels of knowledge."""
    rates = {"0.01": [0.02, 0.01, 0.03], "0.001": None}
    line = {"of": "this method", "attack": "a", "whose": "models like it", "balanced_accuracy": [0.5, 0.4, 0.6],
            "true_positives": rates, "members": 10, "others": 10}  # fmt: skip
    lines = [
        line | {"level": level, "area": [area, area - 0.02, area + 0.02]}
        for level, area in zip(LEVELS, areas, strict=True)
    ]
    control = line | {"of": "fext_published", "level": FILE, "area": [0.97, 0.96, 0.98]}
    return {
        "dpforest": "0.1.0",
        "method": "one_shot",
        "epsilon": "inf" if math.isinf(epsilon) else epsilon,
        "delta": 0.0,
        "holds": math.isfinite(epsilon),
        "models": 8,
        "records": 20,
        "seconds": 1.0,
        "allowed": None if math.isinf(epsilon) else {
            "area": most_area(epsilon), "balanced_accuracy": 0.7, "true_positives": {"0.01": 0.02, "0.001": 0.002},
        },
        "membership": [*lines, control],
        "score": 0.9,
        "influence": None,
        "reconstruction": {"lines": [], "note": ""},
        "attributes": {"lines": [], "note": ""},
        "controls": [{"name": "fext_published", "attack": "a", "area": [0.97, 0.96, 0.98], "broke": True}],
        "words": ["nothing follows"],
    }  # fmt: skip


def attacked(folder: Path, epsilon: float, areas: tuple[float, float, float], **options: Any) -> Path:
    write_run(folder, epsilon=epsilon, **options)
    write_attack(found(epsilon, areas), folder / ATTACK)
    return folder


def test_each_level_has_a_panel_with_a_mark_for_each_epsilon_and_what_is_allowed(tmp_path: Path) -> None:
    for number, (epsilon, area) in enumerate({0.1: 0.51, 1.0: 0.56, math.inf: 0.8}.items()):
        attacked(tmp_path / str(number), epsilon, (0.5, area, area + 0.05))
    (section,) = gather([tmp_path]).sections
    ((_, figure),) = against_attackers(section)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "knows the outputs", "knows the released file", "knows all other rows as well",
    ]  # fmt: skip
    for axes, shown in zip(figure.axes, ([0.5, 0.5, 0.5], [0.51, 0.56, 0.8], [0.56, 0.61, 0.85]), strict=True):
        assert sorted(axes.lines[0].get_xdata()) == pytest.approx(shown)
        words = [text.get_text() for text in axes.texts]
        assert {"0.1", "1", "∞"} == set(words)
        (upper,) = axes.child_axes
        assert [tick.get_text() for tick in upper.get_xticklabels()] == ["ε 0.1", "ε 1"]


def test_who_knows_more_is_not_shown_to_get_less() -> None:
    areas = found(1.0, (0.6, 0.55, 0.52))
    for level in (OUTPUTS, FILE, INFORMED):
        best = strongest(areas, level)
        assert best is not None
        assert best["area"][0] == 0.6


def test_the_report_has_the_figure_and_runs_that_were_not_attacked_change_nothing(tmp_path: Path) -> None:
    attacked(tmp_path / "runs" / "0", 1.0, (0.5, 0.55, 0.6))
    write_run(tmp_path / "runs" / "1", seed=1)
    page = write_report([tmp_path / "runs"], tmp_path / "report").read_text(encoding="utf-8")
    assert "What an attacker gets" in page
    write_run(tmp_path / "others" / "0")
    assert "What an attacker gets" not in write_report([tmp_path / "others"], tmp_path / "o").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda plain: plain.pop("membership"), "membership is missing"),
        (lambda plain: plain["membership"][0].update(area=[0.5, 0.4]), "a number with the ends of its interval"),
        (lambda plain: plain["membership"][0].update(area="much"), "membership 1: area"),
        (lambda plain: plain.update(allowed={"area": 2}), "allowed: area is 2"),
        (lambda plain: plain["controls"][0].update(broke="yes"), "controls 1: broke"),
        (lambda plain: plain.update(words="safe"), "a list of texts"),
    ],
)
def test_a_damaged_file_is_named_with_what_it_must_hold(tmp_path: Path, change: Any, words: str) -> None:
    folder = attacked(tmp_path / "run", 1.0, (0.5, 0.55, 0.6))
    plain = json.loads((folder / ATTACK).read_text())
    change(plain)
    (folder / ATTACK).write_text(json.dumps(plain))
    with pytest.raises(DPForestError, match=rf"is damaged: attack\.json.*{words}"):
        read_run(folder)
