"""The owner's schema: a server's may be a part of it and no more, and learns nothing of what is not offered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hand_made import SCHEMA, make, write_table
from one_node import ask, error, node, own, spent_nothing

from dpforest.errors import SchemaError
from dpforest.schema import Schema
from fl_app.engine.owner_schema import OwnerSchema
from strategies.flower_compat import identify_this_process
from strategies.messages import ARRAYS
from strategies.node.consent import Refused

identify_this_process()
OWNER: dict[str, Any] = {
    "target": "state",
    "classes": ["ill", "well", "unclear"],
    "features": [
        {"name": "age", "low": 0, "high": 120},
        {"name": "income", "low": 0, "high": 1e6, "use": False},
        {"name": "site", "categories": ["north", "south"]},
        {"name": "ward", "categories": ["a", "b"], "use": False},
    ],
}


def asked(**changes: Any) -> Schema:
    plain = {"target": "state", "classes": ["ill", "well"], "features": [{"name": "age", "low": 18, "high": 90}]}
    return Schema.from_dict(plain | changes)


@pytest.mark.parametrize(
    "part",
    [
        {},
        {"features": [{"name": "age", "low": 0, "high": 120, "missing": "branch"}]},
        {"features": [{"name": "site", "categories": ["north"], "other": True}]},
        {"classes": ["unclear", "ill", "well"]},
        {"rows": 10**6},
    ],
)
def test_a_part_is_allowed(part: dict[str, Any]) -> None:
    OwnerSchema.from_dict(OWNER).check(asked(**part))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"features": [{"name": "age", "low": -1, "high": 90}]}, "column 'age' is from -1 to 90, and .* from 0 to 120"),
        ({"features": [{"name": "site", "categories": ["north", "west"]}]}, "does not offer 'west' of column 'site'"),
        ({"features": [{"name": "site", "low": 0, "high": 1}]}, "offers column 'site' as one of categories"),
        ({"features": [{"name": "age", "categories": ["1", "2"]}]}, "offers column 'age' as a number"),
        ({"features": [{"name": "site=north", "low": 0, "high": 1}]}, "no column 'site=north'"),
        ({"features": [{"name": "state", "low": 0, "high": 1}], "target": "age"}, "no column 'state'"),
        ({"classes": ["ill", "dead"]}, "does not offer 'dead' of target 'state'"),
        ({"target": "ward", "classes": ["a", "b"]}, "offers the target 'state' .classes. and no other"),
        ({"classes": [], "target_range": [0, 1]}, "offers the target 'state' .classes. and no other"),
    ],
)
def test_more_is_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        OwnerSchema.from_dict(OWNER).check(asked(**more))


@pytest.mark.parametrize("name", ["income", "ward", "nowhere"])
@pytest.mark.parametrize("kind", [{"low": 0, "high": 1}, {"categories": ["a", "b"]}])
def test_what_is_not_offered_might_as_well_not_be_there(name: str, kind: dict[str, Any]) -> None:
    with pytest.raises(Refused) as caught:
        OwnerSchema.from_dict(OWNER).check(asked(features=[{"name": name, **kind}]))
    assert str(caught.value) == f"this node's owner offers no column {name!r}"


def test_a_range_of_a_target_is_held_too() -> None:
    numbers = {"target": "state", "target_range": [0, 10], "features": OWNER["features"]}
    OwnerSchema.from_dict(numbers).check(asked(classes=[], target_range=[2, 8]))
    with pytest.raises(Refused, match="target 'state' is from 2 to 11"):
        OwnerSchema.from_dict(numbers).check(asked(classes=[], target_range=[2, 11]))


def test_a_schema_is_yaml_or_a_part_of_toml(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(OWNER))
    toml = 'x = 1\n[schema]\ntarget = "state"\nclasses = ["ill", "well", "unclear"]\n'
    toml += 'features = [{name = "age", low = 0, high = 120}, {name = "site", categories = ["north", "south"]}]'
    (tmp_path / "own.toml").write_text(toml)
    for name in ("own.yaml", "own.toml"):
        assert OwnerSchema.read(tmp_path / name).usable == {"age", "site"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1", "cannot be read"),
        ("target: state", "features"),
        (
            "features: [{name: a, low: 0, high: 1, use: perhaps}]\nclasses: [x, y]",
            "use 'perhaps' must be true or false",
        ),
    ],
)
def test_a_file_that_is_no_schema_allows_nothing_and_is_not_shown(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(SchemaError, match=words):
        OwnerSchema.read(path)
    dataset = write_table(tmp_path)
    said = error(ask(node(**own(dataset, schema=str(path))), make({"name": "table", "schema": SCHEMA}), clients=1))
    assert said == "Refused: the owner's schema of this node cannot be read; its log says why"


def test_a_node_answers_within_its_owners_schema_and_spends_nothing_outside(tmp_path: Path) -> None:
    dataset = write_table(tmp_path)
    path, budget = tmp_path / "own.yaml", tmp_path / "spent.db"
    rules = own(dataset, schema=str(path), **{"budget-file": str(budget)})
    narrow = json.loads(json.dumps(SCHEMA))
    narrow["features"][0]["use"] = False
    path.write_text(yaml.safe_dump(narrow))
    experiment = make({"name": "table", "schema": SCHEMA})
    name = SCHEMA["features"][0]["name"]
    assert error(ask(node(**rules), experiment, clients=1)) == f"Refused: this node's owner offers no column {name!r}"
    with_recordings = make({"name": "table", "schema": SCHEMA, "recording_column": "client"})
    path.write_text(yaml.safe_dump(SCHEMA))
    assert "offers no column 'client'" in error(ask(node(**rules), with_recordings, clients=1))
    other = make({"name": "exercise"})
    assert "this node has a table (dataset=table), and not exercise" in error(ask(node(**rules), other, clients=1))
    assert spent_nothing(budget)
    assert ARRAYS in ask(node(**rules), experiment, clients=1)
