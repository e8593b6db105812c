"""Where things are that come with the program."""

from __future__ import annotations

from pathlib import Path

from dpforest.errors import DPForestError


def conf_folder() -> Path:
    """The ``conf`` folder: next to this package in a checkout or FAB, inside it when installed.

    Raises
    ------
    DPForestError
        It is missing.
    """
    here = Path(__file__).resolve().parent
    for folder in (here.parent / "conf", here / "conf"):
        if (folder / "config.yaml").is_file():
            return folder
    raise DPForestError("the conf folder is missing; reinstall dpforest")
