"""``python -m fl_app``: one run, or with ``-m`` a sweep in one warm simulation."""

from __future__ import annotations

import atexit
import dataclasses
import logging
import math
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import hydra
from flwr.serverapp import Grid
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from dpforest.errors import DPForestError
from fl_app.client_app import app as client_app
from fl_app.config import check_overrides, conf_folder, to_experiment
from fl_app.experiment import Experiment, Privacy
from fl_app.grids import in_process, roster, wait_for_nodes
from fl_app.jobs import default_output, output_base, run_job
from fl_app.results import write_results
from fl_app.screen import log_to_screen
from fl_app.session import SimulationSession, quiet_flower
from strategies.method import TooFewClients

log = logging.getLogger("fl_app")
_START = 600  # seconds that workers may take to start; on a busy machine some do


class _Engine:
    """The grid that the jobs of this process share; it grows when a job needs more nodes."""

    def __init__(self) -> None:
        self._opened: AbstractContextManager[Grid] | None = None
        self._key: tuple[str, str | None] | None = None
        self._nodes: dict[int, int] = {}
        self._grid: Grid | None = None

    def grid(self, kind: str, wanted: int, ray_address: str | None) -> tuple[Grid, dict[int, int]]:
        """A grid with at least ``wanted`` nodes, and which node plays which client."""
        if self._grid is None or self._key != (kind, ray_address) or len(self._nodes) < wanted:
            self.close()
            if kind == "simulation":
                self._opened = SimulationSession(client_app, wanted, ray_address)
            elif kind == "in_process":
                self._opened = in_process(client_app, wanted)
            else:
                raise DPForestError(f"engine.kind {kind!r} must be simulation or in_process")
            self._grid = self._opened.__enter__()
            self._nodes = roster(self._grid, wait_for_nodes(self._grid, wanted, _START), _START)
            self._key = (kind, ray_address)
        return self._grid, {client: node for client, node in self._nodes.items() if client < wanted}

    def close(self) -> None:
        """End the simulation."""
        if self._opened is not None:
            self._opened.__exit__(None, None, None)
        self._opened = self._grid = None


_engine = _Engine()
_failures: list[str] = []
_sweeps: set[Path] = set()
_without_budget: set[str] = set()


def _is_repeated(experiment: Experiment) -> bool:
    """Whether a sweep has run this experiment without a budget before."""
    text = experiment.to_json()
    repeated = text in _without_budget
    _without_budget.add(text)
    return repeated


@hydra.main(config_path=str(conf_folder()), config_name="config", version_base="1.3")
def _job(config: DictConfig) -> None:
    sweep = HydraConfig.get().mode == RunMode.MULTIRUN
    overrides = list(HydraConfig.get().overrides.task)
    try:
        experiment = to_experiment(config)
        if sweep and not experiment.method.uses_budget:
            experiment = dataclasses.replace(experiment, privacy=Privacy(math.inf))
            if _is_repeated(experiment):
                log.info("%s: skipped, as no budget makes a difference to it", " ".join(overrides))
                return
        wanted = config.engine.nodes or experiment.partition.count(experiment.source)
        if sweep:
            output = Path(HydraConfig.get().runtime.output_dir)
        elif config.output:
            output = Path(config.output)
        else:
            output = default_output(experiment, output_base())
        grid, nodes = _engine.grid(config.engine.kind, wanted, config.engine.ray_address)
        run_job(experiment, grid, output, nodes, overrides)
    except (DPForestError, TooFewClients) as error:
        _failures.append(f"{' '.join(overrides)}: {error}")
        log.error("error: %s", error)
    except Exception as error:
        # A defect of the program, or a crash of the engine: shown whole, and a sweep goes on with the next run.
        _failures.append(f"{' '.join(overrides)}: {error}")
        log.exception("this run failed")
    finally:
        if sweep:
            _sweeps.add(Path(HydraConfig.get().sweep.dir))
            write_results(Path(HydraConfig.get().sweep.dir))


def main() -> int:
    """Run, and say by the exit code whether everything went well."""
    quiet_flower()
    log_to_screen()
    atexit.register(_engine.close)
    try:
        check_overrides([argument for argument in sys.argv[1:] if not argument.startswith("-")])
    except DPForestError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        _job()
    finally:
        _engine.close()
    if _sweeps:
        from fl_app.compare import compare  # only now: it takes seconds to load what draws

        for folder in _sweeps:
            compare([folder], folder / "figures")
    return 1 if _failures else 0


if __name__ == "__main__":
    sys.exit(main())
