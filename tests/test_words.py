"""The words of the glossary: names of code and of settings use them, and no synonyms that were given up."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
DROPPED = {
    "beside", "besides", "deal", "deals", "dealt", "judge", "judged", "judges", "looks", "promise", "promises", "tell",
    "telling", "told", "trouble", "unheard",
}  # fmt: skip


def words(name: str) -> set[str]:
    """The words of a name in any of Python's forms."""
    return set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))


def names_of_code() -> Iterator[tuple[str, str]]:
    """Each name that code defines, of modules, classes, functions, parameters and fields, with its file."""
    for floor in ("dpforest", "strategies", "baselines", "fl_app"):
        for path in (ROOT / floor).rglob("*.py"):
            place = str(path.relative_to(ROOT))
            yield place, path.stem
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    yield place, node.name
                elif isinstance(node, ast.arg):
                    yield place, node.arg
                elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    yield place, node.target.id


def names_of_settings() -> Iterator[tuple[str, str]]:
    """Each key of the configuration, with its file."""
    for path in (ROOT / "conf").rglob("*.yaml"):
        waiting = [yaml.safe_load(path.read_text(encoding="utf-8"))]
        while waiting:
            if isinstance(found := waiting.pop(), dict):
                yield from ((str(path.relative_to(ROOT)), str(key)) for key in found)
                waiting.extend(found.values())


def test_names_use_the_words_of_the_glossary() -> None:
    named = [*names_of_code(), *names_of_settings()]
    assert len(named) > 5000
    assert [(place, name) for place, name in named if words(name) & DROPPED] == []


def test_the_glossary_has_no_word_twice() -> None:
    terms = re.findall(r"\*\*([^*]+)\*\*", (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8"))
    assert {"client", "record", "round", "exchange", "ledger", "guarantee"} <= set(terms)
    # A grid of thresholds, and Flower's.
    assert sorted(terms) == sorted([*set(terms), "grid"])
