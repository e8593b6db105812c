"""Federated methods, one folder each, and what anybody's Flower app needs to use them.

``OneShotForest(schema, epsilon=1.0).start(grid)`` in a ServerApp, ``app = PrivateClientApp(load)`` on the nodes.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strategies.catalogue import PPFGRF, PPFPRF, FextDP, LDPBagging, OneShotForest, PrivateBoosting
    from strategies.federation.result import FederatedResult, ForestResult
    from strategies.node.answer import introduce as answer_query
    from strategies.node.app import LocalRows, PrivateClientApp, answer_evaluate, answer_train

__all__ = [
    "PPFGRF",
    "PPFPRF",
    "FederatedResult",
    "FextDP",
    "ForestResult",
    "LDPBagging",
    "LocalRows",
    "OneShotForest",
    "PrivateBoosting",
    "PrivateClientApp",
    "answer_evaluate",
    "answer_query",
    "answer_train",
]

_RESULTS = ("FederatedResult", "ForestResult")
_NODE = ("LocalRows", "PrivateClientApp", "answer_evaluate", "answer_train")


def __getattr__(name: str) -> Any:
    # At first use: a node loads no server's half, and the other way round.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "answer_query":
        return importlib.import_module("strategies.node.answer").introduce
    module = "federation.result" if name in _RESULTS else "node.app" if name in _NODE else "catalogue"
    return getattr(importlib.import_module(f"strategies.{module}"), name)
