"""What the methods are compared with: private FedAvg, and forests and networks alone or with all rows in one place.

``DPSGD(schema, epsilon=4.0, delta=1e-5).start(grid)`` in a ServerApp; see `strategies` for the nodes.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from baselines.catalogue import DPSGD, DPFedAvg, FedAvg

__all__ = ["DPSGD", "DPFedAvg", "FedAvg"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import baselines.catalogue

    return getattr(baselines.catalogue, name)
