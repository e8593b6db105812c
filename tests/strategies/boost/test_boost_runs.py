"""Boosting over Flower messages: with noise of the system, and with clients that are lost for a while or for good."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message
from hand_made import Act, Interfering, make, run, write_table

from fl_app.client_app import app as client_app
from fl_app.engine.experiment import Experiment
from fl_app.engine.in_process import InProcessGrid
from fl_app.engine.run import Run, run_experiment
from fl_app.report.gather import gather
from fl_app.results.run_folder import RunFolder
from fl_app.results.text import run_table
from strategies.messages import CONFIG
from strategies.method import TooFewClients

CLIENTS, ROUNDS = 8, 5
TREES_A_ROUND = 2


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return write_table(tmp_path_factory.mktemp("table"), clients=CLIENTS)


def boosted(
    dataset: dict[str, Any], dropouts: int = 0, trust: str = "shared", source: str = "seeded", timeout: float = 60
) -> Experiment:
    strategy = {
        "name": "boost", "dropouts": dropouts, "depth": 2, "trees_per_round": TREES_A_ROUND,
        "bins": 8, "cuts": 3, "linear_share": 0,
    }  # fmt: skip
    privacy = {"delta": 1e-6, "noise": source, "trust": trust}
    return make(dataset, 5.0, strategy=strategy, rounds=ROUNDS, privacy=privacy, timeout=timeout)


def gone_in(exchanges: Collection[int]) -> Act:
    def act(message: Message, honest: Callable[[], Message]) -> Message:
        if message.content[CONFIG]["round"] in exchanges:
            raise TimeoutError
        return honest()

    return act


def paid(done: Run, client: int) -> float:
    """Rounds of trees in a client's ledger."""
    return sum(entry["times"] for entry in done.privacy["clients"][str(client)]["entries"][1:]) / TREES_A_ROUND


@pytest.mark.parametrize("trust", ["local", "shared"])
def test_noise_may_come_from_the_system(dataset: dict[str, Any], trust: str) -> None:
    """OpenDP's discrete Gaussian in place of the seeded one: another model each time, at the same price."""
    seeded = run(boosted(dataset, trust=trust), CLIENTS)
    drawn = [run(boosted(dataset, trust=trust, source="secure"), CLIENTS) for _ in range(2)]
    assert [done.privacy["noise"] for done in drawn] == ["secure", "secure"]
    assert drawn[0].privacy["guarantee"] == seeded.privacy["guarantee"]
    assert drawn[0].privacy["clients"] == seeded.privacy["clients"]
    assert drawn[0].metrics["importances"] != drawn[1].metrics["importances"]
    assert not drawn[0].failures
    assert all(row["bytes_down"] > 0 and row["bytes_up"] > 0 for row in drawn[0].rounds), "of every exchange"


@pytest.mark.parametrize("dropouts", [0, 1, 3])
def test_a_run_without_the_clients_that_died_ends_with_its_model(dataset: dict[str, Any], dropouts: int) -> None:
    """As many as may be missing die at once, and cost their contribution; one more dies later, and ends the run."""
    acts = {client: gone_in(range(5, 100)) for client in range(dropouts)} | {7: gone_in(range(9, 100))}
    done = run(boosted(dataset, dropouts), CLIENTS, Interfering(acts))
    assert done.metrics["trees"] == 2 * TREES_A_ROUND
    assert done.metrics["rounds_given_up"] == 1
    assert done.metrics["rounds"] == 11, "two for keys, two for cuts, four for trees; one in vain, and two to wait"
    assert f"{7 - dropouts} clients answered" in done.metrics["ended_early"]
    assert done.metrics["accuracy"] > 0.4
    assert paid(done, 6) == 3
    assert done.privacy["epsilon"] < 5
    assert "ended early" in run_table(done.metrics, done.privacy)


@pytest.mark.parametrize("dropouts", [0, 1, 3])
@pytest.mark.parametrize("exchange", [5, 6], ids=["mask", "unmask"])
def test_a_client_that_is_lost_once_comes_back(dataset: dict[str, Any], dropouts: int, exchange: int) -> None:
    done = run(boosted(dataset, dropouts), CLIENTS, Interfering({3: gone_in([exchange])}))
    lost = 0 if dropouts else 1
    assert done.metrics["trees"] == (ROUNDS - lost) * TREES_A_ROUND
    assert done.metrics.get("rounds_given_up", 0) == lost
    assert "ended_early" not in done.metrics
    assert paid(done, 0) == ROUNDS
    assert [failure.client for failure in done.failures] == [3]


def test_without_a_tree_there_is_nothing_to_end_with(dataset: dict[str, Any]) -> None:
    with pytest.raises(TooFewClients, match="no round was finished: after 0 of 5 rounds: 3 exchanges in a row"):
        run(boosted(dataset), CLIENTS, Interfering({3: gone_in(range(5, 100))}))


class LosingGrid(InProcessGrid):
    """Nodes of some clients are not connected for some requests of who is."""

    def __init__(self, clients: Collection[int], requests: Collection[int], app: Any = client_app) -> None:
        super().__init__(app, CLIENTS)
        self._lost = {1000 + client for client in clients}
        self._when = requests
        self.requests = 0

    def get_node_ids(self) -> Iterable[int]:
        self.requests += 1
        return [node for node in super().get_node_ids() if self.requests not in self._when or node not in self._lost]


def test_a_client_is_waited_for_before_anybody_pays(dataset: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    nodes = {client: 1000 + client for client in range(CLIENTS)}
    honest = run_experiment(boosted(dataset), LosingGrid([], []), nodes)
    waited = LosingGrid([3], range(5, 8))
    done = run_experiment(boosted(dataset), waited, nodes)
    assert waited.requests == 2 + 1 + ROUNDS + 3 + 1, "the last before the evaluation"
    assert done.metrics["confusion"] == honest.metrics["confusion"]
    assert not done.failures
    said = [record.getMessage() for record in caplog.records if "waiting" in record.getMessage()]
    assert said == ["waiting up to 60 s for clients that are not connected: 3"], "once, however long it takes"


def test_who_is_away_is_named_and_asked_when_it_is_back(dataset: dict[str, Any]) -> None:
    nodes = {client: 1000 + client for client in range(CLIENTS)}
    seen: list[int] = []

    def note(message: Message, honest: Callable[[], Message]) -> Message:
        seen.append(int(message.content[CONFIG]["round"]))
        return honest()

    grid = LosingGrid([3], range(2, 4), Interfering({3: note}))
    done = run_experiment(boosted(dataset, trust="local"), grid, nodes)
    assert {(failure.client, failure.reason) for failure in done.failures} == {(3, "not connected")}
    assert min(set(range(1, ROUNDS + 2)) - set(seen)) == 2
    assert max(seen) == ROUNDS + 1
    assert done.metrics["trained"] == CLIENTS - 1
    assert done.metrics["left_out"] == {"3": f"in 2 of {ROUNDS + 1} exchanges: not connected"}
    words = run_table(done.metrics, done.privacy)
    assert f"7 of 8 trained all through: client 3 left out (in 2 of {ROUNDS + 1} exchanges: not connected)" in words


def test_a_secure_sum_goes_on_without_who_is_away(dataset: dict[str, Any]) -> None:
    nodes = {client: 1000 + client for client in range(CLIENTS)}
    seen: list[int] = []

    def note(message: Message, honest: Callable[[], Message]) -> Message:
        seen.append(int(message.content[CONFIG]["round"]))
        return honest()

    done = run_experiment(boosted(dataset, dropouts=1), LosingGrid([3], range(1000), Interfering({3: note})), nodes)
    assert not seen, "no exchange waits for it"
    assert {(failure.client, failure.reason) for failure in done.failures} == {(3, "not connected")}
    assert done.metrics["trees"] == ROUNDS * TREES_A_ROUND
    assert list(done.metrics["left_out"]) == ["3"]


def test_a_client_that_gave_no_keys_stands_in_for_nobody(dataset: dict[str, Any]) -> None:
    """Client 0 is connected but did not share its secrets; then client 3, which no sum can do without, is away."""
    nodes = {client: 1000 + client for client in range(CLIENTS)}
    grid = LosingGrid([3], range(6, 1000), Interfering({0: gone_in([2])}))
    done = run_experiment(boosted(dataset, dropouts=1, timeout=0.05), grid, nodes)
    assert done.metrics["trees"] == 2 * TREES_A_ROUND
    assert "rounds_given_up" not in done.metrics
    assert paid(done, 1) == 2


def test_nobody_pays_for_a_client_that_stays_away(dataset: dict[str, Any], tmp_path: Path) -> None:
    nodes = {client: 1000 + client for client in range(CLIENTS)}
    experiment = boosted(dataset, timeout=0.05)
    done = run_experiment(experiment, LosingGrid([3], range(6, 1000)), nodes)
    assert done.metrics["trees"] == 2 * TREES_A_ROUND
    assert "rounds_given_up" not in done.metrics
    assert paid(done, 0) == 2
    assert {(failure.client, failure.reason) for failure in done.failures} == {(3, "not connected")}
    folder = RunFolder(tmp_path / "run")
    with folder.recording(experiment):
        folder.write(done)
    (section,) = gather([tmp_path]).sections
    assert "ended early, after 2 of 5 rounds" in section.note
