"""Whatever numbers a server sends, two tables that differ in one record are answered alike by a real node.

Each case draws a schema, settings and arrays as somebody would who wants to leave the range in which the proofs hold,
and a table with and without one record more. The node's noise is replaced by none, and its choices by fixed ones, so
that what the mechanisms are given can be compared: no sum moves by more than the sensitivity that is paid for.
``DPFOREST_FUZZ_CASES`` says how many cases of each method are tried.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict

from dpforest.mechanisms import DiscreteGaussianSums, DiscreteLaplaceCounts, GaussianSums, Paid, Selection
from dpforest.noise import Noise
from fl_app.client_app import app
from fl_app.engine.in_process import InProcessGrid
from fl_app.engine.node_state import SECRET
from strategies.messages import ARRAYS, CONFIG
from strategies.registry import get_method

CASES = int(os.environ.get("DPFOREST_FUZZ_CASES", "25"))
HUGE = [1e30, 1e31, 3e38, 1e300, 1.7e308]
TINY = [5e-324, 1e-310, 1e-300, 1e-45, 1e-38, 1e-31, 1e-30, 1e-12]


class Open(Noise):
    """No noise at all, and choices that no score decides."""

    def discrete_laplace(self, scale: float, shape: Any) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)

    def discrete_laplace_share(self, scale: float, shares: int, shape: Any) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)

    def discrete_gaussian(self, sigma: float, shape: Any) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)

    def permute_and_flip(self, scores: np.ndarray, scale: float) -> np.ndarray:
        return np.arange(len(scores)) * 7 % scores.shape[1]

    exponential_mechanism = permute_and_flip

    def bernoulli(self, probability: float, size: int) -> np.ndarray:
        return self.generator().random(size) < probability  # a row more at the end leaves the others' draws

    def sample(self, population: int, size: int) -> np.ndarray:
        return self.generator().permutation(population)[:size]

    def generator(self) -> np.random.Generator:
        return np.random.default_rng(0)


@dataclass
class Given:
    """What a mechanism was given, and by how much one record may move it."""

    mechanism: Any
    values: np.ndarray
    times: int

    def check_neighbour(self, more: Given) -> None:
        assert self.mechanism == more.mechanism
        assert self.times == more.times
        assert self.values.shape == more.values.shape
        for values in (self.values, more.values):
            assert np.isfinite(values).all()
            assert np.abs(values.astype(np.float64)).max(initial=0.0) < 2.0**51, "far from what an integer holds"
        moved = (more.values - self.values).astype(np.float64)
        mechanism, times = self.mechanism, self.times
        if isinstance(mechanism, Selection):
            assert moved.min(initial=0) >= 0
            assert moved.max(initial=0) <= mechanism.sensitivity
            groups = moved.reshape(len(moved), -1).any(axis=1).sum()
            assert groups <= times, "a record is in one group"
        elif isinstance(mechanism, DiscreteLaplaceCounts):
            assert np.abs(moved).sum() <= mechanism.sensitivity * times
        elif isinstance(mechanism, DiscreteGaussianSums):
            assert (moved**2).sum() <= mechanism.squared_sensitivity * times
        else:
            assert isinstance(mechanism, GaussianSums)
            assert np.linalg.norm(moved) <= mechanism.sensitivity * (1 + 1e-5)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Given]]:
    """What mechanisms are given, in order; noise is off."""
    seen: list[Given] = []

    draw = Paid.draw

    def watched(self: Paid, values: np.ndarray, noise: Any, times: int = 1) -> np.ndarray:
        seen.append(Given(self.mechanism, np.array(values), times))
        # What comes next may follow from noised counts: given the same ones, neighbours must go on alike.
        same = np.ones_like(values) if isinstance(self.mechanism, DiscreteLaplaceCounts) else values
        return draw(self, same, noise, times)

    monkeypatch.setattr(Paid, "draw", watched)
    monkeypatch.setattr("strategies.node.answer.Secure", Open)
    InProcessGrid(app, 1)  # gives this process the identity that Flower's messages need
    return seen  # type: ignore[return-value]


@dataclass
class Case:
    """A hostile server's message to a node, and the node's table with and without a record."""

    rng: np.random.Generator
    strategy: dict[str, Any]
    schema: dict[str, Any]
    messages: list[tuple[dict[str, Any], dict[str, np.ndarray]]] = field(default_factory=lambda: [({}, {})])
    delta: float = 0.0

    @property
    def names(self) -> list[str]:
        return [feature["name"] for feature in self.schema["features"]]

    @property
    def outputs(self) -> int:
        return len(self.schema.get("classes", [0]))

    @property
    def n_features(self) -> int:
        return sum(len(feature.get("categories", [0])) for feature in self.schema["features"])


def pick(rng: np.random.Generator, options: list[Any]) -> Any:
    return options[int(rng.integers(len(options)))]


def hostile_range(rng: np.random.Generator) -> tuple[float, float]:
    if rng.random() < 0.5:
        return pick(rng, [(0.0, 120.0), (-1.0, 1.0), (0.0, 1.0), (0.1, 0.7), (-3e4, 3e4)])
    kind = int(rng.integers(5))
    if kind == 0:
        return 0.0, float(pick(rng, TINY))
    if kind == 1:
        size = float(pick(rng, HUGE))
        return pick(rng, [-size, 0.0]), size
    if kind == 2:
        low = float(pick(rng, [1.0, 100.0, 1e6, 1e30, 1e-30]))
        return low, low * (1 + 2.0 ** -float(rng.integers(1, 50)))
    if kind == 3:
        return pick(rng, [(math.nan, 1.0), (0.0, math.inf), (1.0, 1.0), (2.0, 1.0), (-math.inf, math.inf)])
    low, high = sorted(rng.normal(size=2) * 2.0 ** rng.uniform(-130, 130, 2))
    return float(low), float(high)


def hostile_feature(rng: np.random.Generator, name: str) -> dict[str, Any]:
    low, high = hostile_range(rng)
    feature: dict[str, Any] = {"name": name, "low": low, "high": high}
    if rng.random() < 0.5:
        middle = low + (high - low) / 2
        centre = pick(rng, [0.0, low, high, middle, 1e9, 1e30, -1e30, 1e300, 5e-324, math.nan, 3e-39])
        feature |= {"scale": "signed_sqrt", "centre": centre}
    return feature


def hostile_schema(rng: np.random.Generator, classification: bool, features: int | None = None) -> dict[str, Any]:
    number = features or int(rng.integers(1, 4))
    schema: dict[str, Any] = {"target": "y", "features": [hostile_feature(rng, f"x{i}") for i in range(number)]}
    if features is None:
        many = [f"somebody {i}" for i in range(300)] if rng.random() < 0.02 else ["nobody at all"]
        schema["features"].append({"name": "name", "categories": ["alice", *many]})
    if classification:
        schema["classes"] = ["a", "b", "c"][: int(rng.integers(2, 4)) if features is None else 2]
    else:
        schema["target_range"] = list(hostile_range(rng))
    schema["rows"] = pick(rng, [1, 100, 100, 10_000, 10**9, 10**12])
    return schema


def hostile_table(case: Case) -> tuple[str, str]:
    """A CSV without and with one record more; only rows of alice fit the schema."""
    rng, schema = case.rng, case.schema
    edges = [value for feature in schema["features"] for value in (feature.get("low"), feature.get("high"))]
    numbers = [0.0, 1.0, -1.0, 60.0, 0.7, 1e308, -1e308, 5e-324, 1e-310, 1e30]
    numbers += [value for value in edges if value is not None and math.isfinite(value)]
    targets = schema.get("classes") or [0.0, -1.0, 1.0, 1e308, -1e308, *filter(math.isfinite, schema["target_range"])]

    def row(name: str) -> str:
        cells = [repr(pick(rng, numbers)) for _ in case.names if _ != "name"]
        named = [name] if "name" in case.names else []
        return ",".join([*cells, *named, str(pick(rng, list(targets)))])

    header = ",".join([*case.names, "y"])
    fitting = int(pick(rng, [0, 0, 1, 2, 7, 40]))
    # Where there is no category to leave rows out by, a table is just small.
    lines = [
        header,
        *(row("alice") for _ in range(fitting)),
        *(row("mallory") for _ in range(3) if "name" in case.names),
    ]
    more = row(pick(rng, ["alice", "alice", "alice", "mallory"]))
    return "\n".join(lines) + "\n", "\n".join([*lines, more]) + "\n"


def growth(rng: np.random.Generator) -> dict[str, Any]:
    """Settings of trees on a client."""
    return {
        "selection": pick(rng, ["permute_and_flip", "exponential"]),
        "bins": pick(rng, [2, 3, 32, 255, 256]),
        "depth": pick(rng, [1, 2, 3, "auto"]),
        "depth_growth": pick(rng, [1.0, 1e-3, 10.0, 1e-300]),
        "leaf_share": pick(rng, [0.4, 0.999, 1e-9]),
        "trees": pick(rng, [1, 2, 3]),
        "tree_rows": pick(rng, ["split_budget", "disjoint"]),
    }


def one_shot(rng: np.random.Generator, name: str = "one_shot") -> Case:
    strategy = {"name": name, **growth(rng), "rows": pick(rng, ["schema", "noised", 1, 10**9])}
    strategy["selection"] = pick(rng, ["permute_and_flip", "exponential", "noisy_counts"])
    if strategy["selection"] == "noisy_counts":
        low, high = hostile_range(rng)
        bounds = pick(rng, [{}, {"x0": [low, high]}])
        strategy |= {"bins": 3, "depth": 2, "candidates": pick(rng, ["grid", "random"]), "candidate_bounds": bounds}
    return Case(rng, strategy, hostile_schema(rng, classification=True))


def standalone(rng: np.random.Generator) -> Case:
    return one_shot(rng, "standalone")


def ldp_bagging(rng: np.random.Generator) -> Case:
    strategy = {
        key: value for key, value in growth(rng).items() if key in ("bins", "depth", "leaf_share", "depth_growth")
    }
    schema = hostile_schema(rng, classification=True)
    schema["classes"] = ["a", "b"]
    return Case(rng, {"name": "ldp_bagging", **strategy}, schema)


def fext(rng: np.random.Generator) -> Case:
    """Trees of a client, and the scores of trees that the server says are others'."""
    strategy = {"name": "fext", **growth(rng), "filter_by": "clients"}
    case = Case(rng, strategy, hostile_schema(rng, classification=rng.random() < 0.4))
    if "target_range" in case.schema and rng.random() < 0.3:
        strategy["target_clip"] = pick(rng, [list(hostile_range(rng)), case.schema["target_range"]])
    if rng.random() < 0.5:
        case.messages = [({"round": 2}, hostile_trees(case))]
    return case


def hostile_trees(case: Case) -> dict[str, np.ndarray]:
    """Stumps whose thresholds and leaves are as extreme as a message can make them."""
    rng, trees = case.rng, int(case.rng.integers(1, 4))
    low, high = case.schema.get("target_range", (0.0, 1.0))
    ends = [low, high, 0.0]
    if "target_range" in case.schema:
        value = np.array([[pick(rng, ends)] for _ in range(2 * trees)])
    else:
        value = np.eye(case.outputs)[rng.integers(case.outputs, size=2 * trees)]
    with np.errstate(all="ignore"):
        value = value.astype(pick(rng, [np.float32, np.float64]))
    thresholds = np.array([pick(rng, [0.0, 0.5, 1e308, -1e308, 5e-324, math.inf]) for _ in range(trees)])
    return {
        "offsets": np.arange(trees + 1) * 3,
        "feature": np.tile(np.array([0, -1, -1], dtype=np.int8), trees),
        "threshold": thresholds,
        "left": np.arange(trees, dtype=np.int32) * 3 + 1,
        "value": value,
        "weight": np.full(2 * trees, pick(rng, [0.0, 1.0, 1e300])),
        "base": np.zeros(case.outputs),
    }


def boost(rng: np.random.Generator) -> Case:
    pure = bool(rng.random() < 0.5)
    bins = pick(rng, [2, 16, 255])
    cuts, trees, depth = min(bins - 1, 3), 2, pick(rng, [1, 3])
    strategy = {
        "name": "boost", "pure": pure, "bins": bins, "cuts": cuts, "trees_per_round": trees,
        "clip": pick(rng, ["auto", "auto", 1.0, 1e-3, 1e-320, 999.0]), "count_share": pick(rng, [0.2, 1e-300, 9.9]),
        "marginal_share": pick(rng, [0.05, 1e-12, 0.5]), "linear_share": 0 if pure else pick(rng, [0, 0.4, 1e-12]),
    }  # fmt: skip
    case = Case(rng, strategy, hostile_schema(rng, rng.random() < 0.4), delta=0.0 if pure else 1e-9)
    case.schema["rows"] = 100
    if "target_range" in case.schema and rng.random() < 0.4:
        case.schema["target_range"] = pick(rng, [[0.0, 1e-310], [0.0, 5e-324], [-1e-309, 0.0], [0.0, 1e308]])
    histograms: tuple[dict[str, Any], dict[str, np.ndarray]] = ({"step": "histograms"}, {})
    start = {
        "start.cuts": np.sort(rng.normal(size=(case.n_features, cuts)) * pick(rng, [1.0, 1e30, 1e300, 1e-310]), axis=1),
        "start.base": np.full(case.outputs, pick(rng, [0.0, 0.0, 1.0, -50.0, 1e30, -1e308])),
        "start.clip": np.array([pick(rng, [1.0, 0.3, 1e-6, 1e-320, 1e-160, 1e300])]),
        "past.first": np.array([0]),
        "feature": rng.integers(case.n_features, size=(trees, 2**depth - 1)).astype(np.uint8),
        "split": rng.integers(cuts, size=(trees, 2**depth - 1)).astype(np.uint8),
        "groups": np.zeros((0, 0), np.uint8),
    }
    units = {
        "start.centre": rng.normal(size=case.n_features) * pick(rng, [1.0, 1e30, 1e36, 1e300, 1e-310]),
        "start.scale": np.full(case.n_features, pick(rng, [1.0, 1e-35, 1e-310, 1e36, -1.0])),
    }
    start |= units if strategy["linear_share"] else {}
    if rng.random() < 0.5:
        start |= {
            "past.feature": start["feature"][None],
            "past.split": start["split"][None],
            "past.groups": start["groups"][None],
            "past.weights": np.full((1, trees, 2**depth, case.outputs), pick(rng, [2.0, -2.0, 3.0, 1e-30, 1e4])),
            "past.coefficients": np.full((1, case.n_features + 1, case.outputs), pick(rng, [2.0, -2.0, 3.0, 1e-30])),
        }
    moments, trees_too = ({"step": "moments"}, units), ({"step": "trees", "round": 2}, start)
    case.messages = pick(rng, [[histograms], [moments], [trees_too], [histograms, trees_too], [moments, trees_too]])
    return case


def grown_together(rng: np.random.Generator, name: str) -> Case:
    """PP-FGRF and PP-FPRF: choices of one level, then the counts of its nodes."""
    strategy: dict[str, Any] = {
        "name": name, "trees": 2, "depth": 2, "validation_share": 0, "features": pick(rng, ["sqrt", 1, 3]),
        "vote_share": pick(rng, [0.3, 1e-9, 0.8]), "slices": 1,
    }  # fmt: skip
    case = Case(rng, strategy, hostile_schema(rng, classification=True))
    width = strategy["features"] if strategy["features"] != "sqrt" else max(1, round(math.sqrt(case.n_features)))
    values = [
        [pick(rng, [0.0, 0.5, 1e308, -1e308, math.nan, math.inf]) for _ in range(min(width, case.n_features))]
    ] * 2
    asked = {"trees": np.array([[0, 1], [-1, -1], [1, 1]])}
    seed = pick(rng, [0, 2**62, 2**63 - 1])
    vote = ({"phase": "vote", "seed": seed}, asked | {"values": np.array(values)})
    split = {"split_feature": np.array([0, -1]), "split_value": np.array([pick(rng, [0.5, 1e300, -1e300]), 0.0])}
    count = ({"phase": "count", "seed": seed, "round": 2}, {"trees": np.array([[0, 1], [-1, -1], [2, 0]])} | split)
    case.messages = [vote, count]
    if name == "pp_fprf":
        strategy |= {"window": pick(rng, [2.0, 1e-300, 5e-324, 9e5]), "buckets": pick(rng, [2, 16, 10_000]), "k": 1}
        case.messages = pick(rng, [case.messages, [({"phase": "hash", "seed": seed}, {})]])
    return case


def pp_fgrf(rng: np.random.Generator) -> Case:
    return grown_together(rng, "pp_fgrf")


def pp_fprf(rng: np.random.Generator) -> Case:
    return grown_together(rng, "pp_fprf")


def lrf(rng: np.random.Generator) -> Case:
    strategy = {"name": "lrf", "trees": 2, "depth": pick(rng, [1, 5, 30]), "features": pick(rng, ["sqrt", 1, 9])}
    return Case(rng, strategy, hostile_schema(rng, classification=True))


def dp_sgd(rng: np.random.Generator) -> Case:
    """The sums for a standard."""
    strategy = {"name": "dp_sgd", "standardize": "private", "standardize_share": pick(rng, [0.4, 1e-6, 0.999])}
    case = Case(rng, strategy, hostile_schema(rng, rng.random() < 0.5), delta=1e-9)
    case.messages = [({"phase": "standardize"}, {})]
    return case


def dp_sgd_steps(rng: np.random.Generator) -> Case:
    """Gradients; one shape of network, since TensorFlow compiles each."""
    strategy = {
        "name": "dp_sgd", "hidden": [], "standardize": "private", "batch": 64, "steps": 1,
        "clip": pick(rng, [1.0, 1.0, 1e-3, 1e-6, 1e6, 1e-320, 1e-40, 1e308]),
        "learning_rate": pick(rng, [0.1, 0.1, 1e30, 1e308]),
    }  # fmt: skip
    case = Case(rng, strategy, hostile_schema(rng, classification=True, features=2), delta=1e-9)
    case.schema["rows"] = 64
    extreme = pick(rng, [0.0, 1.0, 1.0, 1e30, 3e37, 1e39])
    case.messages = [
        (
            {"phase": "train", "noise-multiplier": 1e4},
            {
                "output/kernel": rng.normal(size=(2, 2)) * extreme,
                "output/bias": rng.normal(size=2) * extreme,
                "inputs/mean": np.array([0.0, pick(rng, [0.0, 1e308, -1e300])]),
                "inputs/scale": np.array([1.0, pick(rng, [0.05, 0.05, 0.05, 1e-9, 1e308])]),
            },
        )
    ]
    return case


def standalone_mlp(rng: np.random.Generator) -> Case:
    optimizer, rate = pick(rng, ["sgd", "adam"]), pick(rng, [0.1, 1e30, 1e38, 1e300])
    strategy = {"name": "standalone_mlp", "hidden": [], "epochs": 3, "optimizer": optimizer, "learning_rate": rate}
    return Case(rng, strategy, hostile_schema(rng, classification=False, features=2))


MAKERS = (
    one_shot, standalone, ldp_bagging, fext, boost, pp_fgrf, pp_fprf, lrf, dp_sgd, dp_sgd_steps, standalone_mlp,
)  # fmt: skip
METHODS: dict[str, Callable[[np.random.Generator], Case]] = {make.__name__: make for make in MAKERS}


def test_every_method_that_a_node_takes_part_in_unasked_is_here() -> None:
    files = Path(__file__).parents[2].glob("conf/strategy/*.yaml")
    groups = [yaml.safe_load(file.read_text()) for file in files]
    methods = [get_method(group["name"]) for group in (g.get("strategy", g) for g in groups) if "name" in group]
    protecting = {method.name for method in methods if method.protection(method.settings()).by_client_alone}
    assert protecting <= set(METHODS)


def answers(case: Case, path: Path, table: str) -> list[RecordDict]:
    """What a real node with that table answers to the messages of one run."""
    path.write_text(table)
    secret = path.with_name(SECRET)
    if not secret.exists():  # the same test rows in every session
        secret.write_bytes(bytes(32))
        secret.chmod(0o600)
    node_config = {"partition-id": 0, "data-path": str(path), "max-epsilon": 100.0, "max-delta": 1e-5}
    node_config["state-folder"] = str(path.parent)
    context = Context(run_id=1, node_id=1000, node_config=node_config, state=RecordDict(), run_config={})
    privacy = {"epsilon": 2.0, "delta": case.delta}
    dataset = {"name": "table", "schema": case.schema}
    counts = get_method(case.strategy["name"]).uses_rounds  # otherwise what messages number are exchanges of one round
    rounds = max(message[0].get("round", 1) for message in case.messages) if counts else 1
    text = json.dumps({"strategy": case.strategy, "dataset": dataset, "privacy": privacy, "rounds": rounds})
    replies = []
    for config, arrays in case.messages:
        settings = {"experiment": text, "run": "run 1", "clients": 1, "round": 1} | config
        content = RecordDict({CONFIG: ConfigRecord(settings)})
        content[ARRAYS] = ArrayRecord({name: Array(np.ascontiguousarray(array)) for name, array in arrays.items()})
        replies.append(app(Message(content, 1000, MessageType.TRAIN), context).content)
    return replies


def form(reply: RecordDict) -> dict[str, Any]:
    """What of an answer must not depend on one record: all but numbers that a mechanism has let through."""
    config = reply[CONFIG]
    if "error" in config:
        return {"error": str(config["error"]), "refused": config["refused"]}
    arrays = {name: array.numpy() for name, array in reply[ARRAYS].items()}
    for array in arrays.values():
        assert np.isfinite(array.astype(np.float64)).all()
    return {"ledger": str(config["ledger"]), "arrays": {name: array.ndim for name, array in arrays.items()}}


def check_neighbours(case: Case, path: Path, tables: tuple[str, str], given: list[Given]) -> bool:
    """Whether a node with one of two neighbouring tables answers; the other must do so alike."""
    replies, seen = [], []
    for table in tables:
        given.clear()
        replies.append([form(reply) for reply in answers(case, path, table)])
        seen.append(list(given))
    assert replies[0] == replies[1]
    assert not any("whether training fails" in str(reply) for reply in replies[0])
    assert len(seen[0]) == len(seen[1])
    for one, other in zip(*seen, strict=True):
        one.check_neighbour(other)
    return any("ledger" in reply for reply in replies[0])


AGE = {"name": "age", "low": 0, "high": 120}
ALICE = {"name": "name", "categories": ["alice", "nobody at all"]}


@pytest.mark.parametrize(
    ("strategy", "delta", "age", "target", "message"),
    [
        (
            {"name": "dp_sgd", "standardize": "private"}, 1e-9, {"scale": "signed_sqrt", "centre": 1e30}, [0, 1],
            ({"phase": "standardize"}, {}),
        ),
        (
            {"name": "fext", "filter_by": "clients", "depth": 1, "trees": 1}, 0.0, {}, [-1.7e308, 1.7e308],
            (
                {"round": 2},
                {
                    "offsets": np.array([0, 1]), "feature": np.array([-1], np.int8), "threshold": np.empty(0),
                    "left": np.empty(0, np.int32), "value": np.array([[1.7e308]]), "weight": np.ones(1),
                    "base": np.zeros(1),
                },
            ),
        ),
        ({"name": "boost", "pure": True}, 0.0, {}, [0, 1e-310], ({"step": "histograms"}, {})),
    ],
    ids=["centre far away", "range of the target overflows", "range of the target is next to nothing"],
)  # fmt: skip
@pytest.mark.parametrize("target_of_alice", [0.0, 1.0])
@pytest.mark.parametrize("others", [0, 1, 7])
def test_a_record_that_a_category_singles_out(
    strategy: dict[str, Any], delta: float, age: dict[str, Any], target: list[float], message: Any,
    target_of_alice: float, others: int, given: list[Given], tmp_path: Path,
) -> None:  # fmt: skip
    """Rows that do not fit the schema are left out, so a list of categories is a filter that the server chooses."""
    schema = {"target": "y", "target_range": target, "features": [AGE | age, ALICE], "rows": 100}
    case = Case(np.random.default_rng(0), strategy, schema, [message], delta)
    table = "age,name,y\n" + "".join(f"{20 + i},nobody at all,{i % 2}\n" for i in range(others)) + "50,mallory,1\n" * 3
    for number in range(5):  # a fifth of all records are for tests
        tables = table, f"{table}{40 + number},alice,{target_of_alice}\n"
        assert not check_neighbours(case, tmp_path / "node.csv", tables, given), "refused at the door"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_neighbours_are_answered_alike(method: str, given: list[Given], tmp_path: Path) -> None:
    if method in ("dp_sgd_steps", "standalone_mlp"):
        pytest.importorskip("tensorflow")
    answered = 0
    for number in range(CASES):
        case = METHODS[method](np.random.default_rng([number, *method.encode()]))
        where = f"case {number}: {case.strategy}, {case.schema}, {case.messages}"
        try:
            answered += check_neighbours(case, tmp_path / "node.csv", hostile_table(case), given)
        except AssertionError as error:
            raise AssertionError(where) from error
    assert answered >= CASES // 20, "a fuzz whose cases are all refused at the door says nothing"
