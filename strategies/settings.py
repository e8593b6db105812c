"""Building a method's settings from a configuration, with errors that name the nearest option."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

from dpforest.errors import DPForestError


def build_settings(kind: type, values: Mapping[str, Any], where: str) -> Any:
    """An instance of the frozen dataclass ``kind``.

    Raises
    ------
    DPForestError
        An option is unknown (the nearest is named), missing, or has a bad value.
    """
    known = [f.name for f in dataclasses.fields(kind)]
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise DPForestError(f"{where}: unknown option {name!r}{hint} (options: {', '.join(known)})")
    try:
        return kind(**values)
    except TypeError as error:
        raise DPForestError(f"{where}: {error}") from error
