"""Learning curves over rounds and bytes, and shares of labels."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_runs import CLIENT_UNIT, a_run

from fl_app.config.compose import compose_config, to_experiment
from fl_app.report.figures.convergence import label_shares, learning_curves
from fl_app.report.sections import sections


def test_convergence_is_over_rounds_and_all_bytes_and_by_unit(tmp_path: Path) -> None:
    (section,) = sections([a_run(tmp_path, "dp_sgd"), a_run(tmp_path, "dp_fedavg", CLIENT_UNIT)])
    curves = learning_curves(section)
    assert [(curve.unit, curve.setting) for curve in curves] == [("record", "dp_sgd"),
                                                                  ("client's whole data", "dp_fedavg")]  # fmt: skip
    for curve in curves:
        (table,) = curve.tables
        # The first exchange was not evaluated, but its bytes count.
        assert list(table["round"]) == [1, 2, 3]
        assert list(table["bytes"]) == [300, 450, 600]
        assert list(table["score"]) == [0.4, 0.6, 0.8]


def test_a_method_that_is_evaluated_at_its_end_only_learns_on_public_rows(tmp_path: Path) -> None:
    run = a_run(tmp_path, "boost")
    run.rounds["public_accuracy"] = [None, 0.3, 0.5, 0.75]
    run.rounds["accuracy"] = [None, None, None, 0.8]
    (curve,) = learning_curves(sections([run])[0])
    assert curve.label == "boost, epsilon 1, on public rows (record; server trusted; delta 1e-05)"
    assert list(curve.tables[0]["score"]) == [0.3, 0.5, 0.75]


def test_label_shares_are_of_training_rows_and_only_where_the_rows_are() -> None:
    config = to_experiment(compose_config(["partition.clients=5"])).to_dict()
    shares = label_shares(config | {"overrides": []})
    assert shares is not None
    assert shares.shape == (5, 7)
    assert shares.sum(axis=1).to_numpy() == pytest.approx(1)
    missing = config | {"dataset": {"name": "hapt", "path": "/nowhere"}}
    assert label_shares(missing) is None
