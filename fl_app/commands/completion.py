"""Print what lets a shell complete commands, flags and options of dpforest when TAB is pressed.

Add the line of the examples to ~/.bashrc or ~/.zshrc.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fl_app.config.places import conf_folder

EXAMPLES = """\
source <(dpforest completion bash)
source <(dpforest completion zsh)"""

# Bash breaks words at "=" and ":"; what it replaces is what stands after the last of them.
_BASH = r"""_dpforest() {
    local IFS=$'\n'
    COMPREPLY=($(dpforest completion words "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} != *[=.] ]]; then COMPREPLY[0]+=" "; fi
    local word="${COMP_LINE:0:COMP_POINT}"; word="${word##* }"
    local kept="${word%"${word##*[=:]}"}"
    COMPREPLY=("${COMPREPLY[@]#"$kept"}")
}
complete -o nospace -o default -F _dpforest dpforest
"""
_ZSH = r"""#compdef dpforest
_dpforest() {
    local -a found
    found=("${(@f)$(dpforest completion words "${(j: :)words[1,CURRENT]}" 2>/dev/null)}")
    [[ -n "${found[1]}" ]] && compadd -S '' -- "${found[@]}" || _files
}
compdef _dpforest dpforest
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which shell; ``words`` is what its script asks."""
    parser.add_argument("shell", type=_shell, metavar=f"{{{','.join(_SCRIPTS)}}}", help="which shell")
    parser.add_argument("line", nargs="?", default="", help=argparse.SUPPRESS)


def _shell(text: str) -> str:
    if text not in (*_SCRIPTS, "words"):
        raise argparse.ArgumentTypeError(f"{text!r} must be one of {', '.join(_SCRIPTS)}")
    return text


def execute(options: argparse.Namespace) -> int:
    """Print the script, or the words that a line can go on with."""
    if options.shell == "words":
        print("\n".join(completions(options.line)))
    else:
        print(_SCRIPTS[options.shell], end="")
    return 0


def completions(line: str) -> list[str]:
    """Words that the last one of a command line may become.

    Parameters
    ----------
    line : str
        From ``dpforest`` to the cursor.
    """
    words = _words(line)
    if len(words) < 2:
        return []
    last = words[-1]
    return sorted({word for word in _candidates(words[1:-1], last) if word.startswith(last)})


def _words(line: str) -> list[str]:
    """The words of a line; the last one is empty where a new one begins, and may have a quote that is still open."""
    for closed in ("", "'", '"'):
        try:
            words = shlex.split(line + closed)
        except ValueError:
            continue
        return [*words, ""] if line.endswith(" ") and not closed else words
    return []


def _candidates(before: Sequence[str], last: str) -> Iterator[str]:
    from fl_app.commands.cli import COMMANDS, command_parser

    depth = next((n for n in (2, 1) if " ".join(before[:n]) in COMMANDS and len(before) >= n), None)
    if depth is None:
        start = "".join(f"{word} " for word in before)
        yield from (name.removeprefix(start).partition(" ")[0] for name in COMMANDS if name.startswith(start))
        return
    command = " ".join(before[:depth])
    flags = {name: action for action in command_parser(command)._actions for name in action.option_strings}
    given = flags.get(before[-1])
    if given is not None and given.choices:
        yield from map(str, given.choices)
    elif last.startswith("-"):
        yield from flags
    elif command in ("run", "sweep", "resume"):
        yield from _options(before[depth:], last)


def _options(before: Sequence[str], last: str) -> Iterator[str]:
    """Options as ``NAME=``; of a group, its files; of a group that was chosen, what is in that file.

    Only files are read: composing them would keep the user waiting.
    """
    own = (Path(word).expanduser() for flag, word in itertools.pairwise(before) if flag in ("-cd", "--config-dir"))
    folders = [conf_folder(), *own]
    groups: dict[str, dict[str, Path]] = {}
    for file in (file for folder in folders for file in sorted(folder.glob("*/*.yaml"))):
        groups.setdefault(file.parent.name, {}).setdefault(file.stem, file)
    group, equals, value = last.partition("=")
    if equals:
        values, comma, _ = value.rpartition(",")
        yield from (f"{group}={values}{comma}{name}" for name in groups.get(group, {}))
        return
    config = _read(folders[0] / "config.yaml")
    defaults = (line for line in config.pop("defaults", []) if isinstance(line, dict))
    chosen = {name: str(each) for line in defaults for name, each in line.items()}
    chosen |= dict(word.split("=", 1) for word in before if "=" in word)
    yield from (f"{name}=" for name in groups)
    yield from (f"{name}=" for name in _names(config) if not name.startswith("hydra"))
    for name, files in groups.items():
        for each in chosen.get(name, "").split(","):
            if each in files:
                yield from (f"{name}.{key}=" for key in _names(_own_part(_read(files[each]), name)))


def _own_part(content: dict[str, Any], group: str) -> dict[str, Any]:
    """Of a file that says more than its group, such as a strategy's default delta, the group."""
    part = content.get(group, content)
    return {key: value for key, value in part.items() if key not in ("name", "defaults", "default_delta")}


def _read(file: Path) -> dict[str, Any]:
    import yaml

    return yaml.safe_load(file.read_text(encoding="utf-8")) or {}


def _names(config: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in config.items():
        if isinstance(value, dict) and value:
            yield from _names(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"
