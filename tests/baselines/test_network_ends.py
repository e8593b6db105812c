from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from network_loop import rows, run, start

pytest.importorskip("tensorflow")

from baselines.dp_fedavg_published.client import published_sigma
from dpforest.errors import DPForestError
from dpforest.ledger import Budget
from strategies.method import ClientUpdate

QUICK = {"learning_rate": 0.02, "dropout": 0.0}


def test_the_published_sigma_is_the_chapters() -> None:
    # Section 5.3: epsilon 1, delta 1e-5, clip 1.0 give 4.84.
    assert published_sigma(Budget(1.0, 1e-5), 1.0) == pytest.approx(4.84, abs=0.005)
    with pytest.raises(DPForestError, match="1e-5"):
        published_sigma(Budget(1.0), 1.0)


def test_the_published_setting_guarantees_nothing_and_its_noise_drowns_the_model() -> None:
    federation = run("dp_fedavg_published", budget=Budget(1.0, 1e-5), hidden=[64, 64], clients_per_round=None, rounds=2)
    guarantee = federation.ledgers[0].guarantee()
    assert not guarantee.holds
    assert "noise that is too small" in str(guarantee)
    weights = federation.server.architecture.flatten(federation.model)  # type: ignore[attr-defined]
    # The mean of four clients' noise, 4.84 / 2 on every weight, once a round.
    assert weights.std() == pytest.approx(published_sigma(Budget(1.0, 1e-5), 1.0) / 2 * math.sqrt(2), rel=0.1)


def test_the_published_clip_bounds_each_steps_gradient() -> None:
    # One sgd step a pass, no noise to speak of: the weights move by learning_rate * clip at most.
    options = {"optimizer": "sgd", "epochs": 1, "batch": 1000, "learning_rate": 1.0, "dropout": 0.0, "clip": 0.05}
    options |= {"clients_per_round": 1, "standardize": "public"}
    federation = start("dp_fedavg_published", budget=Budget(1e9, 1e-5), clients=1, rounds=1, **options)
    before = federation.server.architecture.flatten(federation.model)  # type: ignore[attr-defined]
    federation.exchange(1, {0: rows(0)})
    after = federation.server.architecture.flatten(federation.model)  # type: ignore[attr-defined]
    assert np.linalg.norm(after - before) == pytest.approx(0.05, rel=1e-3)


def test_centralized_uploads_all_rows_and_learns(tmp_path: Path) -> None:
    federation = run("centralized_mlp", **QUICK)
    assert federation.server.exchanges == 1
    assert federation.accuracy() > 0.95
    assert "all rows" in str(federation.ledgers[0].guarantee())
    assert federation.server.report()["rows"] == 480
    federation.server.save(tmp_path)
    assert (tmp_path / "network.npz").exists()


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.zeros((2, 3)), np.zeros(2, int)),
        (np.zeros((2, 4)), np.zeros(3, int)),
        (np.full((2, 4), np.nan), np.zeros(2, int)),
        (np.zeros((2, 4)), np.array([0, 3])),
        (np.zeros((2, 4)), np.array([0.0, 1.0])),
    ],
)
def test_uploaded_rows_are_checked(X: np.ndarray, y: np.ndarray) -> None:
    server = start("centralized_mlp").server
    with pytest.raises(DPForestError):
        server.check(ClientUpdate({"X": X, "y": y}, {}, 0))


def test_standalone_keeps_everything_with_the_client() -> None:
    federation = run("standalone_mlp", **QUICK)
    assert federation.accuracy() > 0.9
    assert set(federation.model) == {"clients"}
    assert not federation.ledgers[0].entries
    assert federation.ledgers[0].guarantee().epsilon == 0
    X, _ = rows(5)
    assert not np.array_equal(federation.predict(0, X), federation.predict(1, X))


def test_a_standalone_network_is_its_clients_own_model(tmp_path: Path) -> None:
    """So the app lets no metrics of it leave a real node; a simulation keeps it in the run folder."""
    federation = run("standalone_mlp", clients=2, **QUICK)
    own = {c: federation.method.client().own_model(federation.view(c, 1, {})) for c in range(2)}
    for client, arrays in own.items():
        assert arrays is not None
        federation.server.take_own_model(client, arrays)
        with pytest.raises(DPForestError, match="no weights"):
            federation.server.take_own_model(client, {"file": np.zeros(3)})
    federation.server.save(tmp_path)
    for client, arrays in own.items():
        assert arrays is not None
        with np.load(tmp_path / f"client_{client:03d}" / "network.npz") as saved:
            assert set(saved) == set(arrays)
            assert all(np.array_equal(saved[name], arrays[name]) for name in saved)


def test_a_client_without_rows_answers_as_any_other() -> None:
    """On a real node an error in place of an answer would tell the server that it has none."""
    nothing = np.empty((0, 4)), np.empty(0, dtype=np.int64)
    federation = run("standalone_mlp", {0: nothing, 1: rows(1), 2: rows(2), 3: rows(3)}, **QUICK)
    own = federation.method.client().own_model(federation.view(0, 1, {}))
    assert own is not None
    assert all(np.isfinite(array).all() for array in own.values())


def test_a_client_without_a_network_of_its_own_says_so() -> None:
    federation = run("standalone_mlp", **QUICK)
    with pytest.raises(DPForestError, match="no network of its own"):
        federation.predict(77, rows(0)[0])


def test_an_infinite_epsilon_publishes_no_noise() -> None:
    assert published_sigma(Budget(math.inf, 1e-5), 1.0) == 0
