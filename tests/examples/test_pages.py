"""What pages give readers to type is understood, and the Python of tutorials runs as it is printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import pytest

from fl_app.commands.cli import COMMANDS, command_parser
from fl_app.config.compose import check_overrides, plain_overrides, started_hydra

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in path.parts),
    *sorted((ROOT / "examples").rglob("*.rst")),
]
# Of `python -m fl_app.NAME`, as `dpforest COMMAND` calls it.
MODULES = {
    "fl_app": "run", "fl_app.compare": "compare", "fl_app.report": "report", "fl_app.audit": "audit",
    "fl_app.predict": "predict", "fl_app.export": "export", "fl_app.data.check": "data check",
    "fl_app.data.download": "data download", "fl_app.data.make_exercise": "data make",
}  # fmt: skip
# A method that is not installed here.
FROM_ELSEWHERE = ("majority_votes",)


def commands() -> Iterator[tuple[str, list[str]]]:
    """Page and words of each line that calls dpforest and names nothing to be replaced by more than one word."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in re.findall(r"^\s*((?:dpforest|python -m fl_app\S*) .*)$", text, re.M):
            if "..." not in line and not any(name in line for name in FROM_ELSEWHERE):
                yield str(page.relative_to(ROOT)), shlex.split(line, comments=True)


def as_command(words: list[str]) -> tuple[str, list[str]]:
    """Command and arguments."""
    if words[0] == "python":
        return MODULES[words[2]], words[3:]
    two = " ".join(words[1:3])
    return (two, words[3:]) if two in COMMANDS else (words[1], words[2:])


@pytest.mark.parametrize(("page", "words"), list(commands()), ids=lambda value: value if isinstance(value, str) else "")
def test_a_command_of_a_page_is_understood(page: str, words: list[str]) -> None:
    command, arguments = as_command(words)
    assert command in COMMANDS, words
    try:
        options = command_parser(command).parse_intermixed_args(arguments)
    except SystemExit:
        pytest.fail(f"{page}: {shlex.join(words)}")
    named = [text for text in getattr(options, "overrides", []) if not text.startswith(("clients=", "+resume="))]
    with started_hydra():
        check_overrides(plain_overrides(named))


@pytest.mark.filterwarnings("ignore::dpforest.errors.PrivacyLeakWarning")
@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "tutorials").glob("*.md")), ids=lambda page: page.stem)
def test_the_python_of_a_tutorial_runs(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)
    exec(compile("\n".join(blocks), str(page), "exec"), {})
