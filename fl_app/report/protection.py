"""How well a record, an hour of records and all of a client's records are protected by the guarantee of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from dpforest.guarantee import PrivacyUnit
from dpforest.ledger import Entry
from dpforest.ledger.groups import GroupGuarantee, group_guarantee
from fl_app.results.finished import FinishedRun

_OTHER_SIZES = (10, 100, 1000)
_PERSON = "a person's whole data, where a client is one person"


@dataclass(frozen=True)
class Protection:
    """What is to stay hidden, and the guarantee for it; None where it is not known, with the reason."""

    what: str
    group: GroupGuarantee | None
    unknown: str = ""


def worst_entries(run: FinishedRun) -> list[Entry]:
    """The protected releases of a client whose epsilon is the run's."""
    worst = max(run.privacy["clients"].values(), key=lambda ledger: float(ledger["epsilon"]))
    return [entry for entry in map(Entry.from_dict, worst["entries"]) if entry.protected]


def protections(run: FinishedRun) -> list[Protection]:
    """A line each; none where nothing is guaranteed.

    Raises
    ------
    DPForestError
        The ledgers are of another version.
    """
    return list(_protections(run, worst_entries(run))) if run.guarantee.holds else []


def _protections(run: FinishedRun, entries: list[Entry]) -> Iterator[Protection]:
    def group(size: float) -> GroupGuarantee:
        return group_guarantee(run.guarantee, entries, max(1, int(size)))

    if run.guarantee.unit.kind == PrivacyUnit.CLIENT:
        yield Protection(f"All data of one client: {_PERSON}", group(1))
        # The client with the records is taken out, and put in again without them.
        yield Protection("One record, or an hour of records, of a client that stays: two steps", group(2))
        return
    yield Protection(f"One record: {run.privacy['record']}", group(1))
    hour, rows = run.privacy.get("records_an_hour"), run.metrics.get("public_rows")
    if hour:
        yield Protection(f"An hour of recording: at most {int(hour):,} records", group(hour))
    else:
        yield Protection("An hour of recording", None, "how many records an hour has is not known")
    if rows:
        what = f"All records of one client, {int(rows):,} by their public order of magnitude: {_PERSON}"
        yield Protection(what, group(rows))
    else:
        yield Protection(f"All records of one client: {_PERSON}", None, "how many records a client has is not public")
    if not (hour and rows):
        sizes = [size for size in _OTHER_SIZES if size not in (hour, rows)]
        yield from (Protection(f"{size:,} records of one client", group(size)) for size in sizes)


def percent(share: float) -> str:
    """A share in per cent, rounded up; never 100 for what is less."""
    for digits in (1, 3, 6):
        rounded = math.ceil(share * 10 ** (digits + 2)) / 10**digits
        if rounded < 100:
            return f"{rounded:.{digits}f} per cent"
    return "100 per cent"
