"""Private decision forests: schema, mechanisms, ledger, growers and scikit-learn estimators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpforest.estimators import (
        PrivateBoostClassifier,
        PrivateBoostRegressor,
        PrivateForestClassifier,
        PrivateForestRegressor,
    )

__version__ = "0.2.0"
__all__ = [
    "PrivateBoostClassifier",
    "PrivateBoostRegressor",
    "PrivateForestClassifier",
    "PrivateForestRegressor",
    "__version__",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"Any", "TYPE_CHECKING", "annotations"})


def __getattr__(name: str) -> Any:
    # Estimators need scikit-learn; a federation that only grows and sends trees never loads it.
    if name in __all__:
        from dpforest import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
