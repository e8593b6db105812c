"""Finding a method by its name.

A server can only name a method that is installed on the client: names are looked up here, never imported. An installed
package brings methods of its own as entry points of the group ``dpforest.methods``, one a method under its name,
and their configuration in a folder ``conf`` of the package.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from dpforest.errors import DPForestError, did_you_mean
from strategies.method import Method, Scope
from strategies.style import Style, palette_style

GROUP = "dpforest.methods"
_FLOORS = ("strategies", "baselines")
registered: dict[str, Method] = {}


def register(method: Method) -> None:
    """Make a method known in this process, under its own name."""
    registered[method.name] = method


def get_method(name: str) -> Method:
    """The method of that name.

    Raises
    ------
    DPForestError
        There is none (names the nearest), or there are several, or its package does not bring what it says.
    """
    method = registered.get(name) or _own_folder(name)
    outside = [entry for entry in _entry_points() if entry.name == name]
    if method is None or outside:
        method = method or installed_methods().get(name)
    if len(outside) + (method is not None) > 1:
        others = "dpforest" if method is not None else _package(outside[1])
        raise DPForestError(
            f"strategy {name!r} is in the installed package {_package(outside[0])} and in {others}: uninstall one of "
            "them, or rename its method"
        )
    if method is None and outside:
        method = _load(outside[0])
    if method is None:
        names = {*installed_methods(), *registered, *(entry.name for entry in _entry_points())}
        raise DPForestError(f"no strategy {name!r}{did_you_mean(name, names)} (there are {', '.join(sorted(names))})")
    return method


def outside_conf() -> dict[str, Path]:
    """The folder ``conf`` of each installed package that brings methods, by the package's name; imports none."""
    found = {}
    for entry in _entry_points():
        spec = importlib.util.find_spec(entry.module.partition(".")[0])
        for place in (spec and spec.submodule_search_locations) or ():
            if (folder := Path(place) / "conf").is_dir():
                found[_package(entry)] = folder
    return found


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    # A folder that is on the path twice has its packages twice.
    return tuple(dict.fromkeys(entry_points(group=GROUP)))


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.module


def forget_packages() -> None:
    """Look for installed packages anew."""
    _entry_points.cache_clear()
    _load.cache_clear()


@cache
def _load(entry: EntryPoint) -> Method:
    """A method of an installed package.

    Raises
    ------
    DPForestError
    """
    where = f"strategy {entry.name!r} of the installed package {_package(entry)}"
    try:
        method = entry.load()
    except Exception as error:
        raise DPForestError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(method, Method) or method.name != entry.name:
        raise DPForestError(f"{where}: {entry.value} must be a strategies.method.Method with that name")
    return method


def style_of(name: str, settings: Mapping[str, Any]) -> Style:
    """How figures show a method under settings as a configuration has them, also one that is not installed here."""
    try:
        return get_method(name).style_under(settings)
    except DPForestError:
        return palette_style(name)


def scope_of(name: str) -> Scope:
    """Whose rows make a client's model under a method, also one that is not installed here."""
    try:
        return get_method(name).scope
    except DPForestError:
        return Scope.FEDERATED


def _own_folder(name: str) -> Method | None:
    """The method whose folder has its name: most have, and then no other is imported."""
    for floor in _FLOORS:
        if name in _folders(floor):
            methods = {method.name: method for method in _methods_in(floor, name)}
            if name in methods:
                return methods[name]
    return None


@cache
def installed_methods() -> dict[str, Method]:
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
