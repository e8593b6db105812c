"""The table of a section never mixes privacy units, settings or data sets."""

from __future__ import annotations

import re
from pathlib import Path

from made_up_runs import CLIENT_UNIT, RECORD_UNIT, a_run

from fl_app.report.comparison import comparison_table
from fl_app.results.rows import distinct_by_method, distinct_columns, setting_label


def test_a_line_says_unit_trust_and_delta_and_units_never_share_one(tmp_path: Path) -> None:
    # The same method under two units does not exist; here it does, to show that the unit alone keeps lines apart.
    runs = [a_run(tmp_path, "x", unit, accuracy=a) for unit, a in ((RECORD_UNIT, 0.2), (CLIENT_UNIT, 0.6))]
    header, _, *lines = comparison_table(runs).splitlines()
    assert all(word in header for word in ("epsilon", "delta", "guarantee", "unit", "trust", "raw rows instead"))
    assert len(lines) == 2
    assert any("client's whole data" in line and "0.600" in line for line in lines)
    assert any("record" in line and "0.200" in line for line in lines)
    assert all("server trusted" in line and "1e-05" in line and "5.0 kB" in line for line in lines)


def test_draws_that_reach_the_same_are_all_counted(tmp_path: Path) -> None:
    runs = [a_run(tmp_path, "x", accuracy=accuracy, draw=draw) for draw, accuracy in enumerate((0.8, 0.8, 0.5))]
    (line,) = comparison_table(runs).splitlines()[2:]
    assert "3     0.700 [0.500 to 0.800]" in line


def test_an_option_that_a_method_does_not_have_is_left_blank(tmp_path: Path) -> None:
    runs = [*(a_run(tmp_path, "x", n_trees=trees) for trees in (5, 20)), a_run(tmp_path, "y")]
    header, _, *lines = comparison_table(runs).splitlines()
    option = slice(header.index("n_trees"), header.index("epsilon"))
    assert [line[option].strip() for line in lines] == ["20", "5", ""]


def test_a_table_wider_than_the_terminal_stands_in_blocks(tmp_path: Path) -> None:
    runs = [a_run(tmp_path, name, accuracy=a) for name, a in (("x", 0.2), ("y", 0.6))]
    whole = comparison_table(runs).splitlines()
    assert len(whole) == 4
    blocks = [block.splitlines() for block in comparison_table(runs, 60).split("\n\n")]
    assert max(len(line) for block in blocks for line in block) <= 60
    assert all(block[0].startswith("#  ") and block[2].startswith("1  ") for block in blocks)
    for number, line in ((2, whole[2]), (3, whole[3]), (0, whole[0])):
        assert "".join(line.split()) == "".join("".join(block[number].split()[1:]) for block in blocks)


def test_settings_of_the_data_set_and_numbers_of_rounds_keep_runs_apart(tmp_path: Path) -> None:
    runs = [a_run(tmp_path, "x", classes=classes, seed=classes) for classes in (6, 12)]
    rows = [dict(run.row) for run in runs]
    assert distinct_columns(rows) == ["dataset.classes"]
    assert len(comparison_table(runs).splitlines()) == 4
    rows[0]["dataset.classes"], rows[0]["asked_rounds"] = 12, 20
    assert distinct_columns(rows) == ["asked_rounds"]


def test_a_label_names_only_what_its_own_method_varies(tmp_path: Path) -> None:
    rows = [run.row for run in (*(a_run(tmp_path, "x", trees=n) for n in (1, 2)), a_run(tmp_path, "y", trees=9))]
    distinct = distinct_by_method(rows)
    assert [setting_label(row, distinct) for row in rows] == ["x trees=1", "x trees=2", "y"]


def test_seeds_share_a_line_and_what_guarantees_nothing_says_so(tmp_path: Path) -> None:
    runs = [a_run(tmp_path, "x", seed=seed, accuracy=0.1 * seed, unproven=True) for seed in (1, 2, 3)]
    (line,) = comparison_table(runs).splitlines()[2:]
    assert "0.200 [0.100 to 0.300]" in line
    assert "none" in line


def test_what_ignores_epsilon_is_one_line_of_a_sweep_over_it(tmp_path: Path) -> None:
    runs = [
        a_run(tmp_path, "fedavg", epsilon=epsilon, seed=seed, unproven=True)
        for epsilon in (0.1, 1.0)
        for seed in (0, 1)
    ]
    (line,) = comparison_table(runs).splitlines()[2:]
    # epsilon, delta, guarantee, unit, trust, runs
    assert re.search(r"inf +- +none +record +server trusted +2 ", line)
