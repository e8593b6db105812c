"""Experiments are validated at the door and survive their trip in a message."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hand_made import SCHEMA, TREES, make, run, write_table
from hypothesis import given, settings
from hypothesis import strategies as st

from dpforest.errors import DPForestError
from fl_app.client_app import app as client_app
from fl_app.config.compose import compose_config, conf_folder, to_experiment
from fl_app.engine.experiment import Experiment, Privacy
from strategies.method import TooFewClients
from strategies.registry import get_method

WATCH = {"name": "watch"}


@pytest.mark.parametrize("name", sorted(path.stem for path in (conf_folder() / "strategy").glob("*.yaml")))
def test_rounds_are_refused_where_they_change_nothing_and_nowhere_else(name: str) -> None:
    fitting = {
        "fext": ["strategy.k=null"],
        "fext_published": ["strategy.score=accuracy"],
        "ldp_bagging_published": ["dataset.classes=2"],
    }
    own = fitting.get(name, [])
    experiment = to_experiment(compose_config([f"strategy={name}", "privacy.epsilon=8", "privacy.delta=1e-6", *own]))
    plain = experiment.to_dict()
    if not experiment.method.uses_rounds:
        with pytest.raises(DPForestError, match=r"^rounds 5: strategy \w+ does the same whatever that is"):
            Experiment.from_dict(plain | {"rounds": 5})
        assert Experiment.from_dict(plain | {"rounds": 1}).total_rounds == 1
        return
    tasks = [Experiment.from_dict(plain | {"rounds": rounds}).task(10) for rounds in (3, 5)]
    few, many = (experiment.method.server(task) for task in tasks)
    assert few.exchanges < many.exchanges


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"privacy": {"epsilon": 0}}, "epsilon 0 must be positive"),
        ({"privacy": {"epsilon": -1.5}}, "epsilon -1.5 must be positive"),
        ({"privacy": {"epsilon": math.nan}}, "epsilon nan must be positive"),
        ({"privacy": {"epsilon": "nan"}}, "epsilon nan must be positive"),
        ({"privacy": {"epsilon": -math.inf}}, "epsilon -inf must be positive"),
        ({"privacy": {"epsilon": "lots"}}, "epsilon 'lots' must be a positive number or inf"),
        ({"privacy": {"epsilon": None}}, "epsilon None must be a positive number"),
        ({"privacy": {"epsilon": True}}, "epsilon True must be a positive number"),
        ({"privacy": {"epsilon": [1]}}, r"epsilon \[1\] must be a positive number"),
        ({"privacy": {"delta": 1.0}}, "delta 1.0 must lie between 0 and 1"),
        ({"privacy": {"delta": -1e-6}}, "delta -1e-06 must lie between 0 and 1"),
        ({"privacy": {"delta": math.nan}}, "delta nan must lie between 0 and 1"),
        ({"privacy": {"noise": "none"}}, "privacy.noise 'none' must be seeded or secure"),
        ({"privacy": {"epsilom": 1}}, "privacy: unknown option 'epsilom'; did you mean 'epsilon'"),
        ({"strategy": {"name": "one_shot", "depth": 0}}, "depth 0 must be a whole number from 1 to 20"),
        ({"strategy": {"name": "one_shot", "depth": 40}}, "depth 40 must be a whole number from 1 to 20"),
        ({"strategy": {"name": "one_shot", "depth": 2.5}}, "depth 2.5 must be a whole number"),
        (
            {"strategy": {"name": "one_shot", "detph": 3}},
            "strategy one_shot: unknown option 'detph'; did you mean 'depth'",
        ),
        ({"strategy": {"name": "one_shot", "rows": 0}}, "rows 0 must be 'schema', 'noised' or a whole number"),
        ({"strategy": {"name": "one_shot", "voting": "loud"}}, "voting 'loud' must be one of soft, hard"),
        ({"strategy": {"name": "one_shto"}}, "no strategy 'one_shto'; did you mean 'one_shot'"),
        ({"strategy": {}}, "no strategy 'None'"),
        ({"strategy": "one_shot"}, "strategy 'one_shot': expected a group with a name and settings"),
        ({"dataset": None}, "dataset None: expected a group"),
        ({"dataset": {"name": "wacth"}}, "dataset.name 'wacth' is unknown: did you mean 'watch'"),
        ({"dataset": {"name": "watch", "lenght": 9}}, "did you mean 'length'"),
        ({"seed": -1}, "seed -1 must be a whole number"),
        ({"seed": 1.5}, "seed 1.5 must be a whole number"),
        ({"rounds": 0}, "rounds 0 must be a whole number from 1"),
        ({"rounds": 5}, "rounds 5: strategy one_shot does the same whatever that is: leave rounds out"),
        ({"min_clients": 0}, "min_clients 0 must be a share above 0"),
        ({"min_clients": 1.5}, "min_clients 1.5 must be a share"),
        ({"min_clients": math.nan}, "min_clients nan must be a share"),
        ({"timeout": 0}, "timeout 0 must be a number of seconds"),
        ({"timeout": math.inf}, "timeout inf must be a number of seconds"),
        ({"memorization": [0]}, "memorization 0 must be a whole number"),
        ({"memorization": 5}, "memorization 5 must be a list"),
        ({"memorization": "10"}, "memorization '10' must be a list"),
        ({"memorization": [[1]]}, "memorization"),
        ({"partition": {"kind": "iidd"}}, "partition.kind 'iidd' is unknown: did you mean 'iid'"),
        ({"partition": {"clients": 0}}, "partition.clients 0 must be a whole number"),
        ({"partition": [1]}, r"partition \[1\]: expected a group"),
        ({"evaluation": {"test_share": 1}}, "evaluation.test_share 1 must be between 0 and 1"),
        ({"speed": 1}, "experiment: unknown option 'speed'; did you mean 'seed'"),
    ],
)
def test_bad_values_are_named_at_the_door(change: dict[str, Any], message: str) -> None:
    plain = {"strategy": {"name": "one_shot"}, "dataset": WATCH} | change
    with pytest.raises(DPForestError, match=message) as caught:
        Experiment.from_dict(plain)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("missing", ["strategy", "dataset"])
def test_what_is_missing_is_named(missing: str) -> None:
    plain = {"strategy": {"name": "one_shot"}, "dataset": WATCH}
    del plain[missing]
    with pytest.raises(DPForestError, match=f"{missing} None: expected a group"):
        Experiment.from_dict(plain)


experiments = st.fixed_dictionaries(
    {
        "strategy": st.fixed_dictionaries(
            {"name": st.just("one_shot")},
            optional={
                "depth": st.integers(1, 20) | st.just("auto"),
                "leaf_share": st.floats(0.01, 0.99),
                "shared_below": st.none() | st.integers(0, 20),
                "candidate_bounds": st.dictionaries(st.text("ab", min_size=1), st.just([0.0, 1.0]), max_size=2),
            },
        ),
        "dataset": st.sampled_from([WATCH, {"name": "watch", "length": 100, "features": ["mean", "std"]}]),
    },
    optional={
        "privacy": st.fixed_dictionaries(
            {"epsilon": st.floats(1e-6, 1e6) | st.integers(1, 100) | st.sampled_from(["inf", "0.5", math.inf])},
            optional={"delta": st.sampled_from([0.0, 0, 1e-6]), "noise": st.sampled_from(["seeded", "secure"])},
        ),
        "partition": st.fixed_dictionaries(
            {"kind": st.sampled_from(["subject", "iid", "dirichlet", "quantity"])},
            optional={"clients": st.none() | st.integers(1, 99), "alpha": st.floats(0.01, 100)},
        )
        | st.just({"kind": "label_shares", "shares": [0.25, 0.5]}),
        "evaluation": st.fixed_dictionaries({"split": st.sampled_from(["row", "recording", "subject"])}),
        "seed": st.integers(0, 2**63 - 1),
        "rounds": st.none() | st.integers(1, 10_000),
        "min_clients": st.floats(0.01, 1.0),
        "timeout": st.floats(0.1, 1e6),
        "memorization": st.lists(st.integers(1, 1000), max_size=3),
    },
)


@given(experiments)
@settings(max_examples=60, deadline=None)
def test_an_experiment_survives_its_message(plain: dict[str, Any]) -> None:
    if not get_method(plain["strategy"]["name"]).uses_rounds:
        plain.pop("rounds", None)
    experiment = Experiment.from_dict(plain)
    again = Experiment.from_json(experiment.to_json())
    assert again.to_json() == experiment.to_json()
    for part in ("method", "settings", "partition", "evaluation", "privacy", "total_rounds", "memorization", "seed"):
        assert getattr(again, part) == getattr(experiment, part)
    assert again.source.schema() == experiment.source.schema()
    json.loads(experiment.to_json(), parse_constant=pytest.fail)  # NaN and Infinity are no JSON


# Data that a client meets only when it opens its rows: it costs that client, by name.


def fails_at(dataset: dict[str, Any], **options: Any) -> str:
    """The reason why client 0 is left out of a run."""
    done = run(make(dataset, **options))
    assert {failure.client for failure in done.failures} == {0}
    assert done.rounds[0]["answered"] == 3
    return done.failures[0].reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("c0,nan,0.5,low", "line 362: column 'a' is 'nan', which is missing"),
        ("c0,0.5,inf,low", "line 362: column 'b' is 'inf', not a finite number"),
        ("c0,0.5,-inf,low", "line 362: column 'b' is '-inf', not a finite number"),
        ("c0,,0.5,low", "line 362: column 'a' is '', which is missing"),
        ("c0,0.5,0.5,enormous", "line 362: column 'kind' is 'enormous', which is not among the classes"),
    ],
)
def test_bad_cells_cost_their_client(tmp_path: Path, line: str, reason: str) -> None:
    assert reason in fails_at(write_table(tmp_path, change=line))


def test_cells_out_of_bounds_are_clipped_or_refused_as_asked(tmp_path: Path) -> None:
    dataset = write_table(tmp_path, change="c0,5,0.5,high")
    assert not run(make(dataset)).failures
    assert "outside [0, 1]" in fails_at(dataset | {"out_of_bounds": "refuse"})


def test_a_missing_column_ends_the_run_before_anyone_trains(tmp_path: Path) -> None:
    schema = SCHEMA | {"features": [{"name": "c", "low": 0, "high": 1}]}
    with pytest.raises(DPForestError, match="no column 'c'"):
        run(make(write_table(tmp_path, schema=schema)))


def test_an_empty_client_is_named(tmp_path: Path) -> None:
    dataset = write_table(tmp_path)
    text = (tmp_path / "table.csv").read_text().splitlines()
    (tmp_path / "clients").mkdir()
    for client in range(4):
        rows = [line for line in text[1:] if line.startswith(f"c{client},") and client]
        (tmp_path / "clients" / f"c{client}.csv").write_text("\n".join([text[0], *rows]) + "\n")
    folder = dataset | {"path": str(tmp_path / "clients")}
    done = run(make(folder))
    assert {(f.client, f.reason) for f in done.failures} == {
        (0, "BadMessage: this client has no training rows"),
        (0, "BadMessage: this client has no test rows"),
    }
    assert done.metrics["test_rows"] == 54
    with pytest.raises(TooFewClients, match=r"3 of 4 .* 4 are needed .*client 0: .*no training rows"):
        run(make(folder, min_clients=1.0))


def test_a_single_class_is_learned(tmp_path: Path) -> None:
    text = write_table(tmp_path)["path"]
    Path(text).write_text(Path(text).read_text().replace("middle", "low").replace("high", "low"))
    done = run(make(write_table_settings(tmp_path), epsilon=20.0))
    assert done.metrics["accuracy"] == 1.0
    assert done.metrics["balanced_accuracy"] == 1.0
    assert not done.failures


def test_constant_features_are_no_obstacle(tmp_path: Path) -> None:
    path = Path(write_table(tmp_path)["path"])
    lines = path.read_text().splitlines()
    cells = [line.split(",") for line in lines[1:]]
    path.write_text("\n".join([lines[0], *(f"{client},0.5,0.5,{kind}" for client, _, _, kind in cells)]) + "\n")
    for strategy in (TREES, TREES | {"candidates": "random"}, TREES | {"selection": "noisy_counts"}):
        done = run(make(write_table_settings(tmp_path), strategy=strategy))
        assert not done.failures
        assert 0.2 < done.metrics["accuracy"] < 0.5


def write_table_settings(folder: Path) -> dict[str, Any]:
    """Settings of the table that already lies in a folder."""
    return {
        "name": "table",
        "path": str(folder / "table.csv"),
        "schema": str(folder / "schema.yaml"),
        "client_column": "client",
    }


def test_one_shot_needs_classes(tmp_path: Path) -> None:
    schema = {"target": "b", "target_range": [0, 1], "features": [{"name": "a", "low": 0, "high": 1}]}
    with pytest.raises(DPForestError, match="one_shot grows classification trees"):
        run(make(write_table(tmp_path, schema=schema)), app=client_app)


@pytest.mark.parametrize(("strategy", "epsilon"), [("one_shot", 0.5), ("fedavg", math.inf), ("centralized", math.inf)])
def test_a_method_that_guarantees_nothing_has_no_use_for_a_budget(strategy: str, epsilon: float) -> None:
    experiment = to_experiment(compose_config([f"strategy={strategy}", "privacy.epsilon=0.5"]))
    assert experiment.task(4).budget.epsilon == epsilon


def test_the_same_run_without_noise_has_the_same_unit_and_trust_model() -> None:
    privacy = Privacy(10.0, 1e-6, level="low", unit="client", trust="shared")
    assert privacy.without_noise() == Privacy(math.inf, unit="client", trust="shared")
