"""Directives whose content is read from the package: what it says about itself, in one place."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from dpforest.forest import json_schema
from dpforest.settings import Option
from fl_app.commands.cli import COMMANDS, command_parser
from fl_app.commands.options import Section, option_sections
from fl_app.data.registry import SOURCES
from strategies.metrics import METRICS
from strategies.node.keys import KEYS

# What scikit-learn adds to every estimator, with references into its own pages.
_ADDED = ("set_fit_request", "set_predict_request", "set_score_request")


class Generated(SphinxDirective):
    """A directive that puts text of the language of its page in its place."""

    has_content = False
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The nodes of the text."""
        text = "\n".join(self.lines(*self.arguments))
        return self.parse_text_to_nodes(text, allow_section_headings=True)

    def lines(self, *arguments: str) -> Iterator[str]:
        """Lines of the text."""
        raise NotImplementedError


class Public(Generated):
    """All public names of a module, for a page in reStructuredText."""

    def lines(self, *arguments: str) -> Iterator[str]:
        """A table of the names, then each with its docstring."""
        (place,) = arguments
        module = import_module(place)
        names = [name for name in public_names(module) if not name.startswith("__")]
        yield from [".. currentmodule:: " + place, "", ".. autosummary::", "", *(f"   {name}" for name in names), ""]
        for name in names:
            found = getattr(module, name)
            kind = "class" if inspect.isclass(found) else "function" if callable(found) else "data"
            yield f".. auto{kind}:: {name}"
            if kind == "data":
                yield "   :no-value:"
            if kind == "class":
                yield f"   :exclude-members: {', '.join(_ADDED)}"
            yield ""


def public_names(module: Any) -> list[str]:
    """Those of ``__all__``; without it, all that the module defines itself under a public name."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = [name for name, found in vars(module).items() if getattr(found, "__module__", None) == module.__name__]
    return [name for name in own if not name.startswith("_")]


class Options(Generated):
    """Options of a group under a choice, such as ``strategy=boost``; of all that are in no group without one."""

    def lines(self, *arguments: str) -> Iterator[str]:
        """A table."""
        group = arguments[0].partition("=")[0] if arguments else ""
        sections = option_sections([arguments[0]] if "=" in "".join(arguments) else [])
        section = next(each for each in sections if each.group == group)
        yield from option_table(section)


class Strategies(Generated):
    """Options of every strategy."""

    def lines(self, *arguments: str) -> Iterator[str]:
        """A section each."""
        names = option_sections([])[0].choices
        for name in names:
            section = option_sections([f"strategy={name}"])[0]
            yield from [f"## `{name}`", "", *option_table(section)]


class DataSets(Generated):
    """Options of every data set."""

    def lines(self, *arguments: str) -> Iterator[str]:
        """A section each."""
        for name in SOURCES:
            section = next(each for each in option_sections([f"dataset={name}"]) if each.group == "dataset")
            yield from [f"## `{name}`", "", *option_table(section)]


def option_table(section: Section) -> Iterator[str]:
    """Name, type, default and meaning."""
    if not section.options:
        yield from ["No options.", ""]
        return
    rows = [
        (f"`{section.prefix}{option.name}`", option.type, f"`{value}`", meaning(option))
        for option, value in section.options
    ]
    yield from table(("option", "type", "default", "meaning"), rows)


def meaning(option: Option) -> str:
    """What an option means, and which values there are."""
    return f"{markdown(option.meaning)} Allowed: {option.allowed}."


def markdown(text: str) -> str:
    """Text of a docstring, whose code stands between two backticks."""
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A table in Markdown."""
    head = list(head)
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') or ' ' for cell in row)} |"
    yield ""


class Commands(Generated):
    """The help of every command."""

    def lines(self, *arguments: str) -> Iterator[str]:
        """A section each."""
        for name in COMMANDS:
            yield from [f"## `dpforest {name}`", "", "```text", command_parser(name).format_help().rstrip(), "```", ""]


class NodeKeys(Generated):
    """Keys of the node configuration."""

    def lines(self, *arguments: str) -> Iterator[str]:
        """A table."""
        yield from table(("key", "meaning", "when not set"), ((f"`{key}`", *said) for key, said in KEYS.items()))


class Metrics(Generated):
    """Metrics that evaluation computes."""

    def lines(self, *arguments: str) -> Iterator[str]:
        """A table."""
        rows = (
            (f"`{each.name}`", each.label, each.kind.value, "more" if each.more_is_better else "less")
            for each in METRICS
        )
        yield from table(("key", "name", "of", "better is"), rows)


class ForestFile(Generated):
    """Keys of ``forest.json``, as its JSON Schema says them."""

    def lines(self, *arguments: str) -> Iterator[str]:
        """A table."""
        yield from table(("key", "values", "meaning"), _keys(json_schema(), ""))


def _keys(part: Mapping[str, Any], place: str) -> Iterator[tuple[str, str, str]]:
    for name, inner in part.get("properties", {}).items():
        path = f"{place}{name}"
        yield f"`{path}`", _values(inner), inner.get("description", "")
        yield from _keys(inner, f"{path}.")
        items = inner.get("items", {})
        for each in items.get("oneOf", [items]):
            yield from _keys(each, f"{path}[].")


def _values(part: Mapping[str, Any]) -> str:
    for key in ("const", "enum"):
        if key in part:
            return f"`{json.dumps(part[key])}`"
    kind = part.get("type", "")
    return " or ".join(kind) if isinstance(kind, list) else kind


DIRECTIVES: Mapping[str, type[Generated]] = {
    "public": Public,
    "options": Options,
    "strategies": Strategies,
    "data-sets": DataSets,
    "commands": Commands,
    "node-keys": NodeKeys,
    "metrics": Metrics,
    "forest-file": ForestFile,
}


def setup(app: Sphinx) -> dict[str, bool]:
    """Give the directives to Sphinx."""
    for name, directive in DIRECTIVES.items():
        app.add_directive(name, directive)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
