"""An update is made of released, public or named values; a raw one is refused by mypy and at run time."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mypy import api

from dpforest.errors import DPForestError
from dpforest.ledger import Budget, Ledger
from dpforest.mechanisms import DiscreteLaplaceCounts
from dpforest.noise import Seeded
from strategies.method import Entrusted, Public, Released, Unprotected, Update

RAW = np.array([40, 2])


def free() -> Ledger:
    return Ledger(Budget(math.inf))


def released(ledger: Ledger) -> np.ndarray:
    counts = DiscreteLaplaceCounts(1.0)
    return counts.release(RAW, counts.entry("counts"), ledger, Seeded(0))


@pytest.mark.parametrize(
    "raw", [RAW, {"counts": RAW}, RAW.tolist(), 40, "40", free()], ids=lambda raw: type(raw).__name__
)
def test_a_bare_value_is_refused(raw: Any) -> None:
    with pytest.raises(DPForestError, match=f"an update holds a bare {type(raw).__name__}"):
        Update(raw)


def test_what_no_mechanism_released_is_not_sent_as_released() -> None:
    with pytest.raises(DPForestError, match="counts are said to be released, but no mechanism has released anything"):
        Released(free(), {"counts": RAW})
    paid_before = free()
    released(paid_before)
    # A client reads its ledger anew for each message: what an earlier one released does not count.
    with pytest.raises(DPForestError, match="said to be released"):
        Released(Ledger.from_dict(paid_before.to_dict()), {"counts": RAW})
    ledger = free()
    noised = released(ledger)
    assert Update(Released(ledger, {"counts": noised})).arrays["counts"] is noised


def test_what_is_unprotected_is_in_the_ledger_once() -> None:
    ledger = free()
    for _ in range(2):
        Update(Unprotected(ledger, {"counts": "sent as they are"}, {"counts": RAW}, {"rows": 42}))
    assert [(entry.what, entry.protected) for entry in ledger.entries] == [("counts", False)]
    assert not ledger.guarantee().holds
    with pytest.raises(DPForestError, match="counts are unprotected: say what they are and why"):
        Unprotected(ledger, {}, {"counts": RAW})


def test_what_a_trusted_server_is_to_noise_has_been_paid_for() -> None:
    entry, ledger = DiscreteLaplaceCounts(1.0).entry("counts"), free()
    with pytest.raises(DPForestError, match="counts are sent for 'counts', which has not been charged"):
        Entrusted(ledger, entry, {"counts": RAW})
    ledger.charge(entry)
    assert Update(Entrusted(ledger, entry, {"counts": RAW})).arrays["counts"] is RAW


def test_parts_do_not_hide_each_other() -> None:
    update = Update(Public({"key": RAW}), Public({"other": RAW}, {"round": 3}))
    assert (list(update.arrays), update.metrics) == (["key", "other"], {"round": 3})
    with pytest.raises(DPForestError, match="two parts of an update are called key"):
        Update(Public({"key": RAW}), Public({"key": RAW}))
    assert not Update().arrays


def test_mypy_refuses_a_raw_array(tmp_path: Path) -> None:
    file = tmp_path / "client.py"
    file.write_text(
        "import numpy as np\n"
        "from strategies.updates import Public, Update\n"
        "def send(counts: np.ndarray) -> list[Update]:\n"
        '    return [Update(Public({"key": counts})), Update(counts), Update({"counts": counts})]\n'
    )
    said, problems, status = api.run(
        [
            "--config-file",
            "",
            "--ignore-missing-imports",
            "--follow-imports",
            "silent",
            "--cache-dir",
            str(tmp_path),
            str(file),
        ]
    )
    wrong = [line for line in said.splitlines() if "error:" in line]
    assert status == 1, said + problems
    assert len(wrong) == 2
    assert all("[arg-type]" in line and "client.py:4" in line for line in wrong)
