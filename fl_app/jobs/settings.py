"""Settings of a run that do not change its numbers: where it happens, and where it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from dpforest.settings import Range, Settings, Whole


@dataclass(frozen=True)
class EngineSettings(Settings):
    """Where a run's nodes are.

    Parameters
    ----------
    kind : {"simulation", "in_process"}
        A simulation under Ray; or one client after another in this process, without Ray, with the same numbers.
    nodes : int or None
        Of the simulation; None: one a client.
    ray_address : str or None
        Of a Ray cluster; None: this machine.
    """

    group: ClassVar[str] = "engine."

    kind: Literal["simulation", "in_process"] = "simulation"
    nodes: Whole | None = None
    ray_address: str | None = None


@dataclass(frozen=True)
class RunSettings(Settings):
    """Where a run goes.

    Parameters
    ----------
    output : str or None
        Folder of the run, or of the sweep; None: runs/DATE-STRATEGY-DATASET, or runs/sweep-DATE.
    objective : str or None
        The metric that a sweeper such as hydra/sweeper=optuna is given; None: log_loss, or mae of a regression.
    attack_models : int or None
        Shadow models with which each finished run is attacked, as by dpforest attack; None: it is not.
    references : bool
        Whether a sweep also runs what there is without a federation, once for each data set, evaluation and seed: every
        client alone, with privacy and without, and all rows in one place.
    """

    output: str | None = None
    objective: str | None = None
    attack_models: Annotated[int, Range(4, 100_000)] | None = None
    references: bool = True


@dataclass(frozen=True)
class TrackingSettings(Settings):
    """Where finished runs are logged as well.

    Parameters
    ----------
    kind : {"mlflow"} or None
        MLflow needs pip install "dpforest[mlflow]".
    uri : str or None
        Of a tracking server or database; None: MLFLOW_TRACKING_URI, or the folder mlruns next to the sweep or run.
    """

    group: ClassVar[str] = "tracking."

    kind: Literal["mlflow"] | None = None
    uri: str | None = None


@dataclass(frozen=True)
class ReportSettings(Settings):
    """What the report of a sweep also says.

    Parameters
    ----------
    target : str, float or None
        A wanted score, such as 0.9, or a share of the best score without privacy, such as 95%: the report says which
        epsilon takes each method there, and what that costs.
    """

    group: ClassVar[str] = "report."

    target: str | float | None = None
