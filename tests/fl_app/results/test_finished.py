"""A finished run is read as values, whichever version wrote its folder."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path

import pytest
from made_up_runs import CLIENT_UNIT, RECORD_UNIT, write_run

from dpforest.guarantee import Guarantee, Neighbours, Trust, Unit
from fl_app.results.finished import OPEN, PRIVATE, UNPROVEN, read_run

NEW_KEYS = ("holds", "reasons", "unit_name", "neighbours", "trust_model")
OWN_UNIT = Unit("one household added to or removed from the study", "household")


@pytest.mark.parametrize("unit", [RECORD_UNIT, CLIENT_UNIT, OWN_UNIT])
@pytest.mark.parametrize(
    ("options", "state", "reasons"),
    [
        ({}, PRIVATE, ()),
        ({"unprotected": "leaf values"}, UNPROVEN, ("leaf values",)),
        ({"noised": False}, OPEN, ("weights",)),
    ],
)
def test_a_guarantee_is_read_as_values_also_from_older_folders(
    tmp_path: Path, unit: Unit, options: dict, state: str, reasons: tuple[str, ...]
) -> None:
    folder = write_run(tmp_path / "run", unit=unit, trust=Trust("server trusted", "it sees all"), **options)
    run = read_run(folder)
    assert (run.state, run.guarantee.holds, run.guarantee.reasons) == (state, state == PRIVATE, reasons)
    path = folder / "privacy.json"
    plain = json.loads(path.read_text())
    assert str(run.guarantee) == plain["guarantee"]
    for key in NEW_KEYS:
        del plain[key]
    path.write_text(json.dumps(plain))
    older = read_run(folder)
    assert str(older.guarantee) == plain["guarantee"]
    for each in (run, older, pickle.loads(pickle.dumps(run))):
        assert (each.state, each.guarantee.holds) == (run.state, run.guarantee.holds)
        assert (each.guarantee.unit, each.guarantee.unit.name) == (unit, unit.name)
        assert each.guarantee.unit.neighbours is Neighbours.ADD_OR_REMOVE
        assert (each.guarantee.trust, each.guarantee.trust.model) == ("server trusted: it sees all", "server trusted")


def test_a_guarantee_survives_its_plain_data() -> None:
    for guarantee in (Guarantee(2.0, 1e-6, OWN_UNIT, Trust("nobody")), Guarantee(math.inf, 0.0, RECORD_UNIT,
                      Trust("a", "b"), ("x; y", "z"))):  # fmt: skip
        assert Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict(), allow_nan=False))) == guarantee
