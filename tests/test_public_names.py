"""Tests ask for what a user may ask for: what begins with an underscore may change with no test noticing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parent
# Of libraries: a public method of named tuples; what a parser offers nowhere else; a fault put into interpret-core.
OF_OTHERS = {
    "usage._replace",
    "command_parser(name)._actions",
    "from interpret.glassbox._ebm import _ebm",
}
# What takes a name in quotes.
_BY_NAME = ("getattr", "setattr", "delattr", "patch", "patch.object")


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _reached(tree: ast.AST) -> Iterator[str]:
    """Private names of others that a test reads, sets, imports or replaces."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and any(_is_private(each.name) for each in node.names):
            yield ast.unparse(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(_BY_NAME):
            words = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            yield from (word for word in words if _is_private(word.rpartition(".")[2]))


def test_tests_go_through_public_names() -> None:
    files = [*TESTS.rglob("*.py")]
    assert len(files) > 100
    reached = {(str(path.relative_to(TESTS)), name) for path in files
               for name in _reached(ast.parse(path.read_text(encoding="utf-8")))}  # fmt: skip
    assert sorted(each for each in reached if each[1] not in OF_OTHERS) == []
    assert {name for _, name in reached} >= OF_OTHERS, "an exception that nobody needs"


def test_private_names_are_seen_in_all_their_forms() -> None:
    for code in (
        "server._plan",
        "server._plan = 3",
        "from strategies.registry import _installed",
        "monkeypatch.setattr('fl_app.engine.simulation._START', 1)",
        "monkeypatch.setattr(registry, '_registered', {})",
        "getattr(server, '_plan')",
    ):
        assert list(_reached(ast.parse(code))), code
    assert not list(_reached(ast.parse("self._own, server.__class__, monkeypatch.setattr(registry, 'registered', {})")))
