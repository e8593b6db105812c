"""A short audit of every method, with half its noise too, with error rates far below what a test may have."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import yaml
from collecting import Collecting
from hand_made import SCHEMA, table_rows

from dpforest.errors import DPForestError
from dpforest.guarantee import NO_SERVER, RECORD_UNIT
from dpforest.ledger import Budget, gaussian_mu
from dpforest.mechanisms import DiscreteLaplaceCounts
from dpforest.schema import Schema
from dpforest.settings import Settings
from strategies import registry
from strategies.audit import MethodAudit, Subject, audit_method
from strategies.audit.client_view import ClientView
from strategies.audit.worlds import worlds_of
from strategies.method import ClientSide, ClientTask, Method, Protection, Public, Released, Task, Update
from strategies.one_shot import client as one_shot_client
from strategies.registry import get_method

CONFIDENCE = 0.99  # with fixed seeds; that no guarantee is found broken by chance, with far more
SURE = 1 - 1e-6
PURE, GAUSSIAN, LOOSE = {"epsilon": 1.0}, {"epsilon": 8.0, "delta": 1e-6}, {"epsilon": 20.0, "delta": 1e-6}
GROWN = {
    "depth": 1,
    "trees": 1,
    "validation_share": 0,
    "slices": 1,
    "features": 2,
    "vote_share": 0.02,
    "size_share": 0.02,
}
# Small ones, whose budget is spent in few releases: there an audit of few repetitions sees most of it.
CASES: dict[str, dict[str, Any]] = {
    "one_shot": {"depth": 1, "trees": 1, "leaf_share": 0.9, **PURE},
    "standalone": {"depth": 1, "trees": 1, "leaf_share": 0.9, **PURE},
    "ldp_bagging": {"depth": 1, "rounds": 2, "leaf_share": 0.9, **PURE},
    "fext": {"depth": 1, "trees": 1, "rounds": 1, "leaf_share": 0.9, **PURE},
    "pp_fgrf": {**GROWN, **PURE},
    "pp_fprf": {**GROWN, "k": 1, "functions": 2, "buckets": 2, **PURE},
    "boost": {"depth": 1, "trees_per_round": 1, "rounds": 2, "bins": 8, "cuts": 3, **GAUSSIAN},
    "dp_sgd": {"hidden": [], "rounds": 1, "steps": 2, **GAUSSIAN},
    "dp_fedavg": {"rounds": 2, "clients": 4, **GAUSSIAN},
}
MORE: dict[str, dict[str, Any]] = {
    "boost, pure": {"pure": True, "depth": 1, "trees_per_round": 1, "rounds": 1, "count_share": 9.0, **PURE},
    "boost, shared": {**CASES["boost"], "rounds": 1, "clients": 2, "trust": "shared"},
    "boost, client": {"rounds": 2, "clients": 4, "unit": "client", "trust": "shared", **GAUSSIAN},
    "boost, many clients": {"rounds": 2, "scale": "moments", "unit": "client", "trust": "local", **LOOSE},
    "dp_fedavg, shared": {"rounds": 1, "clients": 3, "trust": "shared", **GAUSSIAN},
    "dp_sgd, shared": {"hidden": [], "rounds": 1, "steps": 1, "standardize": "public", "trust": "shared", **GAUSSIAN},
}
# A test of Gaussian noise needs far fewer than one that assumes nothing about it.
FEW, MANY = 240, 700
REPETITIONS = {
    "one_shot": 1000,
    "boost, pure": 1000,
    "boost, client": 160,
    "boost, many clients": 400,
    "dp_sgd, shared": 400,
}
UNPROTECTED: dict[str, dict[str, Any]] = {
    "fext": {"accounting": "published", "trees": 1, "rounds": 1, "epsilon": 1.0},
    "ldp_bagging": {"accounting": "published", "rounds": 1, "epsilon": 1.0},
    "pp_fgrf": {**GROWN, "accounting": "published", "epsilon": 1.0},
}
_OF_RUN = ("epsilon", "delta", "rounds", "clients", "unit", "trust")
NETWORKS = ("dp_sgd", "dp_fedavg", "fedavg")


def subject(name: str, case: dict[str, Any], secure: bool = False) -> Subject:
    """A method on a table of two columns."""
    method = get_method(name.split(",")[0])
    noise: Literal["secure", "seeded"] = "secure" if secure else "seeded"
    chosen = {k: v for k, v in case.items() if k not in _OF_RUN}
    if any(field.name == "server_noise" for field in fields(method.settings)):
        chosen["server_noise"] = noise
    settings = method.settings.from_mapping(chosen, name)
    schema = Schema.from_dict(SCHEMA | ({"classes": ["low", "high"]} if "ldp" in name else {})).with_rows(200)
    X, y = table_rows(40)
    rows = schema.check_matrix(X)[0], np.minimum(y, schema.n_outputs - 1)
    budget = Budget(case["epsilon"], case.get("delta", 0.0))
    rounds, clients = case.get("rounds", method.default_rounds), case.get("clients", 3)
    protection = method.protection(settings, case.get("unit"), case.get("trust"))
    task = Task(schema, settings, budget, rounds, clients, 0, **protection.for_task())
    return Subject(method.name, task, [rows], rows, noise)


def audited(name: str, case: dict[str, Any], repetitions: int = 1000, **options: Any) -> MethodAudit:
    if name.split(",")[0] in NETWORKS:
        pytest.importorskip("tensorflow")
    return audit_method(subject(name, case, **options), repetitions=repetitions, confidence=CONFIDENCE)


def check_holds(found: MethodAudit) -> None:
    """That nothing is refuted by the repetitions, which chance alone would do in one of a million such tests."""
    claim, rates = found.result.claim, found.result.found.rates
    assert found.claims
    assert found.leaks == ()
    if found.result.found.mu:
        assert rates.mu(SURE) <= gaussian_mu(claim.epsilon, claim.delta)
    else:
        assert rates.epsilon(claim.delta, SURE) <= claim.epsilon
    assert found.field is None or found.field.rates.epsilon(claim.delta, SURE) <= claim.epsilon


def test_every_method_is_here() -> None:
    files = (Path(__file__).parents[3] / "conf" / "strategy").glob("*.yaml")
    groups = [yaml.safe_load(file.read_text()) for file in files]
    names = {group.get("strategy", group)["name"] for group in groups if "name" in group.get("strategy", group)}
    guaranteed = {name for name in names if get_method(name).uses_budget} - {"dp_fedavg_published", "central_dp_ebm"}
    assert guaranteed - {"lrf"} <= set(CASES)


@pytest.mark.parametrize("name", [*CASES, *MORE])
def test_a_guarantee_holds_and_half_the_noise_is_caught(name: str) -> None:
    case = CASES.get(name) or MORE[name]
    found = audited(name, case, REPETITIONS.get(name, FEW if "delta" in case else MANY))
    check_holds(found)
    assert found.result.has_power, str(found.result)


def test_scores_do_not_know_whether_the_record_was_drawn() -> None:
    """Where it was not, what came out still says something of where it could have been."""
    pytest.importorskip("tensorflow")
    settings = {"hidden": [], "rounds": 1, "steps": 1, "batch": 20, "standardize": "public", **GAUSSIAN}
    audited_subject = subject("dp_sgd", settings)
    view = ClientView(audited_subject, next(worlds_of(audited_subject)))
    ratios = [sum(view.repeat(True, number, False, False).log_ratios().values()) for number in range(20)]
    assert view.entries[0].sampling < 0.5, "it is left out of most"
    assert min(map(abs, ratios)) > 1e-6


def test_a_record_without_others_is_answered_for_once_also_where_rows_are_sampled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("tensorflow")
    settings = {"hidden": [], "rounds": 2, "steps": 1, "batch": 20, "standardize": "public", **GAUSSIAN}
    audited_subject = subject("dp_sgd", settings)
    alone = next(world for world in worlds_of(audited_subject) if not len(world.y))
    view, client = ClientView(audited_subject, alone), type(audited_subject.method.client())
    for number in range(6):
        view.repeat(True, number, False, False)
    train, answers = client.train, []
    monkeypatch.setattr(client, "train", lambda *given: answers.append(1) or train(*given))
    for number in range(6, 10):
        assert view.repeat(True, number, False, False).log_ratios()
    assert len(answers) == 4 * 2, "one to each message"


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("dp_sgd", "standalone", "pp_fgrf")])
def test_cryptographic_noise_holds_too(name: str) -> None:
    found = audited(name, CASES[name], 200, secure=True)
    check_holds(found)
    assert found.result.found.repetitions == 200


@pytest.mark.parametrize("name", UNPROTECTED)
def test_what_guarantees_nothing_is_said_to_and_its_leak_is_shown(name: str) -> None:
    found = audited(name, UNPROTECTED[name], 400)
    assert not found.claims
    assert not found.violated, "there was nothing to hold"
    assert found.guarantee.startswith("guarantee: none")
    assert found.result.found.epsilon > 1.0, "what the setting calls epsilon is refuted"


def test_a_client_is_hidden_as_a_whole() -> None:
    worlds = [world.name for world in worlds_of(subject("boost, client", MORE["boost, client"]))]
    assert worlds == ["a client whose rows are all at the bounds", "your client 0"]


@pytest.mark.parametrize("name", ["central_dp_ebm", "boost, trusted server"])
def test_a_server_that_is_trusted_with_more_than_models_is_refused(name: str) -> None:
    with pytest.raises(DPForestError, match=r"cannot be audited: clients entrust the server with what no mechanism"):
        audited(name, {"trust": "central", **GAUSSIAN}, 100)


def test_who_entrusts_the_server_and_claims_nothing_shows_what_leaks() -> None:
    found = audited("fedavg", {"rounds": 1, "hidden": [], "standardize": "public", "epsilon": 1.0}, 40)
    assert not found.claims
    assert found.result.found.repetitions == 40


def test_who_sends_nothing_has_nothing_to_audit() -> None:
    found = audited("lrf", {"trees": 2, "epsilon": 1.0}, 100)
    assert found.silent
    assert found.result.found.epsilon == 0.0


def test_too_few_repetitions_say_how_many_are_needed() -> None:
    with pytest.raises(DPForestError, match=r"30 repetitions are too few to refute epsilon 1 .* --repetitions \d+"):
        audited("one_shot", CASES["one_shot"], 30)


def test_a_field_that_follows_from_rows_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    grow = one_shot_client.grow_trees

    def leaking(task: Any, X: np.ndarray, y: np.ndarray) -> Any:
        grown = grow(task, X, y)
        return replace(grown, metrics={"rows": float(len(y))})

    monkeypatch.setattr(one_shot_client, "grow_trees", leaking)
    found = audited("one_shot", CASES["one_shot"] | {"rows": "noised"}, 400)
    assert found.violated
    assert any(culprit.startswith("rows, which does not follow") for culprit in found.culprits)


def test_a_fault_of_one_release_of_many_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = {"depth": 3, "trees": 1, "leaf_share": 0.5, **PURE}
    sound = audited("one_shot", deep, MANY)
    check_holds(sound)
    assert sound.has_power
    scale = DiscreteLaplaceCounts.scale.fget
    monkeypatch.setattr(DiscreteLaplaceCounts, "scale", property(lambda self: scale(self) / 2))  # type: ignore[misc]
    found = audited("one_shot", deep, MANY)
    assert found.violated
    assert found.culprits[0] == "class counts of the leaves"


def test_a_release_with_too_small_a_scale_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = DiscreteLaplaceCounts.scale.fget
    monkeypatch.setattr(DiscreteLaplaceCounts, "scale", property(lambda self: scale(self) / 4))  # type: ignore[misc]
    found = audited("one_shot", CASES["one_shot"] | {"leaf_share": 0.8})
    assert found.violated
    assert found.culprits[0] == "class counts of the leaves"


class Careless(ClientSide[Any]):
    """Noises what it counts, and also sends what no mechanism has let through, or as many counts as rows say."""

    fault = ""

    def train(self, task: ClientTask[Any], X: np.ndarray, y: np.ndarray, arrays: Any) -> Update:
        if self.fault == "public":
            return Update(Public({"rows": np.array([len(y)])}))
        counts = np.bincount(y, minlength=0 if self.fault == "shape" else 3)
        mechanism = DiscreteLaplaceCounts(1.0)
        noised = mechanism.release(counts, mechanism.entry("counts"), task.ledger, task.noise("counts"))
        return Update(Released(task.ledger, {"counts": noised}))

    def predict(self, task: ClientTask[Any], X: np.ndarray, arrays: Any) -> np.ndarray:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("fault", "said"),
    [("", ""), ("public", "rows, which does not follow from what was noised"), ("shape", "'counts' has another shape")],
)
def test_what_no_mechanism_has_let_through_is_found(fault: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Careless, "fault", fault)
    method = Method("careless", Settings, Collecting, Careless, (Protection(RECORD_UNIT, NO_SERVER, True),))
    own = replace(subject("one_shot", PURE), name="careless")
    monkeypatch.setattr("strategies.audit.subject.get_method", lambda name: method)
    found = audit_method(own, repetitions=100)
    assert found.claims
    assert found.violated == bool(fault)
    assert fault or found.world == "a record alone", "which shows as much as any other, with the fewest rows"
    assert any(said in culprit for culprit in found.culprits) == bool(fault)


def test_a_method_from_outside_is_audited_the_same_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = Path(__file__).parents[3] / "examples" / "own_method"
    info = tmp_path / "majority_votes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: majority_votes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dpforest.methods]\nmajority_votes = majority_votes:METHOD\n")
    monkeypatch.syspath_prepend(package)
    monkeypatch.syspath_prepend(tmp_path)
    registry.forget_packages()
    try:
        found = audited("majority_votes", PURE)
        check_holds(found)
        assert found.result.has_power
        assert found.releases[0].what == "class counts"
    finally:
        monkeypatch.undo()
        registry.forget_packages()


def test_with_a_schema_that_was_read_off_data_there_is_nothing_to_hold() -> None:
    own = subject("one_shot", CASES["one_shot"])
    assert own.claims
    leaky = replace(own, task=replace(own.task, schema=Schema.from_dict(SCHEMA | {"from_data": True}).with_rows(200)))
    assert not leaky.claims
    assert not leaky.blank_ledger().guarantee().holds
