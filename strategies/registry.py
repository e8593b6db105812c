"""Finding a method by its name.

A server can only name a method that is installed on the client: names are looked up here, never imported.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any

from dpforest.errors import DPForestError
from strategies.look import Look, palette_look
from strategies.method import Method

_FLOORS = ("strategies", "baselines")
_registered: dict[str, Method] = {}


def register(method: Method) -> None:
    """Make a method known in this process, under its own name."""
    _registered[method.name] = method


def get_method(name: str) -> Method:
    """The method of that name.

    Raises
    ------
    DPForestError
        There is none; names the nearest.
    """
    method = _registered.get(name) or _own_folder(name)
    if method is not None:
        return method
    methods = {**_installed(), **_registered}
    if name not in methods:
        near = difflib.get_close_matches(name, methods, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise DPForestError(f"no strategy {name!r}{hint} (there are {', '.join(sorted(methods))})")
    return methods[name]


def look_of(name: str, settings: Mapping[str, Any]) -> Look:
    """How figures show a method under settings as a configuration has them, also one that is not installed here."""
    try:
        return get_method(name).look_under(settings)
    except DPForestError:
        return palette_look(name)


def _own_folder(name: str) -> Method | None:
    """The method whose folder has its name: most have, and then no other is imported."""
    for floor in _FLOORS:
        if name in _folders(floor):
            methods = {method.name: method for method in _methods_in(floor, name)}
            if name in methods:
                return methods[name]
    return None


@cache
def _installed() -> dict[str, Method]:
    """All methods in folders of this floor that offer ``METHODS``."""
    return {
        method.name: method for floor in _FLOORS for folder in _folders(floor) for method in _methods_in(floor, folder)
    }


@cache
def _folders(floor: str) -> tuple[str, ...]:
    package = importlib.import_module(floor)
    return tuple(module.name for module in pkgutil.iter_modules(package.__path__) if module.ispkg)


def _methods_in(floor: str, folder: str) -> tuple[Method, ...]:
    return tuple(getattr(importlib.import_module(f"{floor}.{folder}"), "METHODS", ()))
