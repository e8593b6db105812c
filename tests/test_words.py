"""The words of the glossary: names of code and of settings use them, and no synonyms that were given up."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
# In names and in prose.
DROPPED = {
    "beside", "besides", "deal", "deals", "dealt", "judge", "judged", "judges", "promise", "promises",
    "telling", "told", "trouble", "unheard",
}  # fmt: skip
# In names; sentences need them now and then.
DROPPED_IN_NAMES = DROPPED | {"drawn", "looks", "shown", "tell", "together"}


def words(name: str) -> set[str]:
    """The words of a name in any of Python's forms."""
    return set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))


def names_of_code() -> Iterator[tuple[str, str]]:
    """Each name that code defines, of modules, classes, functions, parameters, fields and variables, with its file."""
    for floor in ("dpforest", "strategies", "baselines", "fl_app"):
        for path in (ROOT / floor).rglob("*.py"):
            place = str(path.relative_to(ROOT))
            yield place, path.stem
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    yield place, node.name
                elif isinstance(node, ast.arg):
                    yield place, node.arg
                elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                    yield place, node.id if isinstance(node, ast.Name) else node.attr
                elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                    yield place, node.value


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
    assert [(place, name) for place, name in named if words(name) & DROPPED_IN_NAMES] == []


def test_prose_uses_the_words_of_the_glossary() -> None:
    """Comments, messages, yaml files, pages and templates; and tests, whose names are sentences."""
    known = {".py", ".yaml", ".j2", ".toml", ".md", ".html"}
    folders = ("dpforest", "strategies", "baselines", "fl_app", "conf", "docs", "examples", "tests")
    files = [ROOT / "README.md", ROOT / "ARCHITECTURE.md"]
    written = (path for folder in folders for path in (ROOT / folder).rglob("*") if "_build" not in path.parts)
    files += [path for path in written if path.suffix in known]
    assert len(files) > 500
    found = []
    for path in set(files) - {Path(__file__)}:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if set(re.findall(r"[a-z]+", line.lower())) & DROPPED:
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not found


def test_the_glossary_has_no_word_twice() -> None:
    terms = re.findall(r"\*\*([^*]+)\*\*", (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8"))
    assert {"client", "record", "round", "exchange", "ledger", "guarantee"} <= set(terms)
    # A grid of thresholds, and Flower's.
    assert sorted(terms) == sorted([*set(terms), "grid"])
