"""Hydra's launchers, which run the jobs of a sweep elsewhere, and its sweepers, which choose them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from hydra.types import HydraContext
from hydra.utils import instantiate
from omegaconf import DictConfig

from fl_app.config.compose import parse_overrides, started_hydra
from fl_app.engine.experiment import ConfigurationError

BASIC = "basic"


def chosen(config: DictConfig, group: str) -> str:
    """Which file of ``hydra/launcher`` or ``hydra/sweeper`` a sweep uses."""
    return str(config.hydra.runtime.choices[f"hydra/{group}"])


def check_plugins(overrides: Sequence[str]) -> None:
    """Refuse a launcher or sweeper that is not installed.

    Raises
    ------
    ConfigurationError
    """
    for override in parse_overrides(overrides):
        group = override.key_or_group
        if group not in ("hydra/launcher", "hydra/sweeper"):
            continue
        with started_hydra() as loader:
            known = loader.get_group_options(group)
        if (name := str(override.value())) not in known:
            package = f"hydra-{name.partition('_')[0]}-{group.partition('/')[2]}"
            raise ConfigurationError(
                f"no {group} {name!r} (there are {', '.join(known)}); if it is a plugin, pip install {package}"
            )


def launch(config: DictConfig, runs: Sequence[Sequence[str]], job: Callable[[DictConfig], Any]) -> None:
    """Run all jobs by the sweep's launcher; each has its overrides, and comes back when it has ended."""
    size = config.hydra.sweeper.get("max_batch_size") or len(runs)
    with started_hydra() as loader:
        launcher = Plugins.instance().instantiate_launcher(
            hydra_context=_context(loader, config),
            task_function=job,
            config=config,
        )
        for start in range(0, len(runs), size):
            launcher.launch(runs[start : start + size], initial_job_idx=start)


def search(config: DictConfig, job: Callable[[DictConfig], Any]) -> None:
    """Let the sweep's sweeper choose jobs by what they return, until it has enough."""
    with started_hydra() as loader:
        sweeper = Plugins.instance().instantiate_sweeper(
            hydra_context=_context(loader, config),
            task_function=job,
            config=config,
        )
        sweeper.sweep([str(text) for text in config.hydra.overrides.task])


def _context(loader: ConfigLoader, config: DictConfig) -> HydraContext:
    # Hydra's own class of this shape is private; a callback has the same methods.
    return HydraContext(config_loader=loader, callbacks=_Callbacks(config))  # type: ignore[arg-type]


class _Callbacks(Callback):
    """Those of ``hydra.callbacks``, called one after another."""

    def __init__(self, config: DictConfig) -> None:
        self._each: list[Callback] = [instantiate(each) for each in (config.hydra.callbacks or {}).values()]

    def on_job_start(self, config: DictConfig, **more: Any) -> None:
        for each in self._each:
            each.on_job_start(config=config, **more)

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **more: Any) -> None:
        for each in self._each:
            each.on_job_end(config=config, job_return=job_return, **more)
