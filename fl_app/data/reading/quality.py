"""What is wrong with recordings, before anything learns from them.

The report is made where the file is and stays there: it is logged on the client, and nothing of it is sent.
``python -m fl_app.data.check`` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from fl_app.data.reading.table_file import NOT_UTF8, TableFile, read_table
from fl_app.data.source import DataError

TIME, LABEL = "timestamps", "is_exercise"
SENSORS = ("hr", "spo2", "green", "red", "ecg", "acc_x", "acc_y", "acc_z")
# What no living wearer's sensor shows: the value stands for "no contact". Narrower public bounds only clip.
_POSSIBLE = {"hr": (20.0, 300.0, "1/min"), "spo2": (50.0, 100.0, "%")}
_REMEDY = {
    TIME: "fill it with seconds, or a date such as 2024-01-31T10:00:00, or delete such rows",
    LABEL: "write 1 for exercise and 0 for rest",
    "hr": "check that the sensor sits on the skin, or delete such rows",
    "spo2": "check that the sensor sits on the skin, or delete such rows",
}
_BALANCED = 0.3  # the LDP document asks for 30:70 to 70:30
_EPOCH_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, and what to do about it."""

    severity: Literal["error", "warning"]
    file: str
    line: int
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.file}, line {self.line}: {self.what}; {self.remedy}"


@dataclass(frozen=True, eq=False)
class Checked:
    """A file's good rows in the order of the file, and what was found.

    Parameters
    ----------
    findings : tuple of Finding
    X : ndarray of float64, shape (n_rows, 8)
        In the order of `SENSORS`.
    y : ndarray of int64, shape (n_rows,)
    recording : ndarray of int64, shape (n_rows,)
        Pauses divide a file into recordings.
    digests : tuple of bytes
        Of the rows' records, where a node reads the file; see `fl_app.data.reading.table_file.TableFile`.
    """

    findings: tuple[Finding, ...]
    X: np.ndarray
    y: np.ndarray
    recording: np.ndarray
    digests: tuple[bytes, ...] = ()

    @property
    def errors(self) -> list[Finding]:
        """The findings that keep a file from being used."""
        return [finding for finding in self.findings if finding.severity == "error"]


def check_file(path: Path, min_rows: int = 100, gap: float = 60.0, by_itself: bool = False) -> Checked:
    """Read one device's CSV and say what is wrong with it.

    Rows with a missing or impossible value are left out with a warning. A file with fewer than ``min_rows`` good rows,
    or with one class only, is an error.

    Parameters
    ----------
    path : Path
    min_rows : int
    gap : float
        Seconds; a longer pause, or a step back in time, starts a new recording.
    by_itself : bool
        Keep rows whatever their time stamps are, as one recording: whether one is understood or a repetition depends on
        other rows, and on a node one record more or less must leave all others where they are.

    Raises
    ------
    DataError
        The file is no CSV or lacks a column; names file, line and remedy.
    """
    file = read_table(path, (TIME, *SENSORS, LABEL), digests=by_itself)
    notes = _Notes(path.name)
    columns = {name: file.numbers(name) for name in (*SENSORS, LABEL)}
    readable = _readable(file, notes, by_itself)
    good = readable.copy()
    for name, values in columns.items():
        missing = ~np.isfinite(values) & readable
        remedy = _REMEDY[name] if name == LABEL else "fill it or delete such rows"
        good &= ~notes.rows(missing, file.lines, f"{name} is missing or no number", remedy)
    for name, (low, high, unit) in _POSSIBLE.items():
        wrong = (columns[name] < low) | (columns[name] > high)
        first = columns[name][wrong][:1]
        what = f"{name} is {first[0]:g}, which is impossible ({low:g} to {high:g} {unit})" if first.size else ""
        good &= ~notes.rows(wrong, file.lines, what, _REMEDY[name])
    label = columns[LABEL]
    wrong = np.isfinite(label) & ~np.isin(label, (0.0, 1.0))
    what = f"{LABEL} is {label[wrong][0]:g}" if wrong.any() else ""
    good &= ~notes.rows(wrong, file.lines, what, _REMEDY[LABEL])
    if by_itself:
        kept = np.flatnonzero(good)
        recording = np.zeros(len(kept), dtype=np.int64)
    else:
        seconds = _seconds(file)
        timed = np.isfinite(seconds)
        notes.rows(~timed & readable, file.lines, f"{TIME} is missing or no number", _REMEDY[TIME])
        kept, recording = _in_time(seconds, good & timed, file.lines, gap, notes)
    y = label[kept].astype(np.int64)
    _check_amount(y, min_rows, file.lines, notes)
    return Checked(
        findings=tuple(notes.found),
        X=np.column_stack([columns[name][kept] for name in SENSORS]),
        y=y,
        recording=recording,
        digests=tuple(file.digests[row] for row in kept) if by_itself else (),
    )


def _readable(file: TableFile, notes: _Notes, by_itself: bool) -> np.ndarray:
    """Mask of the records that can be read; says what is wrong with the others."""
    for problem in dict.fromkeys(file.unreadable.values()):
        rows = [row for row, found in file.unreadable.items() if found == problem]
        if problem == NOT_UTF8 and not by_itself:
            raise DataError(f"{file.place(rows[0])}: {problem.what}; {problem.remedy}")  # so is the whole file, likely
        mask = np.zeros(len(file), dtype=bool)
        mask[rows] = True
        notes.rows(mask, file.lines, *problem)
    return file.readable


class _Notes:
    """Collects findings: one for each kind, with its first line."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[Finding] = []

    def rows(self, wrong: np.ndarray, lines: np.ndarray, what: str, remedy: str) -> np.ndarray:
        """Warn of wrong rows, which are left out; gives the mask back."""
        if wrong.any():
            more = int(wrong.sum()) - 1
            also = f", and so are {more} more rows" if more > 1 else ", and so is 1 more row" if more else ""
            self.add("warning", int(lines[wrong][0]), f"{what}{also} (left out)", remedy)
        return wrong

    def add(self, severity: Literal["error", "warning"], line: int, what: str, remedy: str) -> None:
        self.found.append(Finding(severity, self.file, line, what, remedy))


def _seconds(file: TableFile) -> np.ndarray:
    """Time stamps in seconds: numbers since an epoch (s, ms, us or ns by their size) or dates."""
    import pandas as pd

    holds_numbers = file.columns[TIME].holds_numbers
    numbers = file.numbers(TIME) if holds_numbers else np.full(len(file), np.nan)
    known = numbers[np.isfinite(numbers)]
    if known.size or not len(file):
        size = np.median(np.abs(known)) if known.size else 0.0
        unit = next((unit for least, unit in _EPOCH_UNITS if size >= least), 1.0)
        return numbers / unit
    dates = pd.to_datetime(pd.Series(file.text(TIME)), errors="coerce", utc=True, format="ISO8601")
    since = (dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)
    return since.to_numpy(dtype=np.float64, na_value=np.nan)


def _in_time(
    seconds: np.ndarray, good: np.ndarray, lines: np.ndarray, gap: float, notes: _Notes
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the good rows without repeated time stamps, and the recording that each belongs to."""
    kept = np.flatnonzero(good)
    _, first = np.unique(seconds[kept], return_index=True)
    repeated = np.ones(len(kept), dtype=bool)
    repeated[first] = False
    notes.rows(
        repeated, lines[kept], "the time stamp was there before", "record each moment once; the first of equals is used"
    )
    kept = kept[~repeated]
    steps = np.diff(seconds[kept])
    back, pause = steps < 0, steps > gap
    for jumps, words in ((back, "back"), (pause, "forward")):
        if jumps.any():
            at = int(np.flatnonzero(jumps)[0])
            more = int(jumps.sum()) - 1
            also = f", and {more} more times" if more else ""
            notes.add(
                "warning",
                int(lines[kept][at + 1]),
                f"the clock jumps {words} by {abs(steps[at]):g} s{also}: a new recording starts here",
                "set the device's clock, or join recordings only in the order of time",
            )
    starts = np.concatenate([[False], back | pause]) if len(kept) else np.empty(0, dtype=bool)
    return kept, np.cumsum(starts).astype(np.int64)


def _check_amount(y: np.ndarray, min_rows: int, lines: np.ndarray, notes: _Notes) -> None:
    last = int(lines[-1]) if len(lines) else 1
    if len(y) < min_rows:
        notes.add("error", last, f"{len(y)} good rows are fewer than {min_rows}", "record more, or leave this file out")
    if len(y) and y.min() == y.max():
        only, other = ("exercise", "rest") if y[0] else ("rest", "exercise")
        notes.add("error", last, f"all rows are {only}", f"record {other} too, or leave this file out")
    elif len(y) and min(y.mean(), 1 - y.mean()) < _BALANCED:
        share = f"{100 * y.mean():.0f} % of the rows are exercise"
        notes.add("warning", last, share, "record 30 to 70 % exercise, or expect weak answers for the rarer class")


def report_lines(checked: Checked, file: str) -> list[str]:
    """The report for people."""
    rows = f"{file}: {len(checked.y)} good rows, {100 * checked.y.mean() if len(checked.y) else 0:.0f} % exercise"
    recordings = len(np.unique(checked.recording))
    return [f"{rows}, {recordings} recording{'s' if recordings != 1 else ''}", *map(str, checked.findings)]
