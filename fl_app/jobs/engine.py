"""The engine that the runs of one command share."""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager
from types import TracebackType

from flwr.serverapp import Grid

from dpforest.errors import DPForestError
from fl_app.client_app import app as client_app
from fl_app.engine.in_process import in_process
from fl_app.jobs.settings import EngineSettings
from fl_app.terminal.interrupts import listen_again
from strategies.federation.roster import roster, wait_for_nodes

_START = 600  # seconds that workers may take to start; on a busy machine some do


class WarmEngine:
    """A grid that stays open between runs, and grows when one needs more nodes; use it as a context manager."""

    def __init__(self) -> None:
        self._opened: AbstractContextManager[Grid] | None = None
        self._settings: EngineSettings | None = None
        self._nodes: dict[int, int] = {}
        self._grid: Grid | None = None
        self._failed: DPForestError | None = None

    def __enter__(self) -> WarmEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def grid(self, settings: EngineSettings, clients: int) -> tuple[Grid, dict[int, int]]:
        """A grid with a node for each client, and which node plays which client.

        Raises
        ------
        DPForestError
            There is no such kind of engine, or it does not start.
        """
        if self._failed is not None:
            raise self._failed  # one try: the next run of a sweep would wait as long
        wanted = settings.nodes or clients
        settings = dataclasses.replace(settings, nodes=None)
        if self._grid is None or self._settings != settings or len(self._nodes) < wanted:
            self.close()
            self._opened = _open(settings, wanted)
            try:
                self._grid = self._opened.__enter__()
            except DPForestError as error:
                self._failed = error
                raise
            self._nodes = roster(self._grid, wait_for_nodes(self._grid, wanted, _START), _START)
            listen_again()  # Ray is there once all nodes have answered
            self._settings = settings
        return self._grid, {client: node for client, node in self._nodes.items() if client < wanted}

    def close(self) -> None:
        """End the simulation, if one runs."""
        if self._opened is not None:
            self._opened.__exit__(None, None, None)
        self._opened = self._grid = None


def _open(settings: EngineSettings, nodes: int) -> AbstractContextManager[Grid]:
    if settings.kind == "simulation":
        # Only here: Flower's simulation takes a second to load.
        from fl_app.engine.simulation import SimulationSession

        return SimulationSession(client_app, nodes, settings.ray_address)
    if settings.kind == "in_process":
        return in_process(client_app, nodes)
    raise DPForestError(f"engine.kind {settings.kind!r} must be simulation or in_process")
