"""Overrides: the same through every door, and refused with the nearest name that exists."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from dpforest.errors import DPForestError
from fl_app import server_app
from fl_app.client_app import app
from fl_app.config.compose import check_overrides, compose_config, known_options, split_overrides, to_experiment
from fl_app.config.places import conf_folder
from fl_app.engine.experiment import ConfigurationError, Experiment
from fl_app.engine.in_process import InProcessGrid
from fl_app.jobs.expansion import expand
from fl_app.jobs.job import sweep_experiment
from strategies.registry import get_method

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("strategy=one_shto", "no strategy 'one_shto'; did you mean 'one_shot'?"),
        ("strategy=one_shot,one_shto", "no strategy 'one_shto'; did you mean 'one_shot'?"),
        ("dataset=wach", "no dataset 'wach'; did you mean 'watch'?"),
        ("partition=idd", "no partition 'idd'; did you mean 'iid'?"),
        ("strateg=one_shot", "no option 'strateg'; did you mean 'strategy'?"),
        ("privacy.epsilonn=1", "no option 'privacy.epsilonn'; did you mean 'privacy.epsilon'?"),
        ("strategy.dept=5", "no option 'strategy.dept'; did you mean 'strategy.depth'?"),
        (
            "strategy.noise=local",
            "no option 'strategy.noise' any more: use privacy.trust=local, or privacy.trust=shared",
        ),
        ("sead=3", "no option 'sead'; did you mean 'seed'?"),
        ("seed", r"'seed' is no option: write NAME=VALUE"),
        ("privacy.epsilon=[1", "malformed override"),
    ],
)
def test_unknown_overrides_name_the_nearest(override: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_overrides(["seed=1", override])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_of_another_strategy_are_refused_for_this_one() -> None:
    check_overrides(["strategy=centralized", "strategy.min_leaf=3"])
    with pytest.raises(ConfigurationError, match=r"no option 'strategy\.min_leaf'"):
        check_overrides(["strategy=one_shot", "strategy.min_leaf=3"])


def test_overrides_of_flwr_run_come_as_one_string() -> None:
    text = "strategy=one_shot '+strategy.candidate_bounds.a=[0, 1]' privacy.epsilon=0.5 memorization=[1,2] seed=3"
    overrides = split_overrides(text)
    assert overrides[1] == "+strategy.candidate_bounds.a=[0, 1]"
    assert len(overrides) == 5
    experiment = to_experiment(compose_config(overrides))
    assert (experiment.privacy.epsilon, experiment.seed, experiment.memorization) == (0.5, 3, (1, 2))
    assert dict(experiment.settings.candidate_bounds) == {"a": [0, 1]}
    assert split_overrides("") == []
    with pytest.raises(ConfigurationError, match="No closing quotation"):
        split_overrides("seed='3")


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", ".nan", "none"])
def test_a_bad_epsilon_is_refused(epsilon: str) -> None:
    with pytest.raises(ValueError, match=r"epsilon .* must be"):
        to_experiment(compose_config([f"privacy.epsilon={epsilon}"]))


def test_infinity_is_no_privacy() -> None:
    for override in ("privacy.epsilon=inf", "privacy=none"):
        assert to_experiment(compose_config([override])).privacy.epsilon == float("inf")


@pytest.mark.parametrize("strategy", ["boost", "dp_fedavg", "dp_sgd", "dp_fedavg_published"])
def test_a_strategy_brings_a_delta_only_where_nobody_asked_for_one(strategy: str) -> None:
    def delta(*overrides: str) -> float:
        return to_experiment(compose_config([f"strategy={strategy}", *overrides])).privacy.delta

    assert 0 < delta() == delta("privacy.epsilon=3") <= 1e-5
    assert delta("privacy=pure") == delta("privacy=none") == delta("privacy.delta=0") == 0
    assert delta("privacy=approximate", "privacy.delta=1e-7") == delta("privacy.delta=1e-7") == 1e-7
    assert to_experiment(compose_config(["strategy=one_shot"])).privacy.delta == 0


@pytest.mark.parametrize("strategy", ["boost", "dp_fedavg", "dp_sgd"])
def test_gaussian_noise_without_a_delta_is_refused_with_what_to_set(strategy: str) -> None:
    if strategy != "boost":
        pytest.importorskip("tensorflow")
    task = to_experiment(compose_config([f"strategy={strategy}", "privacy=pure"])).task(10)
    with pytest.raises(DPForestError, match=r"privacy\.delta") as refused:
        get_method(strategy).server(task).planned()
    assert "\n" not in str(refused.value)


def test_pure_boosting_needs_no_delta() -> None:
    overrides = ["strategy=boost", "strategy.pure=true"]
    task = to_experiment(compose_config([*overrides, "privacy=pure"])).task(10)
    assert not any(entry.mu for entry in get_method("boost").server(task).planned())
    with pytest.raises(DPForestError, match=r"set privacy\.delta=0"):
        get_method("boost").server(to_experiment(compose_config(overrides)).task(10))


def test_values_of_a_wrong_type_are_refused() -> None:
    for override, name in [("seed=x", "seed"), ("strategy.depth=deep", "depth"), ("partition.clients=many", "clients")]:
        with pytest.raises(ValueError, match=name):
            to_experiment(compose_config([override]))


def test_defaults_and_shipped_settings_are_valid() -> None:
    experiment = to_experiment(compose_config([]))
    assert (experiment.method.name, experiment.source.name, experiment.privacy.epsilon) == ("one_shot", "watch", 1.0)
    assert Experiment.from_json(experiment.to_json()) == experiment
    shipped = sorted(file.stem for file in (conf_folder() / "strategy").glob("one_shot*.yaml"))
    for name in shipped:
        assert to_experiment(compose_config([f"strategy={name}"])).method.name == "one_shot"


@pytest.mark.parametrize("experiment", sorted(file.stem for file in (conf_folder() / "experiment").glob("*.yaml")))
def test_shipped_experiments_sweep_over_what_exists(experiment: str) -> None:
    yaml = OmegaConf.load(conf_folder() / "experiment" / f"{experiment}.yaml")
    text = [f"{name}={values}" for name, values in yaml.hydra.sweeper.params.items()]
    values = {o.key_or_group: [*o.sweep_string_iterator()] for o in OverridesParser.create().parse_overrides(text)}
    for number in range(max(map(len, values.values()))):  # every value once, not all that go together
        overrides = [f"{name}={some[number % len(some)]}" for name, some in values.items()]
        # What stands in a choice of a group that is swept too goes to the choices that have it.
        chosen = [f"experiment={experiment}", *(text for text in overrides if "." not in text.partition("=")[0])]
        known = known_options(chosen)
        inner = [text.partition("=")[0] for text in overrides if text.partition(".")[0] in values]
        fitting = [text for text in overrides if (name := text.partition("=")[0]) not in inner or name in known]
        sweep_experiment(compose_config([f"experiment={experiment}", *fitting]))


@pytest.mark.parametrize("experiment", ["trees_or_fedavg", "many_clients"])
def test_nobody_is_asked_for_what_it_has_no_proof_of(experiment: str) -> None:
    """Each run of the comparison names a unit and a trust model, and its method proves them."""
    panels: dict[str, set[tuple[str | None, str | None]]] = {}
    for overrides in expand([f"experiment={experiment}", "seed=0"]):
        run = to_experiment(compose_config(overrides))
        asked = run.privacy.unit, run.privacy.trust
        if run.method.name == "standalone":
            assert (asked, run.privacy.epsilon) == ((None, None), float("inf"))
        else:
            protection = run.method.protection(run.settings, *asked)
            assert (protection.unit.kind, protection.trust.kind) == asked
        panels.setdefault(run.method.name, set()).add(asked)
    if experiment == "trees_or_fedavg":
        trusts = {"local", "shared"}
        assert panels.pop("standalone") == {(None, None)}
        assert panels == {
            "boost": {(unit, trust) for unit in ("record", "client") for trust in trusts},
            "dp_sgd": {("record", trust) for trust in trusts},
            "dp_fedavg": {("client", trust) for trust in trusts},
        }


@pytest.mark.parametrize("case", ["hugadb_people", "hapt_people", "wisdm_people", "wisdm_rows"])
def test_the_like_for_like_comparison_goes_with_other_data(case: str) -> None:
    alone, other = (compose_config([*more, f"case={case}"]) for more in ([], ["experiment=trees_or_fedavg"]))
    assert (other.dataset, other.partition) == (alone.dataset, alone.partition)
    assert (other.evaluation.split, other.privacy.unit) == (alone.evaluation.split, "record")


def test_flwr_run_refuses_a_folder_that_would_go_astray(caplog: pytest.LogCaptureFixture) -> None:
    """The working directory is that in which somebody once started the SuperLink."""
    context = Context(1, 0, {}, RecordDict(), {"overrides": "", "output": "runs"})
    with pytest.raises(ConfigurationError), caplog.at_level(logging.ERROR):
        server_app.main(InProcessGrid(app, 1), context)
    assert "output='runs' must be an absolute folder" in caplog.text


@pytest.mark.parametrize(
    ("nodes", "partition", "warned"), [(2, "", True), (10, "", False), (2, " partition.clients=2", False)]
)
def test_ten_people_on_flowers_two_nodes_are_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, nodes: int, partition: str, warned: bool
) -> None:
    overrides = f"strategy=one_shot strategy.trees=1 strategy.depth=2{partition}"
    context = Context(1, 0, {}, RecordDict(), {"overrides": overrides, "output": str(tmp_path)})
    with caplog.at_level(logging.WARNING):
        server_app.main(InProcessGrid(app, nodes), context)
    said = "10 subjects are grouped into 2 clients, since so many nodes are there: start 10 "
    assert (said in caplog.text) == warned


def test_flwr_run_takes_its_folder_apart_from_the_overrides(caplog: pytest.LogCaptureFixture) -> None:
    context = Context(1, 0, {}, RecordDict(), {"overrides": "output=/there seed=3", "output": ""})
    with pytest.raises(ConfigurationError), caplog.at_level(logging.ERROR):
        server_app.main(InProcessGrid(app, 1), context)
    assert "output is given apart from overrides" in caplog.text


def test_bad_overrides_at_the_command_line() -> None:
    command = [sys.executable, "-m", "fl_app", "strategy=one_shto"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "error: no strategy 'one_shto'; did you mean 'one_shot'?" in done.stderr


@pytest.mark.parametrize(
    ("overrides", "epsilon"),
    [
        ([], 1.0),
        (["privacy.level=none"], float("inf")),
        (["privacy.level=low"], 10.0),
        (["privacy.level=medium"], 1.0),
        (["privacy.level=high"], 0.1),
        (["privacy.level=high", "privacy.epsilon=0.1"], 0.1),
        (["privacy=approximate", "privacy.level=low"], 10.0),
        (["strategy=ldp_bagging_published", "dataset=exercise", "dataset.synthetic=3", "privacy.level=high"], 0.1),
    ],
)
def test_a_level_names_an_epsilon(overrides: list[str], epsilon: float) -> None:
    experiment = to_experiment(compose_config(overrides))
    assert experiment.privacy.epsilon == epsilon
    assert Experiment.from_json(experiment.to_json()).privacy == experiment.privacy


def test_a_level_and_another_epsilon_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"level high is epsilon 0.1, and privacy.epsilon says 2: give one"):
        to_experiment(compose_config(["privacy.level=high", "privacy.epsilon=2"]))
    with pytest.raises(ConfigurationError, match=r"privacy.level 'top' must be one of none .epsilon inf., low"):
        to_experiment(compose_config(["privacy.level=top"]))
    with pytest.raises(ConfigurationError, match=r"privacy.level \['high'\] must be one of none"):
        to_experiment(compose_config(["privacy.level=[high]"]))
    privacy = {"level": "high"}
    plain = to_experiment(compose_config([])).to_dict() | {"privacy": privacy}
    assert Experiment.from_dict(plain).privacy.epsilon == 0.1


def test_exercise_without_data_says_how_to_make_some_up() -> None:
    experiment = to_experiment(compose_config(["dataset=exercise"]))
    assert experiment.evaluation.split == "time"
    with pytest.raises(ValueError, match=r"dataset.path is missing: .* or dataset.synthetic=20 for synthetic"):
        experiment.partition.count(experiment.source)
