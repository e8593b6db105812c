"""The HAR chapter's experiment: what its sweep composes to."""

from __future__ import annotations

import pytest
import yaml

from fl_app.config.compose import compose_config, to_experiment
from fl_app.config.places import conf_folder
from fl_app.engine.experiment import Experiment
from fl_app.jobs.job import sweep_experiment

SWEEP = yaml.safe_load((conf_folder() / "experiment" / "har_chapter.yaml").read_text())["hydra"]["sweeper"]["params"]


def composed(*overrides: str) -> Experiment:
    return sweep_experiment(compose_config(["experiment=har_chapter", *overrides]))


@pytest.mark.parametrize("strategy", SWEEP["strategy"].split(","))
@pytest.mark.parametrize("case", SWEEP["case"].split(","))
def test_every_point_of_the_sweep_is_valid(case: str, strategy: str) -> None:
    experiment = composed(f"case={case}", f"strategy={strategy}", "privacy.epsilon=0.5")
    assert experiment.total_rounds == (10 if experiment.method.uses_rounds else 1)
    assert not experiment.method.uses_budget or experiment.privacy.delta == 1e-5
    assert experiment.source.name == case.split("_1")[0].split("_6")[0]
    assert Experiment.from_json(experiment.to_json()) == experiment


def test_the_cases_are_those_of_both_tables() -> None:
    har, fewer, credit = (composed(f"case={case}", "strategy=dp_sgd") for case in SWEEP["case"].split(","))
    assert [len(e.source.schema().classes) for e in (har, fewer, credit)] == [12, 6, 2]
    assert (har.dataset["step"], har.dataset["length"], har.partition.kind) == (64, 128, "subject")
    assert credit.partition.clients == 8
    official = composed("case=hapt_6_official", "strategy=dp_sgd")
    assert (len(official.evaluation.subjects), len(official.source.schema().classes)) == (9, 6)


def test_a_case_also_stands_without_the_experiment() -> None:
    experiment = to_experiment(compose_config(["case=hapt_6_official", "strategy=fedavg"]))
    assert (experiment.dataset["classes"], experiment.dataset["step"], experiment.rounds) == (6, 64, None)
    assert experiment.evaluation.split == "subject"


def test_the_published_settings_are_the_chapters() -> None:
    for name in ("fedavg_published", "dp_fedavg_published"):
        settings = composed(f"strategy={name}").settings
        assert (settings.clients_per_round, settings.epochs, settings.batch) == (5, 2, 32)
        assert (tuple(settings.hidden), settings.dropout, settings.learning_rate) == ((128, 64), 0.3, 0.001)


@pytest.mark.parametrize(
    ("strategy", "delta"),
    [("one_shot", 0), ("fedavg", 0), ("dp_fedavg", 1e-6), ("dp_sgd", 1e-6), ("dp_fedavg_published", 1e-5)],
)
def test_delta_is_there_for_gaussian_noise_only_and_can_be_overridden(strategy: str, delta: float) -> None:
    assert to_experiment(compose_config([f"strategy={strategy}"])).privacy.delta == delta
    chosen = to_experiment(compose_config([f"strategy={strategy}", "privacy.delta=1e-4"]))
    assert chosen.privacy.delta == 1e-4


@pytest.mark.parametrize("noise", ["seeded", "secure"])
def test_the_servers_noise_follows_the_configured_one(noise: str) -> None:
    experiment = to_experiment(compose_config(["strategy=dp_fedavg", f"privacy.noise={noise}"]))
    assert Experiment.from_json(experiment.to_json()).settings.server_noise == noise
