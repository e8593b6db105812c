"""Numbers in pages are those of the results files, and these say how they were made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks import measure

TABLE = measure.Table(
    title="Made-up recordings",
    options="dataset=exercise dataset.synthetic=3 dataset.synthetic_minutes=5 strategy.depth=2",
    lines={"`one_shot`": "strategy=one_shot", "in one place": "strategy=centralized"},
    columns={"epsilon 1": "privacy.epsilon=1", "10": "privacy.epsilon=10"},
    seeds=2,
    metric="accuracy",
)


@pytest.mark.parametrize("page", measure.all_pages(), ids=lambda page: page.name)
def test_a_page_shows_what_was_measured(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert measure.filled_in(text) == text, "python -m tests.benchmarks.measure --pages"


@pytest.mark.parametrize("file", sorted(measure.RESULTS.glob("*.json")), ids=lambda file: file.stem)
def test_results_are_of_the_table_as_it_is_and_whole(file: Path) -> None:
    found = json.loads(file.read_text(encoding="utf-8"))
    assert found["table"] == json.loads(json.dumps(measure.tables()[file.stem].__dict__)), "measure it again"
    columns = {(run["line"], run["seed"]): [] for run in found["runs"]}
    for run in found["runs"]:
        columns[run["line"], run["seed"]].append((run["column"], run.get("has_budget", True)))
    assert set(columns) == {(line, seed) for line, _, seed in measure.tables()[file.stem].cells()}
    asked = list(found["table"]["columns"])
    for of_seed in columns.values():
        assert {column for column, _ in of_seed} == set(asked if of_seed[0][1] else asked[:1])
    assert any(f"<!-- measured {file.stem} -->" in page.read_text(encoding="utf-8") for page in measure.all_pages())


def test_a_table_is_measured_and_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(measure, "RESULTS", tmp_path)
    states = [json.loads(json.dumps(state)) for state in measure.results_of("made_up", TABLE)]
    runs = states[-1]["runs"]
    # What has no budget is the same in each column.
    assert [(run["line"], run["column"]) for run in runs[:3]] == [
        ("`one_shot`", "epsilon 1"), ("`one_shot`", "10"), ("in one place", "epsilon 1")
    ]  # fmt: skip
    assert len(runs) == 6
    (tmp_path / "made_up.json").write_text(json.dumps(states[-3]))
    monkeypatch.setattr(measure, "measure", lambda overrides: {"refused": " ".join(overrides)})
    last = list(measure.results_of("made_up", TABLE))[-1]["runs"]
    assert last[:5] == runs[:5]
    assert all(run["refused"].endswith("seed=1") for run in last[5:])
    assert len(last) > 5

    (tmp_path / "made_up.json").write_text(json.dumps(states[-1]))
    page = "<!-- measured made_up -->\nold\n<!-- end of measured made_up -->\nother text\n"
    filled = measure.filled_in(page)
    assert "| `one_shot` | a record | nobody | 0 | 0." in filled
    assert "| in one place | nothing | all |  | 0." in filled
    assert "| the same |" in filled
    assert filled.endswith("other text\n")
    assert f"commit {states[-1]['measured_with']['commit']}" in filled
    assert measure.filled_in(filled) == filled


def test_a_table_that_nobody_has_measured_is_named() -> None:
    with pytest.raises(SystemExit, match=r"measure nothing_here"):
        measure.filled_in("<!-- measured nothing_here --><!-- end of measured nothing_here -->")
