"""How methods run: the Flower app, the simulation session, data sets, results and commands.

Importing it makes ``strategies``, ``baselines`` and ``dpforest`` those that stand next to it, whatever folders of the
same names the working directory or the path has.
"""

import importlib.machinery
import importlib.util
import logging
import sys
from pathlib import Path

_HOME = str(Path(__file__).resolve().parent.parent)
_OURS = ("dpforest", "strategies", "baselines")


class _OurPackages:
    """Finds our packages next to this one, and nothing else."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.PathFinder.find_spec(name, [_HOME]) if name in _OURS else None


def _folder(spec: importlib.machinery.ModuleSpec | None) -> Path | None:
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]).resolve() if places else None


def _prefer_ours() -> None:
    for name in _OURS:
        ours = _folder(_OurPackages.find_spec(name))
        first = _folder(importlib.util.find_spec(name))
        if ours is None or first in (None, ours):
            continue
        if name in sys.modules:
            raise ImportError(
                f"{first} was imported as {name!r}, and dpforest brings a package of that name: rename it"
            )
        logging.getLogger(__name__).warning("%s is not used: %r is the package of dpforest in %s", first, name, ours)
    sys.meta_path.insert(0, _OurPackages)


_prefer_ours()
