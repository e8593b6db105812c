from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from network_loop import SCHEMA, make_task

import baselines.mlp.backend as backend
from baselines.centralized_mlp.settings import WholeSettings
from baselines.dp_fedavg.settings import DpFedAvgSettings
from baselines.dp_sgd.settings import DpSgdSettings
from baselines.fedavg.settings import FedAvgSettings
from baselines.mlp.architecture import BadWeights
from dpforest.errors import DPForestError
from dpforest.schema import Feature, Schema
from fl_app import server_app
from strategies.registry import get_method

NAMES = ["fedavg", "dp_fedavg", "dp_fedavg_published", "dp_sgd", "centralized_mlp", "standalone_mlp"]
ROOT = Path(__file__).parents[2]


def test_methods_are_found_and_described_without_tensorflow() -> None:
    code = (
        "import sys; from strategies.registry import installed_methods; from strategies.method import Task\n"
        f"assert set({NAMES}) <= set(installed_methods()), sorted(installed_methods())\n"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize("name", NAMES)
def test_without_tensorflow_one_line_names_the_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend.importlib.util, "find_spec", lambda name: None)
    method = get_method(name)
    with pytest.raises(DPForestError, match=r'pip install "dpforest\[mlp\]"') as caught:
        method.server(make_task(method))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_without_tensorflow_flwr_run_ends_before_it_waits_for_nodes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend.importlib.util, "find_spec", lambda name: None)
    context = SimpleNamespace(run_config={"overrides": f"strategy={name}"})
    with pytest.raises(DPForestError, match=r'pip install "dpforest\[mlp\]"'):
        server_app.main(None, context)  # without a grid


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (DpFedAvgSettings, {"clip": 0}, "clip 0 must be a finite number above 0"),
        (DpSgdSettings, {"clip": 0.0}, "clip 0.0 must be"),
        (DpSgdSettings, {"clip": float("nan")}, "clip nan must be"),
        (DpSgdSettings, {"batch_norm": [1]}, "batch_norm=\\[\\]"),
        (FedAvgSettings, {"batch_norm": [3]}, "from 1 to 2"),
        (FedAvgSettings, {"hidden": [0]}, "hidden 0 must be a whole number from 1"),
        (FedAvgSettings, {"hidden": "128"}, "list of whole numbers"),
        (FedAvgSettings, {"dropout": 1.0}, "dropout 1.0"),
        (FedAvgSettings, {"optimizer": "lbfgs"}, "one of adam, sgd"),
        (FedAvgSettings, {"learning_rate": 0}, "learning_rate 0"),
        (FedAvgSettings, {"proximal": -1}, "proximal -1"),
        (FedAvgSettings, {"clients_per_round": 1.5}, "share above 0 and below 1"),
        (FedAvgSettings, {"clients_per_round": 0}, "clients_per_round 0"),
        (DpFedAvgSettings, {"standardize": "private"}, "one of public, own"),
        (DpSgdSettings, {"standardize": "own"}, "moves with every record of a client"),
        (FedAvgSettings, {"standardize": "own"}, "be public or private"),
        (WholeSettings, {"standardize": "private"}, "one of public, own"),
        (FedAvgSettings, {"proximal": "abc"}, "proximal 'abc' must be a finite number from 0"),
        (FedAvgSettings, {"proximal": float("inf")}, "proximal inf"),
        (DpFedAvgSettings, {"target_quantile": 1.0}, "target_quantile"),
        (DpFedAvgSettings, {"target_quantile": 0}, "target_quantile 0 must be"),
        (DpFedAvgSettings, {"target_quantile": "abc"}, "target_quantile 'abc' must be"),
        (DpFedAvgSettings, {"adaptive_clip": "no"}, "adaptive_clip 'no' must be true or false"),
        (DpFedAvgSettings, {"sampling": "shuffled"}, "poisson, fixed"),
    ],
)
def test_bad_values_are_named(kind: type, values: Mapping[str, Any], message: str) -> None:
    with pytest.raises(DPForestError, match=message):
        kind(**values)


@pytest.mark.parametrize("kind", [FedAvgSettings, DpFedAvgSettings, DpSgdSettings])
def test_more_clients_a_round_than_there_are(kind: Any) -> None:
    assert kind(clients_per_round=4).sample_size(4) == 4
    assert kind(clients_per_round=0.5).sample_size(30) == 15
    with pytest.raises(DPForestError, match="5 is more than the 4 clients"):
        kind(clients_per_round=5).sample_size(4)


def test_the_chapters_network_has_80972_weights() -> None:
    # 561*128+128 + 128*64+64 + 64*12+12; the chapter's own sum (74,892) is wrong.
    schema = Schema(tuple(Feature(f"f{i}", 0, 1) for i in range(561)), classes=tuple("abcdefghijkl"))
    assert FedAvgSettings().architecture(schema).size == 80_972


def test_the_network_of_fext_dp_has_600_units_and_two_normalisations() -> None:
    architecture = FedAvgSettings(hidden=[100] * 6, dropout=0, batch_norm=[2, 4]).architecture(SCHEMA)
    assert sum(architecture.hidden) == 600
    assert [name for name in architecture.shapes if name.endswith("gamma")] == ["norm_2/gamma", "norm_4/gamma"]


def test_weights_from_the_network_are_checked() -> None:
    architecture = FedAvgSettings(hidden=[3]).architecture(SCHEMA)
    weights = architecture.initial_weights(np.random.default_rng(0))
    assert set(architecture.check_weights(weights)) == set(architecture.shapes)
    bad = {
        "no weights": {key: value for key, value in weights.items() if key != "output/bias"},
        "type int64": {**weights, "output/bias": np.zeros(3, dtype=np.int64)},
        "shape": {**weights, "output/bias": np.zeros(4)},
        "NaN": {**weights, "output/bias": np.array([0, np.nan, 0])},
    }
    for message, arrays in bad.items():
        with pytest.raises(BadWeights, match=message):
            architecture.check_weights(arrays)


def test_flat_weights_come_back() -> None:
    architecture = FedAvgSettings(hidden=[3, 2], batch_norm=[1]).architecture(SCHEMA)
    weights = architecture.initial_weights(np.random.default_rng(0))
    again = architecture.unflatten(architecture.flatten(weights))
    assert all(np.array_equal(weights[name], again[name]) for name in weights)
