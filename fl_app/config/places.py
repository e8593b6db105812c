"""Where things are that come with the program."""

from __future__ import annotations

from pathlib import Path

from dpforest.errors import DPForestError


def conf_folder() -> Path:
    """Our ``conf`` folder: inside this package when installed, next to it in a checkout or FAB.

    Raises
    ------
    DPForestError
        It is missing.
    """
    here = Path(__file__).resolve().parents[1]
    # Next to an installed package stand the folders of others.
    for folder in (here / "conf", here.parent / "conf"):
        if (folder / "config.yaml").is_file():
            return folder
    raise DPForestError("the conf folder is missing; reinstall dpforest")
