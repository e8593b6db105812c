from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from in_memory import Federation

from strategies.secure_aggregation import Terms

Build = Callable[..., tuple[Federation, dict[int, np.ndarray]]]


@pytest.fixture
def ready() -> Build:
    """A federation whose keys are agreed on, and a vector for each client."""

    def build(clients: int = 6, rounds: int = 2, dropouts: int = 1, colluders: int = 1) -> tuple:
        terms = Terms(clients, rounds, 1000, dropouts, colluders)
        vectors = {client: np.array([client, -10 * client, 1000]) for client in range(clients)}
        federation = Federation(terms)
        federation.set_up(vectors)
        return federation, vectors

    return build
