"""A client that answered has charged all that the plan says, or its guarantee, and that of the run, is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message
from hand_made import CLIENTS, Act, Interfering, make, run, write_table

from dpforest.errors import DPForestError
from dpforest.guarantee import NO_SERVER, RECORD_UNIT
from dpforest.ledger import Entry
from dpforest.mechanisms import DiscreteLaplaceCounts
from dpforest.settings import Settings
from strategies import registry
from strategies.messages import CONFIG, error_content
from strategies.method import (
    Arrays,
    Charges,
    ClientSide,
    ClientTask,
    ClientUpdate,
    Method,
    Protection,
    Public,
    Released,
    ServerSide,
    Update,
)

NAME = "counts_only_here"


@dataclass(frozen=True)
class _Settings(Settings):
    raw_from: int = 1  # the clients from this number on send raw counts and charge nothing
    from_round: int = 1
    names_plan: bool = True
    by_exchange: bool = False


class _Client(ClientSide):
    def train(self, task: ClientTask, X: np.ndarray, y: np.ndarray, arrays: Arrays) -> Update:
        settings: _Settings = task.settings
        exact = np.bincount(y, minlength=task.schema.n_outputs)
        if task.client >= settings.raw_from and task.round >= settings.from_round:
            return Update(Public({"counts": exact}))  # they are not
        counts = _mechanism(task.budget.epsilon, task.rounds)
        noised = counts.release(exact, counts.entry("class counts"), task.ledger, task.noise("counts"))
        return Update(Released(task.ledger, {"counts": noised}))

    def predict(self, task: ClientTask, X: np.ndarray, arrays: Arrays) -> np.ndarray:
        return np.tile(arrays["share"], (len(X), 1))


class _Server(ServerSide):
    def planned(self) -> list[Entry]:
        if not self.task.settings.names_plan:
            return []
        return [_mechanism(self.task.budget.epsilon, self.task.rounds).entry("class counts", times=self.task.rounds)]

    def charges(self, exchange: int, client: int, update: ClientUpdate | None = None) -> Charges:
        if not self.task.settings.by_exchange:
            return super().charges(exchange, client, update)
        return Charges(each=[_mechanism(self.task.budget.epsilon, self.task.rounds).entry("class counts")])

    def aggregate(self, exchange: int, updates: list[ClientUpdate]) -> Arrays:
        total = np.maximum(np.sum([update.arrays["counts"] for update in updates], axis=0), 1)
        return {"share": total / total.sum()}

    def save(self, folder: Path) -> None:
        (folder / "nothing").touch()


def _mechanism(epsilon: float, rounds: int) -> DiscreteLaplaceCounts:
    return DiscreteLaplaceCounts(epsilon / rounds)


registry.register(Method(NAME, _Settings, _Server, _Client, (Protection(RECORD_UNIT, NO_SERVER),), 3))


def counted(folder: Path, app: Any = None, **settings: Any) -> Any:
    experiment = make(write_table(folder), strategy={"name": NAME, **settings})
    return run(experiment) if app is None else run(experiment, app=app)


@pytest.mark.parametrize("by_exchange", [True, False])
def test_a_method_that_pays_for_all_has_its_guarantee(tmp_path: Path, by_exchange: bool) -> None:
    done = counted(tmp_path, raw_from=CLIENTS, by_exchange=by_exchange)
    assert done.privacy["epsilon"] == pytest.approx(2.0)
    assert not done.failures


@pytest.mark.parametrize("raw_from", [0, CLIENTS - 1])
@pytest.mark.parametrize("names_plan", [True, False])
@pytest.mark.parametrize("by_exchange", [True, False])
def test_raw_counts_that_nobody_paid_for_guarantee_nothing(
    tmp_path: Path, raw_from: int, names_plan: bool, by_exchange: bool
) -> None:
    """All clients, or one of them; whether or not the method's plan owns up to its releases."""
    if not names_plan and raw_from:
        raw_from = 0  # who pays for more than the plan is refused
    done = counted(tmp_path, raw_from=raw_from, names_plan=names_plan, by_exchange=by_exchange)
    assert done.privacy["guarantee"].startswith("guarantee: none (what client ")
    assert done.privacy["epsilon"] == "inf"
    why = "has not charged its ledger for 'class counts'" if names_plan or by_exchange else "its ledger is empty"
    for client, ledger in done.privacy["clients"].items():
        assert (why in ledger["guarantee"]) == (int(client) >= raw_from)
        assert (ledger["epsilon"] == "inf") == (int(client) >= raw_from)


@pytest.mark.parametrize("by_exchange", [True, False])
def test_one_round_that_was_not_paid_for_is_noticed(tmp_path: Path, by_exchange: bool) -> None:
    done = counted(tmp_path, raw_from=CLIENTS - 1, from_round=3, by_exchange=by_exchange)
    guarantee = done.privacy["clients"][str(CLIENTS - 1)]["guarantee"]
    assert "'class counts' (discrete Laplace, 1 times)" in guarantee
    assert done.privacy["guarantee"] == guarantee


def test_an_answer_that_is_lost_later_hides_nothing(tmp_path: Path) -> None:
    """What is not known counts as spent in full, but that does not pay for what was sent in clear before."""

    def silent(message: Message, honest: Callable[[], Message]) -> Message:
        if message.content[CONFIG]["round"] == 3:
            raise TimeoutError
        return honest()

    done = counted(tmp_path, Interfering({CLIENTS - 1: silent}), raw_from=CLIENTS - 1, by_exchange=True)
    assert "'class counts' (discrete Laplace, 2 times)" in done.privacy["guarantee"]
    honest = counted(tmp_path, Interfering({CLIENTS - 1: silent}), raw_from=CLIENTS, by_exchange=True)
    assert honest.privacy["epsilon"] == pytest.approx(2.0)


@pytest.mark.parametrize("when", [1, 3])
def test_a_failure_that_may_follow_from_rows_ends_the_guarantee(tmp_path: Path, when: int) -> None:
    """A real node says so in its answer, which has no ledger: the run must not call the planned epsilon a guarantee."""

    def fail(unprotected: bool) -> Act:
        def act(message: Message, honest: Callable[[], Message]) -> Message:
            if message.content[CONFIG]["round"] != when:
                return honest()
            reply = error_content(CLIENTS - 1, DPForestError("see its log"), unprotected=unprotected)
            return Message(reply, reply_to=message)

        return act

    done = counted(tmp_path, Interfering({CLIENTS - 1: fail(True)}), raw_from=CLIENTS, by_exchange=True)
    assert done.privacy["guarantee"].startswith(
        f"guarantee: none (what client {CLIENTS - 1} sent: that training failed may follow from its rows"
    )
    done = counted(tmp_path, Interfering({CLIENTS - 1: fail(False)}), raw_from=CLIENTS, by_exchange=True)
    assert done.privacy["epsilon"] == pytest.approx(2.0)


def test_a_ledger_that_was_refused_once_is_not_mended_by_a_later_one(tmp_path: Path) -> None:
    def doubled(message: Message, honest: Callable[[], Message]) -> Message:
        reply = honest()
        if message.content[CONFIG]["round"] == 1:
            plain = json.loads(str(reply.content[CONFIG]["ledger"]))
            plain["entries"][0]["epsilon"] *= 2
            reply.content[CONFIG] = ConfigRecord(dict(reply.content[CONFIG]) | {"ledger": json.dumps(plain)})
        return reply

    done = counted(tmp_path, Interfering({CLIENTS - 1: doubled}), raw_from=CLIENTS, by_exchange=True)
    assert done.privacy["guarantee"].startswith(f"guarantee: none (what client {CLIENTS - 1} sent: its ledger was")


def _without_entries(message: Message, honest: Callable[[], Message]) -> Message:
    reply = honest()
    plain = json.loads(str(reply.content[CONFIG]["ledger"])) | {"entries": []}
    reply.content[CONFIG] = ConfigRecord(dict(reply.content[CONFIG]) | {"ledger": json.dumps(plain)})
    return reply


METHODS = {
    "one_shot": {},
    "one_shot, noised rows": {"name": "one_shot", "rows": "noised"},
    "standalone": {},
    "alone": {"trees": 2},
    "ldp_bagging": {},
    "ldp_bagging, turns": {"name": "ldp_bagging", "round_budget": "turns"},
    "fext, published": {"name": "fext", "accounting": "published", "k": None},
    "pp_fprf, published": {"name": "pp_fprf", "accounting": "published", "k": 2, "slices": 1},
    "fext": {"k": None},
    "fext, scored by clients": {"name": "fext", "filter_by": "clients"},
    "pp_fgrf": {},
    "pp_fprf": {"k": 2},
    "pp_fprf, slices": {"name": "pp_fprf", "k": 2, "slices": 2},
    "boost": {"pure": True},
    "centralized": {},
    "lrf": {},
    "boost, secure": {"name": "boost"},
    "dp_sgd": {"standardize": "private", "hidden": [4], "batch": 20, "steps": 3},
    "dp_sgd, shared": {"name": "dp_sgd", "hidden": [4], "steps": 3},
    "dp_fedavg": {"hidden": [4], "epochs": 1},
    "dp_fedavg, adaptive": {"name": "dp_fedavg", "adaptive_clip": True, "update": "clip", "hidden": [4], "epochs": 1},
    "fedavg": {"hidden": [4], "epochs": 1},
    "centralized_mlp": {"hidden": [4], "epochs": 1},
    "standalone_mlp": {"hidden": [4], "epochs": 1},
}
NEED_DELTA = ("boost, secure", "dp_sgd", "dp_sgd, shared", "dp_fedavg", "dp_fedavg, adaptive")

SHARED = ("boost, secure", "dp_sgd, shared")


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_its_exchanges_cost(tmp_path: Path, name: str) -> None:
    settings = {"name": name.split(",")[0], **METHODS[name]}
    privacy = {"delta": 1e-5 if name in NEED_DELTA else 0.0, "trust": "shared" if name in SHARED else None}
    rounds = 2 if registry.get_method(settings["name"]).uses_rounds else None
    options = {"strategy": settings, "rounds": rounds, "privacy": privacy}
    done = run(make(write_table(tmp_path), **options))
    assert not done.failures
    assert not any("sent: it" in ledger["guarantee"] for ledger in done.privacy["clients"].values())
    if done.side.planned() and not done.side.unprotected():
        assert 0 < done.privacy["epsilon"] <= 2 * (1 + 1e-9)
        unpaid: Act = _without_entries
        done = run(make(write_table(tmp_path), **options), app=Interfering({1: unpaid}))
        assert done.privacy["guarantee"].startswith("guarantee: none (what client 1 sent: it has not charged")
