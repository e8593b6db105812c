"""Finding a method by its name.

A server can only name a method that is installed on the client: names are looked up here, never imported.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import cache

from dpforest.errors import DPForestError
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
    methods = {**_installed(), **_registered}
    if name not in methods:
        near = difflib.get_close_matches(name, methods, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise DPForestError(f"no strategy {name!r}{hint} (there are {', '.join(sorted(methods))})")
    return methods[name]


@cache
def _installed() -> dict[str, Method]:
    """All methods in folders of this floor that offer ``METHODS``."""
    found: dict[str, Method] = {}
    for floor in _FLOORS:
        package = importlib.import_module(floor)
        for module in pkgutil.iter_modules(package.__path__):
            if module.ispkg:
                folder = importlib.import_module(f"{floor}.{module.name}")
                found.update({method.name: method for method in getattr(folder, "METHODS", ())})
    return found
