"""What sources published, each in a file of this folder: figures and tables show it with the runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

_FOLDER = Path(__file__).parent


def published(name: str) -> dict[str, Any]:
    """Figures that a source published, with where they stand."""
    text = (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    plain: dict[str, Any] = yaml.safe_load(text)
    return plain


def published_on(dataset: str, split: str) -> list[dict[str, Any]]:
    """What all sources say about a data set and split.

    ``mind``, where it stands, is what keeps a source's numbers from being the same thing as ours, in a few words.
    """
    names = sorted(file.stem for file in _FOLDER.glob("*.yaml"))
    return [source for source in map(published, names) if (source["dataset"], source["split"]) == (dataset, split)]


def source_of(values: Mapping[str, Any]) -> str:
    """The name of a source, with what one must mind about its numbers."""
    return f"{values['source']} ({values['mind']})" if "mind" in values else str(values["source"])


def citation(values: Mapping[str, Any]) -> str:
    """A source with the title and, where it has one, the address of what it is from."""
    address = f"https://doi.org/{values['doi']}" if "doi" in values else values.get("link", "")
    return ", ".join(filter(None, [f"{values['source']}: {values['title']}", address]))


def citations(dataset: str, split: str) -> list[str]:
    """`citation` of all sources on a data set and split."""
    return [citation(values) for values in published_on(dataset, split)]


def published_for(dataset: str, split: str) -> list[list[str]]:
    """`published_on` as lines of a table: source, method, epsilon, metric and value."""
    lines = []
    for values in published_on(dataset, split):
        source = source_of(values)
        for name, curve in values.get("accuracy", {}).items():
            label = f"depth {name}" if isinstance(name, int) else str(name)
            lines += [[source, label, f"{at:g}", "accuracy", f"{value:g}"] for at, value in curve.items()]
        for name, value in values.get("without_privacy", {}).items():
            lines.append([source, str(name), "no privacy", "accuracy", f"{value:g}"])
        for name, curve in values.get("mse", {}).items():
            lines += [[source, str(name), f"round {at}", "MSE", f"{value:g}"] for at, value in curve.items()]
        for name, value in values.get("megabytes", {}).items():
            lines.append([source, str(name), "", "MB sent", f"{value:g}"])
    return lines
