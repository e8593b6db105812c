"""Docstrings of public names: parameters are described, the form is numpydoc's, and examples run."""

from __future__ import annotations

import doctest
import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    "dpforest", "dpforest.attacks", "dpforest.audit", "dpforest.boosting", "dpforest.explain", "dpforest.forest",
    "dpforest.growers", "dpforest.ledger", "dpforest.mechanisms", "dpforest.noise", "strategies", "baselines",
)  # fmt: skip
FLOORS = ("dpforest", "strategies", "baselines")
# What numpydoc must not find: no docstring, sections that are unknown, repeated or out of order, parameters that do not
# exist, no summary, or one that is no sentence.
REFUSED = {"GL01", "GL02", "GL05", "GL06", "GL07", "GL08", "PR02", "PR05", "PR08", "SS01", "SS03", "SS04"}


def public(place: str) -> dict[str, Any]:
    """Classes and functions of a package that others may use."""
    module = importlib.import_module(place)
    found = {f"{place}.{name}": getattr(module, name) for name in module.__all__}
    return {name: each for name, each in found.items() if callable(each)}


def described(found: Any) -> set[str]:
    """Parameters that a docstring describes, or that of a base."""
    names: set[str] = set()
    for each in inspect.getmro(found) if inspect.isclass(found) else [found]:
        if each.__module__.split(".")[0] in (*FLOORS, "flwr", "sklearn"):
            parsed = NumpyDocString(inspect.cleandoc(each.__doc__ or ""))
            entries = [*parsed["Parameters"], *parsed["Attributes"]]
            names.update(name.strip().lstrip("*") for entry in entries for name in entry.name.split(","))
    return names


@pytest.mark.parametrize("place", PACKAGES)
def test_every_parameter_of_a_public_name_is_described(place: str) -> None:
    missing = {}
    for name, found in public(place).items():
        parameters = set(inspect.signature(found).parameters) - {"self", "args", "kwargs"}
        if rest := parameters - described(found):
            missing[name] = sorted(rest)
    assert missing == {}


@pytest.mark.parametrize("place", PACKAGES)
def test_docstrings_have_the_form_of_numpydoc(place: str) -> None:
    faults = {name: [fault for fault in validate(name)["errors"] if fault[0] in REFUSED] for name in public(place)}
    assert {name: found for name, found in faults.items() if found} == {}


def modules_with_examples() -> list[str]:
    """Modules of the library and of the methods whose docstrings have examples."""
    files = (path for floor in FLOORS for path in sorted((ROOT / floor).rglob("*.py")))
    with_examples = (path for path in files if ">>> " in path.read_text(encoding="utf-8"))
    return [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in with_examples]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_run(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted
    assert not found.failed


@pytest.mark.parametrize("place", ["dpforest", "strategies", "baselines"])
def test_what_people_begin_with_has_an_example(place: str) -> None:
    bare = [name for name, found in public(place).items() if ">>> " not in inspect.getdoc(found)]
    assert [name for name in bare if not name.endswith("Result") and "answer_" not in name] == []
