"""predict and export on files that are damaged, none, or cannot be written: one line, and nothing is left behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from made_up_forests import made_up_forest

from dpforest.forest.json_format import to_dict
from fl_app.commands.cli import main as dpforest
from tests.fuzz.mutations import damaged, damaged_plain

CASES = 40


def _folder(path: Path) -> None:
    path.mkdir()


def _itself(path: Path) -> None:
    path.symlink_to(path)


def _nothing(path: Path) -> None:
    pass


def _bytes(path: Path) -> None:
    path.write_bytes(np.random.default_rng(0).bytes(5000))


def _deep(path: Path) -> None:
    path.write_text("[" * 200_000)


def _digits(path: Path) -> None:
    path.write_text("9" * 5000)


def _cut(path: Path) -> None:
    path.write_bytes(b'{"version')


def _commands(folder: Path) -> list[list[str]]:
    model, table, out = (str(folder / name) for name in ("forest.json", "new.csv", "out"))
    return [
        ["predict", "--explain", "--model", model, "--data", table, "--out", out],
        ["export", "--to", "onnx", "--model", model, "--out", out],
        ["export", "--to", "nested", "--model", model, "--out", out],
    ]


def _write(folder: Path, seed: int = 0) -> str:
    """A sound model and a table of one row for it; the text of the model."""
    forest = made_up_forest(seed, output="probability")
    text = json.dumps(to_dict(forest))
    (folder / "forest.json").write_text(text)
    schema = forest.schema
    cells = {column: schema.categories.get(column, ["0.5"])[0] for column in schema.columns}
    (folder / "new.csv").write_text(f"{','.join(cells)}\n{','.join(map(str, cells.values()))}\n")
    return text


def _damaged_model(text: str, rng: np.random.Generator) -> bytes:
    """Its text, its data, or only what it says of where it comes from is damaged."""
    plain = json.loads(text)
    if (kind := rng.integers(3)) == 0:
        return damaged(text.encode(), rng)
    about = {"method": "x", "privacy": {"epsilon": 1.0}, "clients": [{"id": "a", "trees": 2}]}
    changed = damaged_plain(plain, rng) if kind == 1 else plain | {"provenance": damaged_plain(about, rng)}
    return json.dumps(changed).encode()


def _tried(command: list[str], capsys: pytest.CaptureFixture[str]) -> bool:
    """Whether a command did its work; else it has said why not, in one line that a terminal obeys nothing of."""
    code = dpforest(command)
    said = capsys.readouterr()
    assert code in (0, 1)
    if code:
        assert said.err.count("\n") == 1
        assert said.err.rstrip("\n").isprintable()
        assert len(said.err) < 2500
    return code == 0


@pytest.mark.parametrize("instead", [_folder, _itself, _nothing, _bytes, _deep, _digits, _cut])
@pytest.mark.parametrize("name", ["forest.json", "new.csv"])
def test_what_is_no_input_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, instead: Callable[[Path], None]
) -> None:
    _write(tmp_path)
    (tmp_path / name).unlink()
    instead(tmp_path / name)
    there = set(tmp_path.iterdir())
    for command in _commands(tmp_path)[: None if name == "forest.json" else 1]:
        assert not _tried(command, capsys)
    assert set(tmp_path.iterdir()) == there


def test_a_folder_in_the_place_of_the_output_is_named_and_nothing_is_left_next_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path)
    (tmp_path / "out").mkdir()
    there = set(tmp_path.iterdir())
    for command in _commands(tmp_path):
        assert dpforest(command) == 1
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert f"Is a directory: '{tmp_path / 'out'}'" in error
        assert set(tmp_path.iterdir()) == there


def test_an_output_that_cannot_be_made_keeps_the_one_there_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path)
    (tmp_path / "out").write_text("earlier")

    def full(path: Path, *_: object, **__: object) -> int:
        path.touch()
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_text", full)
    monkeypatch.setattr(Path, "write_bytes", full)
    for command in _commands(tmp_path)[1:]:
        assert not _tried(command, capsys)
        assert (tmp_path / "out").read_text() == "earlier"
        assert {path.name for path in tmp_path.iterdir()} == {"forest.json", "new.csv", "out"}


def test_a_damaged_model_is_used_or_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = 0
    for case in range(CASES):
        rng = np.random.default_rng(case)
        text = _write(tmp_path, case % 3)
        content = _damaged_model(text, rng)
        (tmp_path / "forest.json").write_bytes(content)
        for command in _commands(tmp_path):
            (tmp_path / "out").unlink(missing_ok=True)
            done = _tried(command, capsys)
            assert (tmp_path / "out").exists() == done
            taken += done
    assert 0 < taken < CASES * 3
