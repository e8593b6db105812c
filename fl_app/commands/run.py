"""Run one experiment; or a sweep of many, with -m.

Options are NAME=VALUE. A group of them is chosen by its file, such as strategy=boost; what is in it is named by a dot.
`--options` shows all that there are, with types and defaults. Most used are:

  strategy=NAME            the method: one_shot, boost, fext, standalone, centralized, dp_sgd, ...
  dataset=NAME             the rows: watch, hugadb, ...; table with dataset.path and dataset.schema for your own
  partition=NAME           how rows are divided among clients: subject, iid, ...
  evaluation=NAME          which rows are held out: row, or subject for people that nobody trained on
  privacy.epsilon=NUMBER   what each client may spend over the run; inf for no privacy
  privacy.delta=NUMBER     for Gaussian noise, far below 1 / rows; 0 for pure differential privacy
  rounds=N                 of methods that have several
  seed=N                   of all simulated randomness
  output=FOLDER            where the run goes
  engine.kind=in_process   one client after another, without Ray: no start-up, the same numbers
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

EXAMPLES = """\
dpforest run strategy=boost dataset=watch privacy.epsilon=0.5 seed=3
dpforest run strategy=one_shot dataset=table dataset.path=FOLDER dataset.schema=schema.yaml output=here
dpforest run --options strategy=boost"""
_INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
log = logging.getLogger("fl_app")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What a run takes, and Hydra's own flags under their usual names."""
    parser.add_argument("-m", "--multirun", action="store_true", help="a sweep: every combination of all values")
    add_sweep_arguments(parser)


def add_sweep_arguments(parser: argparse.ArgumentParser) -> None:
    """What a sweep takes."""
    parser.add_argument("overrides", nargs="*", metavar="NAME=VALUE", help="options; see --options")
    parser.add_argument("--options", action="store_true", help="show options with meaning, type and default, and end")
    parser.add_argument("-c", "--cfg", choices=("job", "hydra", "all"), help="show the configuration, and end")
    parser.add_argument("-p", "--package", metavar="NAME", help="with --cfg: this part only")
    parser.add_argument("--resolve", action="store_true", help="with --cfg: with all references resolved")
    parser.add_argument("-i", "--info", nargs="?", const="all", choices=_INFO, help="show how Hydra found it, and end")
    parser.add_argument("--hydra-help", action="store_true", help="Hydra's own help, and end")
    parser.add_argument(
        "-cd",
        "--config-dir",
        metavar="DIR",
        type=Path,
        help="your own strategy/*.yaml, experiment/*.yaml ...",
    )


def execute(options: argparse.Namespace) -> int:
    """Run, and say by the exit code whether everything went well."""
    # Here, as in all commands: help and completion do without what takes a second to load.
    from dpforest.errors import DPForestError
    from fl_app.config.compose import own_folder
    from fl_app.terminal.interrupts import interrupted_code, interruptible
    from fl_app.terminal.quiet import quiet_frameworks
    from fl_app.terminal.screen import log_to_screen

    quiet_frameworks()
    log_to_screen()
    try:
        places = [own_folder(options.config_dir)] if options.config_dir else []
        overrides = [*places, *options.overrides]
        if options.options:
            from fl_app.commands.options import options_text

            print(options_text(overrides))
            return 0
        if options.cfg or options.info or options.hydra_help:
            return _show(options, overrides)
        with interruptible():
            try:
                return _run(["-m"] * options.multirun + overrides)
            except KeyboardInterrupt as interrupt:
                log.info("interrupted%s", interrupt)
                return interrupted_code()
    except DPForestError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _show(options: argparse.Namespace, overrides: Sequence[str]) -> int:
    """Print what Hydra shows, at once: where nobody reads on, Hydra would report the broken pipe as a defect."""
    import hydra

    from fl_app.config.compose import check_overrides, plain_overrides
    from fl_app.config.places import conf_folder

    overrides = plain_overrides(overrides)
    check_overrides(overrides)
    flags = [f"--{name}={value}" for name in ("cfg", "info", "package") if (value := getattr(options, name))]
    flags += ["--resolve"] * options.resolve + ["--hydra-help"] * options.hydra_help
    show = hydra.main(config_path=str(conf_folder()), config_name="config", version_base="1.3")(_nothing)
    printed, given = io.StringIO(), sys.argv
    sys.argv = [given[0], *flags, *overrides]
    try:
        with contextlib.redirect_stdout(printed):
            show()
    finally:
        sys.argv = given
        print(printed.getvalue(), end="")
    return 0


def _nothing(config: Any) -> None:
    """What Hydra would run if it had not been asked to show something."""


def _run(arguments: Sequence[str]) -> int:
    from fl_app.config.compose import check_overrides, plain_overrides, started_hydra
    from fl_app.jobs.expansion import expand
    from fl_app.jobs.launchers import check_plugins
    from fl_app.jobs.sweep_folder import is_sweep, place_runs, split_resume

    arguments, resumed = split_resume(arguments)
    with started_hydra():
        overrides = plain_overrides([text for text in arguments if text != "-m"])
        check_plugins(overrides)
        check_overrides(overrides)
        sweeps = is_sweep(arguments)
        overrides = [text for text in place_runs(["-m"] * sweeps + overrides) if text != "-m"]
        if sweeps:
            return _run_sweep(overrides, resumes=resumed is not None)
        if any(text.startswith("experiment=") for text in overrides) and (runs := len(expand(overrides))) > 1:
            log.warning(
                "this experiment has %d runs; without -m this is a single one, which takes no value from its lists",
                runs,
            )
        return _run_single(overrides)


def _run_single(overrides: Sequence[str]) -> int:
    from fl_app.jobs.engine import WarmEngine
    from fl_app.jobs.sweeping import run_single
    from fl_app.terminal.screen import Bars

    with Bars() as bars, WarmEngine() as engine:
        return 0 if run_single(overrides, engine, bars) else 1


def _run_sweep(overrides: Sequence[str], resumes: bool) -> int:
    from fl_app.jobs.engine import WarmEngine
    from fl_app.jobs.sweep_folder import resume_command
    from fl_app.jobs.sweeping import Sweep
    from fl_app.terminal.screen import Bars

    bars, engine = Bars(), WarmEngine()
    sweep = Sweep(overrides, engine, bars, resumes)
    try:
        with bars, engine:
            sweep.run()
        sweep.report()
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(f"; go on with {resume_command(sweep.folder)}") from interrupt
    return 1 if sweep.failures else 0
