"""A damaged value in a run folder costs its run, which is named; report, compare and resume go on with the others."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import yaml
from made_up_runs import write_run

from fl_app.engine.experiment import ConfigurationError
from fl_app.jobs.sweep_folder import Missing, split_resume
from fl_app.report.answer import answer, in_words
from fl_app.report.gather import gather
from fl_app.report.ledgers import disclosures
from fl_app.report.page import REPORT, write_page
from fl_app.report.papers.ldp_document import document_tables
from fl_app.report.tables import section_tables
from fl_app.results.rows import RESULTS, write_results
from fl_app.results.run_folder import OutputError
from tests.fuzz.mutations import damaged, damaged_plain

CASES = 300
DIGITS = 10**400
DEEP = "[" * 20_000


def _runs(folder: Path) -> tuple[Path, dict[str, bytes]]:
    """A sweep of two sound runs, and one to damage with its files."""
    for seed in (1, 2):
        write_run(folder / str(seed), seed=seed, memorization=True, public_rows=50)
    run = write_run(folder / "bad", seed=3, rounds=2, memorization=True, public_rows=50)
    return run, {path.name: path.read_bytes() for path in run.iterdir()}


def _read_all(folder: Path) -> set[str]:
    """Names of the runs that reports read, after all words and tables of them were made."""
    found = gather([folder])
    for section in found.sections:
        section_tables(section)
        disclosures(section)
    "\n".join([in_words([answer(section) for section in found.sections]), *map(str, found.left_out)]).encode()
    write_results(folder)
    Missing(folder)
    read = {run.folder.name for run in found.runs}
    assert read >= {"1", "2"}
    for left_out in found.left_out:
        assert left_out.folder.name == "bad"
        assert "\n" not in str(left_out)
        assert len(left_out.reason) < 2500
    assert read | {each.folder.name for each in found.left_out} == {"1", "2", "bad"} or found.duplicates
    assert (folder / RESULTS).read_text(encoding="utf-8").count("\n") == 1 + len(read) + found.duplicates
    return read


def _changed(file: str, content: bytes, keys: tuple[Any, ...], value: Any) -> bytes:
    plain = yaml.safe_load(content) if file.endswith("yaml") else json.loads(content)
    place = plain
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return (yaml.safe_dump(plain, sort_keys=False) if file.endswith("yaml") else json.dumps(plain)).encode()


@pytest.mark.parametrize(
    ("file", "keys", "value"),
    [
        ("metrics.json", ("bytes_up",), "x"),
        ("metrics.json", ("seconds",), None),
        ("metrics.json", ("accuracy",), "0.5"),
        ("metrics.json", ("accuracy",), True),
        ("metrics.json", ("importances",), 3),
        ("metrics.json", ("importances", "ax"), [1]),
        ("metrics.json", ("owner_accuracy",), [1, 2]),
        ("metrics.json", ("memorization_rate",), "x"),
        ("metrics.json", ("memorization_rate",), {"x": 0.5}),
        ("metrics.json", ("owner_accuracy",), {"a client": 0.5}),
        ("metrics.json", ("noise",), 3),
        ("metrics.json", ("comparison_methods",), {"lrf": 3}),
        ("metrics.json", ("epsilon_a_round",), "x"),
        ("metrics.json", ("classes",), 3),
        ("metrics.json", ("classes", 0), "\ud800"),
        ("metrics.json", ("confusion",), [[1], [2, 3]]),
        ("metrics.json", ("test_rows",), DIGITS),
        ("metrics.json", ("ended_early",), {"a": 1}),
        ("privacy.json", ("record",), "\ud800"),
        ("privacy.json", ("epsilon",), "much"),
        ("privacy.json", ("clients", "0", "entries", 0, "mu"), "x"),
        ("privacy.json", ("clients", "0", "entries"), 5),
        ("privacy.json", ("clients", "0", "epsilon"), [1]),
        ("config.yaml", ("strategy", "name"), ["one_shot"]),
        ("config.yaml", ("dataset",), ["watch"]),
        ("config.yaml", ("evaluation", "public_share"), "x"),
        ("config.yaml", ("evaluation", "seed"), [1]),
        ("config.yaml", ("dataset", "features"), {2: "x"}),
        ("config.yaml", ("seed",), "x"),
        ("config.yaml", ("rounds",), DIGITS),
    ],
)
def test_a_value_of_another_form_costs_its_run_only(tmp_path: Path, file: str, keys: tuple[Any, ...], value: Any):
    run, files = _runs(tmp_path)
    (run / file).write_bytes(_changed(file, files[file], keys, value))
    assert _read_all(tmp_path) == {"1", "2"}
    (left_out,) = gather([tmp_path]).left_out
    assert (left_out.folder, left_out.what) == (run, "damaged")
    assert file in left_out.reason
    if value not in (DIGITS, "\ud800", {2: "x"}):
        assert next(key for key in reversed(keys) if isinstance(key, str)) in left_out.reason


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("clients.csv", b"0.8", b"text"),
        ("clients.csv", b"0.8", b"9" * 400),
        ("clients.csv", b"client,", b"patient,"),
        ("clients.csv", b"test_rows", b"rows"),
        ("rounds.csv", b"round,", b"time,"),
        ("rounds.csv", b"5000", b"many"),
        ("metrics.json", b"{", b'{"a":' + DEEP.encode()),
        ("privacy.json", b'"note": ""', b'"note": ' + DEEP.encode()),
        ("config.yaml", b"seed: 3", b"seed: " + DEEP.encode()),
        ("config.yaml", b"seed: 3", b"seed: 2020-01-01"),
        ("config.yaml", b"seed: 3", b"seed: 3\n2020-01-01: x"),
    ],
)
def test_a_table_or_text_of_another_form_costs_its_run_only(tmp_path: Path, file: str, old: bytes, new: bytes) -> None:
    run, files = _runs(tmp_path)
    assert old in files[file]
    (run / file).write_bytes(files[file].replace(old, new, 1))
    assert _read_all(tmp_path) == {"1", "2"}


def _folder(path: Path) -> None:
    path.mkdir()


def _itself(path: Path) -> None:
    path.symlink_to(path)


def _nothing(path: Path) -> None:
    pass


@pytest.mark.parametrize("file", ["metrics.json", "privacy.json", "config.yaml", "clients.csv", "rounds.csv"])
@pytest.mark.parametrize("instead", [_folder, _itself, _nothing])
def test_a_file_that_is_none_costs_its_run_only(tmp_path: Path, file: str, instead: Callable[[Path], None]) -> None:
    run, _ = _runs(tmp_path)
    (run / file).unlink()
    instead(run / file)
    assert _read_all(tmp_path) == {"1", "2"}
    (left_out,) = gather([tmp_path]).left_out
    assert (left_out.folder, left_out.what) == (run, "damaged")
    assert file in left_out.reason


def test_a_folder_in_the_place_of_the_table_of_a_sweep_is_named_in_one_line(tmp_path: Path) -> None:
    _runs(tmp_path)
    (tmp_path / RESULTS).mkdir()
    with pytest.raises(OutputError, match=r"cannot write .*results\.csv: Is a directory; move away what is there"):
        write_results(tmp_path)
    assert not list(tmp_path.glob("*.partial"))


def test_names_of_others_are_printable_on_pages_and_in_figures(tmp_path: Path) -> None:
    folder = tmp_path / "\x1b[2J"
    odd, shown = "l\x1b]0;o\x07w", r"l\x1b]0;o\x07w"
    for seed in (1, 2):
        run = write_run(folder / f"\x08{seed}", seed=seed, classes=(odd, "high"))
        metrics = json.loads((run / "metrics.json").read_text())
        metrics["importances"] = {odd: 0.75, "b": 0.25}
        (run / "metrics.json").write_text(json.dumps(metrics))
    (folder / "\x07").mkdir()
    (folder / "\x07" / "FAILED.txt").write_text("no rows\n")
    write_page(gather([folder]), folder)
    (section,) = gather([folder]).sections
    assert section.runs[0].metrics["classes"] == [shown, "high"]
    assert list(section.runs[0].metrics["importances"]) == [shown, "b"]
    page = (folder / REPORT).read_text(encoding="utf-8")
    assert shown in page
    assert all(character.isprintable() or character in "\n\t\u200b\u00a0\u202f" for character in page)
    figures = list((folder / "figures").rglob("*.svg"))
    assert figures
    for figure in figures:
        ElementTree.fromstring(figure.read_bytes())


def test_why_a_run_failed_is_text_whatever_its_folder_says(tmp_path: Path) -> None:
    _runs(tmp_path)
    failed = tmp_path / "\x1b[2J"
    failed.mkdir()
    (failed / "FAILED.txt").write_bytes(b"\xff\x1b[2J no \x07rows\n" * 100_000)
    (left_out,) = (each for each in gather([tmp_path]).left_out if each.what == "failed")
    assert str(left_out).isprintable()
    assert "no rows" in str(left_out)
    assert len(str(left_out)) < 2500


def test_a_run_without_its_model_is_reported_without_its_size(tmp_path: Path) -> None:
    facts = {"precision": 0.5, "trees": 3, "depth": 2, "epsilon_a_round": 1.0, "epsilon_counted": 1.0}
    noise = {"numbers": 9, "mean": 0.5, "largest": 2.0, "relative_change": None, "expected_mean": 1.0}
    noise |= {"document_mean": None, "document_largest": None}
    for seed in (1, 2):
        run = write_run(tmp_path / str(seed), "ldp_bagging", seed=seed, accounting="published", classes=("no", "yes"))
        plain = json.loads((run / "metrics.json").read_text())
        plain |= facts | {"noise": dict.fromkeys(("leaf values", "importances"), noise)}
        (run / "metrics.json").write_text(json.dumps(plain))
    (run / "model").mkdir()
    (run / "model" / "forest.json").write_bytes(b"x" * 6000)
    (section,) = gather([tmp_path]).sections
    assert "6.0 kB" in document_tables(section), "of the run that has a model"
    (run / "model" / "forest.json").unlink()
    assert "model file" in document_tables(section)
    for kind, value in [("mean", "x"), ("numbers", -1), ("largest", None), ("relative_change", [])]:
        damaged_noise = plain["noise"] | {"leaf values": noise | {kind: value}}
        (run / "metrics.json").write_text(json.dumps(plain | {"noise": damaged_noise}))
        (left_out,) = gather([tmp_path]).left_out
        assert f"noise on leaf values: {kind} is" in left_out.reason


def test_random_damage_costs_its_run_only(tmp_path: Path) -> None:
    run, files = _runs(tmp_path)
    rng = np.random.default_rng(0)
    taken = 0
    for case in range(CASES):
        file = str(rng.choice(sorted(files)))
        if file.endswith("csv") or rng.random() < 0.3:
            content = damaged(files[file], rng)
        else:  # JSON is YAML, too
            content = json.dumps(damaged_plain(yaml.safe_load(files[file]), rng)).encode()
        (run / file).write_bytes(content)
        os.utime(run / "metrics.json", (case, case))  # what a sweep has read it does not read again
        try:
            taken += "bad" in _read_all(tmp_path)
        except Exception as error:
            raise AssertionError(f"{file}: {content[:3000]!r}") from error
        (run / file).write_bytes(files[file])
    assert 0 < taken < CASES


def test_a_damaged_failed_run_costs_nothing(tmp_path: Path) -> None:
    run, files = _runs(tmp_path)
    (run / "metrics.json").unlink()
    (run / "FAILED.txt").write_text("no rows\n")
    for keys, value in [(("strategy", "name"), ["x"]), (("strategy",), 3), (("dataset", "name"), {}), (("seed",), [])]:
        (run / "config.yaml").write_bytes(_changed("config.yaml", files["config.yaml"], keys, value))
        (section,) = gather([tmp_path]).sections
        assert section.absent == []


@pytest.mark.parametrize(
    "text",
    [
        DEEP,
        "hydra: [",
        "hydra: {overrides: {hydra: [], task: text}}",
        "hydra: {overrides: {hydra: [], task: [3]}}",
        "3",
    ],
)
def test_a_damaged_sweep_is_not_resumed_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "multirun.yaml").write_text(text)
    with pytest.raises(ConfigurationError, match=r"multirun\.yaml is damaged.*start the sweep anew"):
        split_resume([f"+resume={tmp_path}"])


def test_runs_that_went_on_without_clients_say_so_everywhere(tmp_path: Path) -> None:
    run, files = _runs(tmp_path)
    plain = json.loads(files["metrics.json"]) | {"trained": 2, "left_out": {"1": "not connected"}}
    (run / "metrics.json").write_text(json.dumps(plain))
    words = "2 of 3 trained all through: client 1 left out (not connected)"
    assert _read_all(tmp_path) == {"1", "2", "bad"}
    (section,) = gather([tmp_path]).sections
    assert words in section.note
    assert words in section_tables(section)
    assert f"In 1 of 3 runs not all clients trained all through: one_shot at epsilon 1, seed 3: {words}." in in_words(
        [answer(section)]
    )
    table = pd.read_csv(tmp_path / RESULTS)
    assert list(table.columns[-2:]) == ["trained", "left_out"]
    assert table["left_out"].dropna().tolist() == [words]
