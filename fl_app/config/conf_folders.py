"""Where configuration files are: our own, and those of installed packages that bring methods."""

from __future__ import annotations

from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from fl_app.config.places import conf_folder
from fl_app.engine.experiment import ConfigurationError
from strategies.registry import GROUP, outside_conf


def conf_folders() -> list[Path]:
    """All of them, ours first.

    Raises
    ------
    ConfigurationError
        Two have a file of the same name.
    """
    owners = dict.fromkeys(_files(conf_folder()), "dpforest")
    for package, folder in outside_conf().items():
        for file in _files(folder):
            if owner := owners.get(file):
                raise ConfigurationError(
                    f"conf/{file} is in the installed package {package} and in {owner}: uninstall one of them, or "
                    "rename its file"
                )
            owners[file] = package
    return [conf_folder(), *outside_conf().values()]


def _files(folder: Path) -> list[str]:
    return [file.relative_to(folder).as_posix() for file in folder.rglob("*.yaml")]


class OutsideMethods(SearchPathPlugin):
    """Shows Hydra the configuration of installed packages."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add their folders after ours."""
        for folder in conf_folders()[1:]:
            search_path.append(GROUP, folder.as_uri())


Plugins.instance().register(OutsideMethods)
