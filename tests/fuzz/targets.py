"""What reads the inputs of others: it takes them, or refuses them by a `DPForestError`, in little time and memory."""

from __future__ import annotations

import json
import resource
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.common import MessageType
from pyarrow import parquet

from dpforest.cells import read_target
from dpforest.errors import DPForestError
from dpforest.forest import load, pack, unpack
from dpforest.forest.json_format import to_dict
from dpforest.guarantee import OWNER_ONLY, RECORD_UNIT
from dpforest.ledger import Budget, Entry, Ledger
from dpforest.schema import Schema
from fl_app.client_app import app as client_app
from fl_app.data.reading.table_file import read_table
from fl_app.engine.experiment import Experiment
from fl_app.engine.in_process import InProcessGrid
from fl_app.results.finished import read_run
from strategies.federation.accounts import Account
from strategies.messages import ARRAYS, CONFIG, METRICS, read_update, to_arrays_record
from strategies.method import Charges
from strategies.metrics import check_sums, classification_sums, joint_metrics, regression_sums
from tests.dpforest.made_up_forests import REGRESSION, SCHEMA, made_up_forest, schema_of
from tests.dpforest.sound_forests import assert_serves_everybody, mutated
from tests.fuzz.mutations import damaged, damaged_plain
from tests.fuzz.reports import make_damage, read_reports

SECONDS = 2.0
_TIMES_ITS_SIZE, _LITTLE = 10, 64 << 20  # bytes of memory
_OUTPUTS = ("counts", "probability", "score", "logit", "target", "target_sum")


@dataclass(frozen=True)
class Target:
    """A reader and its inputs.

    Parameters
    ----------
    make : callable of Generator to input
    read : callable of (input, Path)
        Gives the input to the reader; the path is an empty folder. Returns or raises `DPForestError` where all is well.
    seconds : float
        What it may take.
    cases : int
        How many of its inputs every run of the tests tries.
    """

    make: Callable[[np.random.Generator], Any]
    read: Callable[[Any, Path], Any]
    seconds: float = SECONDS
    cases: int = 1000


@dataclass(frozen=True)
class Failure:
    """An input that was neither taken nor refused as it should be."""

    target: str
    number: int
    what: str

    def __str__(self) -> str:
        again = f"python -m tests.fuzz --target {self.target} --first {self.number} --cases 1"
        return f"{self.target} {self.number}: {self.what} ({again})"


def run_target(name: str, numbers: range) -> Iterator[Failure]:
    """Give a target the inputs of these numbers."""
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            if what := _tried(target, number, Path(folder)):
                yield Failure(name, number, what)


def is_taken(name: str, number: int, folder: Path) -> bool:
    """Whether an input is not damaged enough to be refused."""
    try:
        TARGETS[name].read(TARGETS[name].make(np.random.default_rng(number)), folder)
    except DPForestError:
        return False
    return True


def _tried(target: Target, number: int, folder: Path) -> str:
    given = target.make(np.random.default_rng(number))
    memory, start = _most_memory(), time.process_time()
    try:
        target.read(given, folder)
    except DPForestError as error:
        if not str(error) or not str(error).isprintable():
            return f"a refusal that is not one line: {str(error)!r}"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:200]} ({Path(place.filename).name}:{place.lineno})"
    if (seconds := time.process_time() - start) > target.seconds:
        return f"{seconds:.1f} s"
    if (taken := _most_memory() - memory) > max(_LITTLE, _TIMES_ITS_SIZE * _size(given)):
        return f"{taken >> 20} MB of memory for {_size(given)} bytes"
    return ""


def _most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _size(given: Any) -> int:
    if isinstance(given, dict):
        return sum(map(_size, given.values()))
    return given.nbytes if isinstance(given, np.ndarray) else len(given) if isinstance(given, bytes | str) else 0


def _as_json(plain: Any) -> bytes:
    return json.dumps(plain).encode()


def _as_yaml(plain: Any) -> bytes:
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True).encode()


def _damaged_text(plain: Any, write: Callable[[Any], bytes], rng: np.random.Generator) -> bytes:
    # JSON is YAML too, and is written however deep it is.
    return _as_json(damaged_plain(plain, rng)) if rng.random() < 0.7 else damaged(write(plain), rng)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


# Forests


def _make_arrays(rng: np.random.Generator) -> tuple[str, bool, dict[str, np.ndarray]]:
    output, categories = str(rng.choice(_OUTPUTS)), bool(rng.integers(2))
    forest = made_up_forest(int(rng.integers(20)), output=output, categories=categories)
    return output, categories, mutated(pack(forest), rng)


def _read_arrays(given: tuple[str, bool, dict[str, np.ndarray]], folder: Path) -> None:
    output, categories, arrays = given
    assert_serves_everybody(unpack(arrays, schema_of(output, categories), output))  # type: ignore[arg-type]


@cache
def _plain_forest(seed: int) -> dict[str, Any]:
    return to_dict(made_up_forest(seed, output=_OUTPUTS[1 + seed % 5], categories=seed % 2 == 1))


def _make_forest_file(rng: np.random.Generator) -> bytes:
    plain = _plain_forest(int(rng.integers(20)))
    return _damaged_text(plain | {"provenance": {"privacy": {"epsilon": 1.0}, "clients": []}}, _as_json, rng)


def _read_forest_file(content: bytes, folder: Path) -> None:
    path = folder / "forest.json"
    path.write_bytes(content)
    forest = load(path)
    again = json.loads(json.dumps(to_dict(forest), allow_nan=False))
    path.write_bytes(_as_json(again))
    X = np.zeros((2, forest.schema.n_features))
    for each in (forest, load(path)):
        predicted = each.predict_proba(X) if each.schema.is_classification else each.predict(X)
        assert np.isfinite(predicted).all()


# Messages

_PLAN = (Entry("counts of leaves", "discrete Laplace", epsilon=0.5, times=2), Entry("sums", "Gaussian", mu=0.1))


@cache
def _plain_ledger() -> dict[str, Any]:
    ledger = Ledger(Budget(3.0, 1e-6))
    for entry in _PLAN:
        ledger.charge(entry)
    ledger.unprotected("keys", "public")
    return ledger.to_dict()


def _make_message(rng: np.random.Generator) -> dict[str, bytes]:
    arrays = to_arrays_record(pack(made_up_forest(int(rng.integers(20)))))
    content = {name: array.data for name, array in arrays.items()}
    name = str(rng.choice(list(content)))
    content[name] = damaged(content[name], rng)
    if rng.random() < 0.2:
        file = BytesIO()
        header = {"descr": str(rng.choice(["<i8", "<f4", "|O", "<U9"])), "fortran_order": False}
        np.lib.format.write_array_header_1_0(file, header | {"shape": (int(rng.choice([10**6, 10**9, 2**62])), 3)})
        content[name] = file.getvalue()
    return content | {"ledger": _as_json(_plain_ledger())}


@cache
def _grid() -> InProcessGrid:
    return InProcessGrid(client_app, 1)


def _read_message(given: dict[str, bytes], folder: Path) -> None:
    arrays = {n: Array("f4", (1,), "numpy.ndarray", data) for n, data in given.items() if n != "ledger"}
    config = ConfigRecord({"client": 0, "noise": "secure", "ledger": _text(given["ledger"])})
    content = RecordDict({ARRAYS: ArrayRecord(arrays), CONFIG: config, METRICS: MetricRecord({"rows": 5.0})})
    update, ledger = read_update(_grid().create_message(content, MessageType.TRAIN, 1, "1"), 0)
    account = Account()
    account.ask(Charges(once=_PLAN))
    account.answer(Charges(once=_PLAN), update, ledger)
    account.why_none(ledger)
    unpack(update.arrays, SCHEMA, "probability")


def _make_ledger(rng: np.random.Generator) -> dict[str, bytes]:
    return {"ledger": _damaged_text(_plain_ledger(), _as_json, rng)}


def _make_sums(rng: np.random.Generator) -> tuple[Schema, Any]:
    if rng.random() < 0.5:
        schema, sums = SCHEMA, classification_sums(rng.integers(0, 3, 9), rng.dirichlet(np.ones(3), 9))
    else:
        schema, sums = REGRESSION, regression_sums(rng.uniform(5, 25, 9), rng.uniform(5, 25, 9))
    if rng.random() < 0.5:
        return schema, damaged_plain(sums, rng)
    values = sums[str(rng.choice(list(sums)))]
    values[rng.integers(len(values))] = float(rng.choice([0, 0.5, 1, 9, -1, 1e12, 1e13, 1e200, 1.7e308, 5e-324]))
    return schema, sums


def _read_sums(given: tuple[Schema, Any], folder: Path) -> None:
    schema, plain = given
    try:
        record = MetricRecord(plain)
        np.array([x for values in record.values() for x in np.ravel(values)], dtype=np.float64)
    except Exception as error:
        raise DPForestError("what no message can hold") from error
    sums = {name: [float(x) for x in values] for name, values in record.items() if isinstance(values, list)}
    check_sums(sums, schema)
    assert all(np.isfinite(value) for value in joint_metrics([sums] * 10).values())


# Settings


def _make_schema(rng: np.random.Generator) -> bytes:
    plain = schema_of(str(rng.choice(["probability", "target"])), bool(rng.integers(2))).to_dict()
    return _damaged_text(plain, _as_yaml, rng)


def _read_schema(content: bytes, folder: Path) -> None:
    path = folder / "schema.yaml"
    path.write_bytes(content)
    schema = Schema.from_yaml(path)
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    if schema.n_features < 100:
        assert all(np.isfinite(cuts).all() for cuts in schema.grid(8))


_EXPERIMENT = {
    "strategy": {"name": "fext", "trees": 20},
    "dataset": {"name": "hapt", "path": None},
    "partition": {"kind": "iid", "clients": 3},
    "evaluation": {"split": "row", "fold": 0},
    "privacy": {"epsilon": 1.0, "delta": 1e-6, "noise": "seeded"},
    "seed": 1,
    "rounds": 2,
    "min_clients": 0.5,
    "timeout": 60.0,
    "memorization": [10],
}


def _make_experiment(rng: np.random.Generator) -> bytes:
    name = str(rng.choice(["fext", "one_shot", "boost", "ldp_bagging", "centralized", "pp_fgrf"]))
    return _damaged_text(_EXPERIMENT | {"strategy": {"name": name, "trees": 20, "depth": 4}}, _as_json, rng)


def _read_experiment(content: bytes, folder: Path) -> None:
    experiment = Experiment.from_json(_text(content))
    assert Experiment.from_json(experiment.to_json()).to_json() == experiment.to_json()


# Tables

_ROWS = Schema.from_dict(
    {
        "features": [
            {"name": "hr", "low": 30, "high": 220, "missing": "branch"},
            {"name": "acc", "low": 0, "high": 9},
            {"name": "side", "categories": ["left", "right"], "missing": "branch"},
        ],
        "target": "kind",
        "classes": ["walk", "True"],
    }
)


def _frame() -> pd.DataFrame:
    sides, kinds = ["left", "right", None, "l\xe9ft"], ["walk", "walk", "True", "walk"]
    return pd.DataFrame({"hr": [80.5, 90, 100, None], "acc": [1, 2, 3, 4], "side": sides, "kind": kinds})


def _make_csv(rng: np.random.Generator) -> bytes:
    text = _frame().to_csv(index=False, sep=str(rng.choice(list(",;\t|"))), quoting=int(rng.integers(2)))
    return damaged(text.encode(str(rng.choice(["utf-8", "utf-16", "latin-1"]))), rng)


def _make_parquet(rng: np.random.Generator) -> bytes:
    file = BytesIO()
    frame = _frame().astype({"side": str(rng.choice(["object", "category"]))})
    frame["acc"] = frame["acc"].astype(str(rng.choice(["int8", "uint64", "float32", "Int64", "bool", "string"])))
    parquet.write_table(pa.Table.from_pandas(frame), file, compression=str(rng.choice(["none", "snappy", "zstd"])))
    if rng.random() < 0.5:
        return damaged(file.getvalue(), rng)
    content = np.frombuffer(file.getvalue(), np.uint8).copy()  # of the same length, its parts are where they were
    content[rng.integers(len(content), size=2)] = rng.integers(256, size=2)
    return content.tobytes()


def _reads_table(suffix: str) -> Callable[[bytes, Path], None]:
    def read(content: bytes, folder: Path) -> None:
        path = folder / f"table{suffix}"
        path.write_bytes(content)
        file = read_table(path, [*_ROWS.columns, _ROWS.target], digests=True)
        assert len(file.numbers("hr")) == len(file.text("side")) == len(file.digests) == len(file)
        table = file.read(_ROWS)
        assert len(table.fits) == len(file)
        assert np.isfinite(table.matrix(file.readable & table.fits)).all()
        with file.named():
            target = read_target(_ROWS, file.columns[_ROWS.target])
        assert set(target.values[target.fits].tolist()) <= {0, 1}

    return read


# Run folders

_CONFIG = _EXPERIMENT | {"evaluation": {"split": "row", "part": "test", "fold": 0}, "overrides": []}
_PRIVACY = {
    "guarantee": "epsilon = 1 (pure) for one record; nobody is trusted",
    "epsilon": 1.0,
    "delta": 0.0,
    "unit": str(RECORD_UNIT),
    "trust": str(OWNER_ONLY),
    "record": "a row",
    "clients": {"0": {"budget": {"epsilon": 1.0, "delta": 0.0}, "epsilon": 1.0, "entries": []}},
}
_METRICS = {"accuracy": 0.5, "clients": 2, "rounds": 1, "importances": {"a": 0.5}}
_METRICS |= {"bytes_down": 5, "bytes_up": 5, "seconds": 1.5}
_RUN: dict[str, tuple[Any, Callable[[Any], bytes]]] = {
    "metrics.json": (_METRICS, _as_json),
    "privacy.json": (_PRIVACY, _as_json),
    "config.yaml": (_CONFIG, _as_yaml),
    "clients.csv": ("client,trains,accuracy,test_rows\n0,True,0.5,9\n1,True,0.25,9\n", str.encode),
    "rounds.csv": ("round,accuracy,bytes_down,bytes_up\n1,0.5,9,9\n", str.encode),
}  # fmt: skip


def _make_run(rng: np.random.Generator) -> dict[str, bytes]:
    files = {name: write(plain) for name, (plain, write) in _RUN.items()}
    name = str(rng.choice(list(files)))
    plain, write = _RUN[name]
    files[name] = damaged(files[name], rng) if isinstance(plain, str) else _damaged_text(plain, write, rng)
    return files


def _read_run(files: dict[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    read_run(folder)


TARGETS = {
    "forest_arrays": Target(_make_arrays, _read_arrays),
    "forest_json": Target(_make_forest_file, _read_forest_file),
    "messages": Target(_make_message, _read_message),
    "ledger": Target(_make_ledger, lambda given, folder: _read_message(_SOUND_ARRAYS | given, folder)),
    "evaluation": Target(_make_sums, _read_sums),
    "schema": Target(_make_schema, _read_schema),
    "experiment": Target(_make_experiment, _read_experiment),
    "csv": Target(_make_csv, _reads_table(".csv")),
    "parquet": Target(_make_parquet, _reads_table(".parquet")),
    "run_folder": Target(_make_run, _read_run),
    "report": Target(make_damage, read_reports, seconds=20.0, cases=8),
}
_SOUND_ARRAYS = {name: array.data for name, array in to_arrays_record(pack(made_up_forest(0))).items()}
