"""``dpforest COMMAND``: one console for all commands; each is a module that is loaded when it is asked for.

A command's module has a docstring, whose first sentence is what `dpforest COMMAND --help` begins with, ``EXAMPLES``,
``add_arguments(parser)`` and ``execute(options)``, which returns the exit code. What it raises is said in one line; the
exit code is then the module's ``FAILED``, or 1.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

from dpforest.errors import DPForestError, did_you_mean

_BROKEN_PIPE, _INTERRUPTED = 141, 130  # as shells report programs that SIGPIPE and SIGINT ended


class Command(NamedTuple):
    """A command: its module, and what the list of all says of it."""

    module: str
    summary: str


COMMANDS = {
    "plan": Command("fl_app.commands.plan", "what a run can be expected to do, without any data"),
    "run": Command("fl_app.commands.run", "run one experiment"),
    "sweep": Command("fl_app.commands.sweep", "run every combination of several values, and report"),
    "resume": Command("fl_app.commands.resume", "go on with a sweep that was interrupted"),
    "compare": Command("fl_app.commands.compare", "tables of many runs, and which method is best"),
    "report": Command("fl_app.commands.report", "one page of many runs, with figures"),
    "statement": Command("fl_app.commands.statement", "what a run guarantees, for a data protection officer"),
    "ledger": Command("fl_app.commands.ledger", "count a run's ledgers again, by independent means"),
    "audit": Command("fl_app.commands.audit", "measure what a client gives away, against its guarantee"),
    "attack": Command("fl_app.commands.attack", "what an attacker gets from a finished run"),
    "predict": Command("fl_app.commands.predict", "predict new rows with a finished model"),
    "export": Command("fl_app.commands.export", "write a forest for other programs"),
    "node": Command("fl_app.commands.node", "take part in a federation with one's own rows"),
    "node status": Command("fl_app.commands.node_status", "what a node was asked, and what it has spent"),
    "data check": Command("fl_app.commands.data_check", "what is wrong with recordings or tables, by file and line"),
    "data schema": Command("fl_app.commands.data_schema", "draft the schema of a table"),
    "data download": Command("fl_app.commands.data_download", "get a public data set"),
    "data make": Command("fl_app.commands.data_make", "make synthetic recordings up"),
    "completion": Command("fl_app.commands.completion", "let the shell complete commands and options"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name; the exit code."""
    return _quietly(lambda: _dispatch(list(sys.argv[1:] if arguments is None else arguments)))


def run_module(command: str, module: str) -> int:
    """The same command as ``python -m MODULE``."""
    return _quietly(lambda: _execute(command, sys.argv[1:], f"python -m {module}"))


def command_parser(command: str, prog: str | None = None) -> argparse.ArgumentParser:
    """What understands a command's arguments."""
    module = import_module(COMMANDS[command].module)
    return _parser(module, prog or f"dpforest {command}")


def _parser(module: ModuleType, prog: str) -> argparse.ArgumentParser:
    examples = "\n".join(f"  {line}" for line in module.EXAMPLES.splitlines())
    parser = argparse.ArgumentParser(
        prog=prog,
        description=module.__doc__,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    return parser


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(help_text())
        return 0
    if arguments[0] == "--version":
        from dpforest import __version__

        print(f"dpforest {__version__}")
        return 0
    command = " ".join(arguments[:2])
    if command in COMMANDS:
        return _execute(command, arguments[2:])
    if arguments[0] in COMMANDS:
        return _execute(arguments[0], arguments[1:])
    return _unknown(arguments)


def _execute(command: str, arguments: Sequence[str], prog: str | None = None) -> int:
    parser = command_parser(command, prog)
    options = parser.parse_intermixed_args(arguments)
    options.parser = parser
    module = import_module(COMMANDS[command].module)
    try:
        return int(module.execute(options))
    except BrokenPipeError:
        raise
    except (DPForestError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return int(getattr(module, "FAILED", 1))


def _unknown(arguments: Sequence[str]) -> int:
    """Say which commands there are; a group such as ``data`` shows its own."""
    own = [name for name in COMMANDS if name.startswith(f"{arguments[0]} ")]
    asked_for_help = len(arguments) == 1 or arguments[1] in ("-h", "--help")
    if own and asked_for_help:
        print(_list_of(own, f"usage: dpforest {arguments[0]} COMMAND ..."))
        return 0
    name = " ".join(arguments[:2]) if own else arguments[0]
    known = own or sorted(COMMANDS)
    near = did_you_mean(name, own or {word for each in COMMANDS for word in (each, each.partition(" ")[0])})
    print(f"error: no command {name!r}{near} (there are {', '.join(known)})", file=sys.stderr)
    return 2


def help_text() -> str:
    """All commands on one screen."""
    usage = "usage: dpforest COMMAND ...\nPrivate decision forests across data owners."
    more = "dpforest COMMAND --help has examples; dpforest run --options shows every option; dpforest --version."
    return f"{_list_of(list(COMMANDS), usage)}\n\n{more}"


def _list_of(names: Sequence[str], usage: str) -> str:
    width = max(map(len, names))
    return "\n".join([usage, "", *(f"  {name:{width}}  {COMMANDS[name].summary}" for name in names)])


def _quietly(action: Callable[[], int]) -> int:
    """What an action returns; it ends without a word when it is interrupted, or nobody reads on (``| head -1``)."""
    try:
        try:
            return action()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at its end, and would report that too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        return _INTERRUPTED
