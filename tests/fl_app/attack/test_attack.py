"""``dpforest attack RUN``, whole: a run on a small table, its tables, its file, and what cannot be attacked."""

import json
import shutil

import numpy as np
import pytest

from dpforest.attacks import Part, count_ratios, leaf_counts
from fl_app.attack.informed import informed
from fl_app.attack.measure import attack
from fl_app.attack.shadows import Records, shadow_runs, statistics_of
from fl_app.attack.target import Target
from fl_app.attack.text import attack_table
from fl_app.client_app import app as client_app
from fl_app.commands.cli import main
from fl_app.config.compose import compose_config, to_experiment
from fl_app.engine.in_process import in_process
from fl_app.jobs.record import run_job
from fl_app.results.attack import FILE, INFORMED, OUTPUTS, own_lines, strongest
from fl_app.results.finished import read_run
from fl_app.results.shapes import check_attack

SCHEMA = """\
target: activity
classes: [rest, walk, run]
rows: 60
features:
  - {name: a, low: -4, high: 6}
  - {name: b, low: -4, high: 6}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked")
    (folder / "schema.yaml").write_text(SCHEMA)
    (folder / "data").mkdir()
    rng = np.random.default_rng(0)
    for client in range(2):
        y = rng.integers(0, 3, 75)
        X = rng.normal(size=(75, 2)) + y[:, None]
        lines = [f"{a:.5f},{b:.5f},{('rest', 'walk', 'run')[c]}" for (a, b), c in zip(X, y, strict=True)]
        (folder / "data" / f"client{client}.csv").write_text("\n".join(["a,b,activity", *lines]) + "\n")
    return folder


def run(place, name, *overrides):
    folder = place / name
    if not folder.exists():
        table = [f"dataset.path={place / 'data'}", f"dataset.schema={place / 'schema.yaml'}"]
        experiment = to_experiment(compose_config(["dataset=table", *table, *overrides]))
        with in_process(client_app, 2) as grid:
            run_job(experiment, grid, folder)
    return folder


@pytest.fixture(scope="module")
def private(place):
    folder = run(place, "private", "privacy.epsilon=1")
    return folder, attack(Target.of(folder), 6)


def test_every_level_of_knowledge_has_its_figures(private):
    found = private[1]
    check_attack(json.loads(json.dumps(found, allow_nan=False)))
    assert {line["level"] for line in own_lines(found)} == {OUTPUTS, FILE, INFORMED}
    assert found["allowed"]["area"] == pytest.approx(0.7311, abs=1e-4)
    guesses = {line["attack"] for line in found["reconstruction"]["lines"]}
    assert {"marginals of others", "rows of others", "annealing"} <= guesses
    assert {line["whose"] for line in found["attributes"]["lines"]} == {"members", "others"}


def test_a_private_run_gives_no_more_than_epsilon_allows_and_what_is_open_breaks(private):
    found = private[1]
    for line in own_lines(found):
        assert line["area"][1] <= found["allowed"]["area"]
        assert line["balanced_accuracy"][1] <= found["allowed"]["balanced_accuracy"]
    controls = {control["name"]: control for control in found["controls"]}
    assert controls["fext_published"]["broke"]
    assert controls["fext_published"]["area"][0] > 0.9
    assert controls["without noise"]["area"][0] > strongest(found, FILE)["area"][0]


def test_the_table_says_what_follows_and_never_more(private):
    text = attack_table(private[1])
    assert "the most that epsilon allows" in text
    assert "What these attacks did not get, a better one may: only epsilon bounds it." in " ".join(text.split())
    assert "safe" not in text


def test_shadow_runs_are_the_same_for_the_same_seed_and_differ_for_others(private):
    target = Target.of(private[0])
    records = Records.of(target.pools, 40, np.random.default_rng(0))
    half = dict.fromkeys(target.pools, 0.5)
    one, same, other = (shadow_runs(target.experiment, 2, records, 4, half, seed) for seed in (0, 0, 1))
    assert (one.members == same.members).all()
    assert all((one.statistics[level] == same.statistics[level]).all() for level in one.statistics)
    assert (one.members != other.members).any()
    assert one.members.mean() == pytest.approx(0.5, abs=0.15)


def test_the_command_writes_what_the_report_reads(place, capsys):
    folder = run(place, "open", "strategy=fext_published", "strategy.score=accuracy")
    assert main(["attack", str(folder), "--models", "4"]) == 0
    said = capsys.readouterr().out
    assert "nothing is guaranteed" in said
    assert "Nothing is guaranteed (" in said
    found = read_run(folder).attack
    assert found["allowed"] is None
    assert strongest(found, FILE)["area"][0] > 0.9
    assert "shadow models" in (folder / "statement.html").read_text(encoding="utf-8")


def test_boosting_has_its_exact_influence(place):
    settings = ["strategy=boost", "privacy.epsilon=4", "strategy.depth=2", "rounds=3", "strategy.linear_share=0"]
    folder = run(place, "boost", *settings)
    found = attack(Target.of(folder), 4)
    assert found["influence"]["kind"] == "mu"
    assert 0 < found["influence"]["mean"] <= found["influence"]["largest"] <= found["influence"]["paid"]
    exact = next(line for line in found["membership"] if line["level"] == INFORMED)
    assert exact["area"][2] <= found["allowed"]["area"]


def test_trees_of_all_clients_are_read_with_all_clients_records(place):
    target = Target.of(run(place, "boost", "strategy=boost", "privacy.epsilon=4", "strategy.depth=2", "rounds=3"))
    records = Records.of(target.pools, 1000, np.random.default_rng(0))
    forest = target.model.forest
    X, y = (np.concatenate([getattr(pool, name) for pool in target.pools.values()]) for name in ("X", "y"))
    expected = count_ratios(forest, leaf_counts(forest), Part(np.arange(forest.n_trees), X, y))
    assert (statistics_of(target.model, records)[FILE][:, 1] == expected).all()


@pytest.mark.parametrize(
    "settings", [["dp_fedavg"], ["dp_fedavg", "strategy.own_scale=ranks"], ["boost", "privacy.unit=client"]]
)
def test_models_that_ask_rows_on_a_clients_own_scale_are_attacked(place, settings):
    name = "-".join(settings)
    folder = run(place, name, f"strategy={settings[0]}", *settings[1:], "privacy.epsilon=1000", "rounds=2")
    found = attack(Target.of(folder), 4)
    assert found["score"] == pytest.approx(read_run(folder).metrics["accuracy"], abs=0.005)
    assert found["attributes"]["lines"] == []
    assert {line["level"] for line in own_lines(found)} == {OUTPUTS, FILE, INFORMED}


@pytest.mark.parametrize("strategy", ["ldp_bagging", "lrf"])
def test_methods_of_other_kinds_are_attacked_too(place, strategy):
    found = attack(Target.of(run(place, strategy, f"strategy={strategy}")), 4)
    assert {line["level"] for line in own_lines(found)} == {OUTPUTS, FILE, INFORMED}


@pytest.fixture(scope="module")
def own_choice(place):
    """A run whose metrics are not of the saved model: clients of two worlds preferred their own trees."""
    rows = place / "worlds"
    rows.mkdir()
    rng = np.random.default_rng(0)
    for client in range(2):
        y = rng.integers(0, 3, 300)
        X = rng.normal(scale=0.3, size=(300, 2)) + ((y + client) % 3)[:, None]
        lines = [f"{a:.5f},{b:.5f},{('rest', 'walk', 'run')[c]}" for (a, b), c in zip(X, y, strict=True)]
        (rows / f"client{client}.csv").write_text("\n".join(["a,b,activity", *lines]) + "\n")
    settings = ["strategy=fext", "privacy.epsilon=10", "strategy.own_share=0.3", f"dataset.path={rows}"]
    return run(place, "fext", *settings)


def test_metrics_of_clients_choices_are_not_those_of_the_saved_model(own_choice):
    accuracy = read_run(own_choice).metrics["accuracy"]
    found = attack(Target.of(own_choice), 4)
    assert found["score"] < accuracy - 0.1
    assert "metrics.json is of that choice" in found["words"][-1]


def test_other_classes_than_the_runs_are_refused_where_clients_chose(own_choice, tmp_path, capsys):
    def change(folder):
        metrics = json.loads((folder / "metrics.json").read_text())
        metrics["confusion"][0][0] += 1
        (folder / "metrics.json").write_text(json.dumps(metrics))

    assert "other classes than metrics.json counts" in broken((own_choice,), tmp_path, capsys, change)


def broken(private, tmp_path, capsys, change):
    folder = tmp_path / "run"
    shutil.copytree(private[0], folder)
    change(folder)
    assert main(["attack", str(folder), "--models", "4"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    return said


def test_a_run_without_a_model_is_refused(private, tmp_path, capsys):
    assert "holds no model" in broken(private, tmp_path, capsys, lambda folder: shutil.rmtree(folder / "model"))


def test_a_folder_without_a_run_is_refused(private, tmp_path, capsys):
    said = broken(private, tmp_path, capsys, lambda folder: (folder / "metrics.json").unlink())
    assert "holds no finished run" in said


def test_a_failed_run_is_refused_with_its_reason(private, tmp_path, capsys):
    said = broken(private, tmp_path, capsys, lambda folder: (folder / "FAILED.txt").write_text("too few clients\n"))
    assert "failed (too few clients)" in said


def test_a_model_of_another_version_is_refused(private, tmp_path, capsys):
    def change(folder):
        privacy = json.loads((folder / "privacy.json").read_text())
        (folder / "privacy.json").write_text(json.dumps(privacy | {"dpforest": "0.0.1"}))

    assert "was written by dpforest 0.0.1" in broken(private, tmp_path, capsys, change)


def test_data_that_is_gone_is_named(private, tmp_path, capsys):
    def change(folder):
        config = folder / "config.yaml"
        config.write_text(config.read_text().replace("/data", "/gone"))

    assert "the data of this run is not there any more" in broken(private, tmp_path, capsys, change)


def test_other_data_than_the_runs_is_refused(private, tmp_path, capsys):
    def change(folder):
        metrics = json.loads((folder / "metrics.json").read_text())
        (folder / "metrics.json").write_text(json.dumps(metrics | {"accuracy": metrics["accuracy"] - 0.1}))

    assert "not that of the run any more" in broken(private, tmp_path, capsys, change)


def test_too_few_shadow_models_are_refused(private, tmp_path, capsys):
    assert main(["attack", str(private[0]), "--models", "2"]) == 1
    assert "2 shadow models are too few: use at least 4" in capsys.readouterr().err


def test_a_run_that_keeps_its_models_has_nothing_to_attack(place, capsys):
    folder = run(place, "standalone", "strategy=standalone")
    assert main(["attack", str(folder), "--models", "4"]) == 1
    assert "strategy=standalone publishes none" in capsys.readouterr().err


def test_who_knows_all_other_rows_reads_a_record_off_counts_without_noise(place):
    target = Target.of(run(place, "exact", "privacy=none"))
    (line,) = informed(target, 4).lines
    assert line["area"][0] == pytest.approx(1.0)
