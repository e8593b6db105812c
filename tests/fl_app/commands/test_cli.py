"""The console: help on one screen, the nearest command, options with their meaning, completion."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from fl_app.commands.cli import COMMANDS, command_parser
from fl_app.commands.cli import main as dpforest
from fl_app.commands.completion import completions
from fl_app.config.places import conf_folder

ROOT = Path(__file__).resolve().parents[3]
SCREEN = 24  # lines


def test_help_is_one_screen_with_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert dpforest(["--help"]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= SCREEN
    assert all(re.search(rf"^  {name} +{command.summary}$", text, re.M) for name, command in COMMANDS.items())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_sentence_examples_and_meanings(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        dpforest([*name.split(), "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: dpforest {name} ")
    assert text.split("\n\n")[1].strip(), "a sentence"
    examples = text.partition("examples:\n")[2].splitlines()
    assert examples
    assert all(f"dpforest {name}" in line for line in examples)
    for action in command_parser(name)._actions:
        assert action.help, f"{action.dest} has no meaning"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["comapre"], "error: no command 'comapre'; did you mean 'compare'? (there are attack, audit, "),
        (["sweeep", "seed=1"], "error: no command 'sweeep'; did you mean 'sweep'?"),
        (["data", "chekc"], "error: no command 'data chekc'; did you mean 'data check'? (there are data check, data "),
        (["dat"], "did you mean 'data'?"),
    ],
)
def test_a_command_that_does_not_exist_names_the_nearest(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dpforest(arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_group_of_commands_shows_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert dpforest(["data"]) == 0
    text = capsys.readouterr().out
    assert "data download" in text
    assert "compare" not in text


def test_modules_are_the_same_commands() -> None:
    for module, command in {"fl_app": "run", "fl_app.compare": "compare", "fl_app.data.check": "data check"}.items():
        done = subprocess.run(
            [sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=120
        )
        assert done.stdout.startswith(f"usage: python -m {module} ")
        assert done.stdout.partition("\n\n")[2] == command_parser(command).format_help().partition("\n\n")[2]


@pytest.mark.parametrize("strategy", sorted(file.stem for file in (conf_folder() / "strategy").glob("*.yaml")))
def test_options_are_shown_with_meaning_type_and_default(strategy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dpforest(["run", "--options", f"strategy={strategy}", "seed=5"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"strategy={strategy} ")
    content = yaml.safe_load((conf_folder() / "strategy" / f"{strategy}.yaml").read_text())
    values = content.get("strategy", content)
    plain = {} if "defaults" in values else {k: v for k, v in values.items() if isinstance(v, int | str)}
    for name, value in plain.items():
        if name != "name" and not isinstance(value, bool) and "${" not in str(value):
            assert re.search(rf"^  strategy\.{name} : .+, default {value}$", text, re.M), name
    for name in ("privacy.epsilon", "engine.kind", "dataset.length", "seed", "output", "objective"):
        assert re.search(rf"^  {name} : .+, default .+\n      \w+", text, re.M), f"{name} has a meaning"
    assert "  seed : int, default 5\n" in text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("dpforest co", ["compare", "completion"]),
        ("dpforest data ", ["check", "download", "make", "schema"]),
        ("dpforest run strategy=one", ["strategy=one_shot", "strategy=one_shot_published"]),
        ("dpforest sweep strategy=boost,lr", ["strategy=boost,lrf"]),
        ("dpforest run privacy.e", ["privacy.epsilon="]),
        ("dpforest run strategy=boost strategy.ex", ["strategy.exploration="]),
        ("dpforest run strategy=one_shot strategy.ex", []),
        ("dpforest run engine.k", ["engine.kind="]),
        ("dpforest run --con", ["--config-dir"]),
        ("dpforest export --to ", ["nested", "onnx"]),
        ("dpforest run 'seed=1", []),
        ("dpforest", []),
    ],
)
def test_lines_are_completed(line: str, words: list[str]) -> None:
    assert completions(line) == words


def test_a_users_own_files_are_completed(tmp_path: Path) -> None:
    (tmp_path / "strategy").mkdir()
    (tmp_path / "strategy" / "zz_mine.yaml").write_text("depth: 2\n")
    assert completions(f"dpforest run --config-dir {tmp_path} strategy=z") == ["strategy=zz_mine"]


@pytest.fixture
def console(tmp_path: Path) -> dict[str, str]:
    """An environment where ``dpforest`` is this checkout's."""
    script = tmp_path / "dpforest"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from fl_app.commands.cli import main\nsys.exit(main())\n"
    )
    script.chmod(0o755)
    return os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("dpforest pre", "predict "),
        ("dpforest run strategy=fe", "fedavg"),
        ("dpforest run privacy.e", "privacy.epsilon="),
    ],
)
def test_bash_completes(line: str, reply: str, console: dict[str, str]) -> None:
    ask = (
        'source <(dpforest completion bash); COMP_LINE="$1"; COMP_POINT=${#1}; _dpforest; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", ask, "bash", line], env=console, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[0] == reply
    assert done.stderr == ""


def test_zsh_takes_its_script(console: dict[str, str]) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    ask = "autoload -U compinit; compinit -D; source <(dpforest completion zsh); whence -w _dpforest"
    done = subprocess.run(["zsh", "-c", ask], env=console, capture_output=True, text=True, timeout=120)
    assert "function" in done.stdout


def test_ctrl_c_ends_without_a_traceback(tmp_path: Path, console: dict[str, str]) -> None:
    command = [
        "dpforest",
        "run",
        "engine.kind=in_process",
        "strategy=boost",
        "rounds=5000",
        f"output={tmp_path / 'run'}",
    ]
    child = subprocess.Popen(command, env=console, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        if line.startswith("exchange "):
            break
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=120)
    assert child.returncode == 130
    assert "Traceback" not in out + err


def test_what_the_help_loads_is_light() -> None:
    code = (
        "from fl_app.commands.cli import main\nimport sys\nmain(['--help'])\n"
        "heavy = {'flwr', 'ray', 'hydra', 'numpy', 'pandas', 'numba', 'rich', 'yaml'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, timeout=120)


def test_a_shell_that_is_not_known_is_answered_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        dpforest(["completion", "fish"])
    assert "'fish' must be one of bash, zsh\n" in capsys.readouterr().err


def test_help_of_a_run_names_options_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    from fl_app.config.compose import check_overrides

    with pytest.raises(SystemExit):
        dpforest(["run", "--help"])
    text = capsys.readouterr().out
    named = re.findall(r"^  ([a-z._]+)=\S+ {2,}\S", text, re.M)
    assert {"strategy", "dataset", "privacy.epsilon", "seed", "rounds", "output"} <= set(named)
    known = {"strategy": "boost", "dataset": "watch", "partition": "iid", "evaluation": "subject"}
    check_overrides([f"{name}={known.get(name, '1')}" for name in named])
    assert len(re.findall(r"^  dpforest run", text, re.M)) == 3
