"""What the owner of a real node allows. Read from the node's own configuration; no message can change it."""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from flwr.app import Context

from dpforest.errors import DPForestError
from dpforest.guarantee import TrustModel
from dpforest.ledger import ROUNDING, rounded_up
from dpforest.schema import Schema
from strategies.flower_compat import is_simulated
from strategies.method import Task, Work
from strategies.node.budget_file import BrokenBudgetFile, BudgetFile, Outcome, Request, Spent, SpentAlready
from strategies.node.keys import KEYS
from strategies.plan import RunPlan
from strategies.private_metrics import can_be_private

if TYPE_CHECKING:
    from strategies.secure_aggregation.fellows import Identity

log = logging.getLogger(__name__)

_Read = TypeVar("_Read")
# Flower's word, which simulations and its examples set and nothing here reads.
_FLOWERS = "num-partitions"
# How alike a key that is none of ours must be to one of them to be taken for a slip.
_ALIKE = 0.7
# Words that mean a limit also by themselves.
_LIMITED = ("epsilon", "delta", "budget")
# Where these are set, a key like them is no slip, but another program's.
_NEEDED = ("partition-id", "data-path")
# What a node accepts when its owner has set no limit.
_USUAL_EPSILON = 1.0
# More records than fit a node's memory. A server says how many there are, so its word cannot bound delta; the true
# number cannot either, since the limit would tell it.
_MOST_RECORDS = 10**8
# Most records that a mechanism within the guarantee may be expected to publish: delta times the number of records.
_PUBLISHED = 0.01
# Of any limit; so that sums and products with it stay finite.
_LARGEST = 1e300
# About half a minute of one core for trees, some minutes for networks.
_USUAL_WORK = Work(nodes=2_000_000, scores=50_000_000, products=10**12)
# What one core does in a second, roughly.
_A_SECOND = Work(nodes=70_000, scores=1_700_000, products=3 * 10**9)
_USUAL_MEGABYTES = 4000
# Of a node of a tree, while it is grown and packed; and of each of its values.
_NODE_BYTES, _VALUE_BYTES = 64, 24
_SHARING = {
    "private": "shared once a run, noised within its budget",
    "none": "not shared",
    "clear": "shared in clear",
}
# The same words for whatever stands in the way: more would tell a server what other runs have spent.
_ALL_RUNS = "all runs together would spend more than this node's owner allows"
_LOST = "this node has already spent a budget in this Flower run, and has no ledger of it; start a new run"
_NO_BUDGET_FILE = "this node cannot keep its budget-file; its log says why"


class Refused(DPForestError):
    """The node's owner does not allow what the server asks."""


@dataclass(frozen=True)
class Limits:
    """What one run may spend, and all together, as the owner's configuration says.

    Parameters
    ----------
    epsilon, delta : float
        Of one run.
    all_epsilon, all_delta : float
        Of all runs together, where there is a ``budget-file``.
    why_delta : str
        What to do about the one of delta, in words.
    """

    epsilon: float
    delta: float
    all_epsilon: float
    all_delta: float
    why_delta: str = ""

    @classmethod
    def of(cls, context: Context) -> Limits:
        """Read them.

        Raises
        ------
        Refused
            One of the numbers is none: then nothing is allowed.
        """
        rows = _number(context, "rows", None, whole=True)
        usual = _PUBLISHED / (_MOST_RECORDS if rows is None else rows)
        delta = _number(context, "max-delta", usual)
        if rows is not None and delta * rows >= 1:
            raise Refused(
                f"this node's max-delta {rounded_up(delta)} is not below 1 / {rows:g} rows, so nothing is allowed; its "
                "owner can lower it in the node configuration"
            )
        why = "" if "max-delta" in context.node_config else "; its owner can say rows=..., or max-delta=..."
        epsilon = _number(context, "max-epsilon", _USUAL_EPSILON)
        for name in ("lifetime-epsilon", "lifetime-delta"):
            if name in context.node_config and "budget-file" not in context.node_config:
                raise Refused(
                    f"this node's {name} needs a budget-file in the node configuration, so nothing is allowed"
                )
        all_epsilon, all_delta = (
            _number(context, f"lifetime-{name}", one_run) for name, one_run in (("epsilon", epsilon), ("delta", delta))
        )
        return cls(epsilon, delta, all_epsilon, all_delta, why)


def check_owner_allows(plan: RunPlan, context: Context) -> None:
    """Hold a plan against the node's configuration.

    Parameters
    ----------
    plan : RunPlan
        What the server asks.
    context : Context
        Of the node: ``max-epsilon``, ``max-delta``, ``rows``, ``strategies``, ``trust``, ``units``.

    Raises
    ------
    Refused
        Names what is not allowed and how the owner could allow it.
    """
    own = context.node_config
    simulated = is_simulated(context)
    budget, method = plan.budget, plan.method
    if not simulated:
        _check_keys(context)
        _sharing(context)
        node_identity(context, b"")
    limits = Limits.of(context)
    # Epsilon means nothing to a method without a budget: if it sends anything, only its name in `strategies` allows it.
    if method.uses_budget and ("max-epsilon" in own or not simulated):
        _check_limit("epsilon", budget.epsilon, limits.epsilon, "max-epsilon")
    if simulated:
        return
    if method.uses_budget:
        _check_limit("delta", budget.delta, limits.delta, "max-delta", limits.why_delta)
    named = _words(context, "strategies")
    if method.name not in named and ("strategies" in own or not plan.protection.by_client_alone):
        raise Refused(
            f"this node does not take part in strategy {method.name} ({plan.protection.trust}); its owner can allow it "
            f'in the node configuration: strategies="{method.name}"'
        )
    _check_trust(plan, context)
    unit = plan.protection.unit
    if "units" in own and unit.kind not in _words(context, "units"):
        raise Refused(
            f"this node does not take part in runs that protect one {unit.kind}; its owner can allow it in the "
            f'node configuration: units="{unit.kind}"'
        )


def _check_trust(plan: RunPlan, context: Context) -> None:
    """Refuse more trust than the owner has: who names a method has not named all that a server may ask of it."""
    trust, named = plan.protection.trust, _words(context, "trust")
    made_for = plan.method.protection(plan.settings).trust.kind
    usual = trust.kind is not TrustModel.CENTRAL or made_for is TrustModel.CENTRAL
    if not (trust.kind in named if "trust" in context.node_config else usual):
        allowed = ",".join([*named, str(trust.kind)])
        raise Refused(
            f"this node does not take part in strategy {plan.method.name} with privacy.trust={trust.kind} ({trust}); "
            f'its owner can allow it in the node configuration: trust="{allowed}"'
        )


def shares_privately(plan: RunPlan, context: Context) -> bool:
    """Whether test metrics leave noised, and once a run, where they leave at all: what is stricter counts."""
    return plan.metrics == "private" or (not is_simulated(context) and _sharing(context) != "clear")


def check_shares_metrics(plan: RunPlan, context: Context) -> None:
    """Hold the wish for test metrics against ``share-metrics``.

    Raises
    ------
    Refused
        They are not shared, or only within a guarantee that such a run cannot have.
    """
    if not is_simulated(context) and _sharing(context) == "none":
        raise Refused('this node does not share metrics (node configuration share-metrics="private" allows it)')
    if shares_privately(plan, context) and not can_be_private(plan.method, plan.protection, plan.budget.epsilon):
        raise Refused(
            "this node shares test metrics within a guarantee for single records only, which strategy "
            f'{plan.method.name}, as it is asked for, does not give (node configuration share-metrics="clear" allows '
            "more)"
        )


def _sharing(context: Context) -> str:
    """``private``, ``none`` or ``clear``."""
    said = context.node_config.get("share-metrics", "private")
    sharing = {True: "clear", False: "none"}[said] if isinstance(said, bool) else said
    if sharing not in _SHARING:
        raise Refused(
            f"this node's share-metrics {said!r} must be one of {', '.join(_SHARING)}, so nothing is allowed; its "
            "owner can set it in the node configuration"
        )
    return str(sharing)


def _check_keys(context: Context) -> None:
    """Refuse a key that is nearly one of ours: whoever misspells a limit believes that it holds."""
    own = context.node_config
    ours = [name for name in KEYS if name not in _NEEDED or name not in own]
    for key in sorted(own.keys() - KEYS - {_FLOWERS}):
        plain = re.sub("[_. ]", "-", key.casefold())
        near = [name for name in ours if plain in _LIMITED and plain in name.split("-")]
        near = near or difflib.get_close_matches(plain, ours, 1, _ALIKE)
        if plain.startswith("max-") and not near:
            near = [name for name in ours if name.startswith("max-")]
        if near:
            raise Refused(
                f"this node's configuration says {key}, which is no setting of dpforest, so nothing is allowed: did "
                f"you mean {' or '.join(near)}?"
            )


def check_schema(schema: Schema, context: Context) -> None:
    """Hold the schema that a real node is asked to train or test under against what a guarantee needs.

    Raises
    ------
    Refused
        Some of it was read off data, so that no run with it protects anybody.
    """
    if schema.leak and not is_simulated(context):
        raise Refused(f"this node takes part in no run without a guarantee, and the schema has none: {schema.leak}")


def check_work(plan: RunPlan, task: Task, context: Context) -> None:
    """Hold what a message makes a real node do against ``max-nodes`` and such, before data is touched.

    Raises
    ------
    Refused
        It is too much, or the method does not say how much it is.
    """
    if is_simulated(context):
        return
    if plan.method.work is None:
        raise Refused(f"strategy {plan.method.name} does not say how much work it is for a node")
    asked, usual = asdict(plan.method.work(task)), asdict(_USUAL_WORK)
    for name, number in asked.items():
        option = f"max-{name}"
        limit = _number(context, option, usual[name])
        if not number <= limit:
            raise Refused(
                f"one message would make this node work on {number} {name} ({_WORDS[name]}), which is above its "
                f"{option} {limit:.0f}; its owner can raise it in the node configuration"
            )

    _check_time_and_memory(plan.method.work(task), task, context)


def seconds_of(work: Work) -> float:
    """What one core takes for it at most, roughly."""
    return sum(number / getattr(_A_SECOND, name) for name, number in asdict(work).items())


def _check_time_and_memory(work: Work, task: Task, context: Context) -> None:
    """Estimates by public facts alone: how long it really takes depends on rows, and must end nothing."""
    seconds = seconds_of(work)
    megabytes = work.nodes * (_NODE_BYTES + _VALUE_BYTES * task.schema.n_outputs) / 1e6
    for option, asked, usual, what in (
        ("max-seconds", seconds, _LARGEST, "seconds"),
        ("max-memory", megabytes, _USUAL_MEGABYTES, "megabytes"),
    ):
        limit = _number(context, option, usual)
        if not asked <= limit:
            raise Refused(
                f"one message would take this node some {asked:.0f} {what}, which is above its {option} {limit:g}; its "
                "owner can raise it in the node configuration"
            )


_WORDS = {
    "nodes": "of all its trees together",
    "scores": "of candidate splits",
    "products": "of weights and values in training",
}


def describe_limits(context: Context) -> list[str]:
    """What a node's configuration allows, a line each, for its owner.

    Raises
    ------
    Refused
        A key is misspelt, or a limit is none.
    """
    _check_keys(context)
    own, limits = context.node_config, Limits.of(context)
    lines = [f"one run may spend at most epsilon {limits.epsilon:g} and delta {limits.delta:g}"]
    if "budget-file" in own:
        lines.append(f"all runs together may spend at most epsilon {limits.all_epsilon:g}, delta {limits.all_delta:g}")
    work = [f"{_number(context, f'max-{name}', usual):g} {name}" for name, usual in asdict(_USUAL_WORK).items()]
    lines.append(
        f"one message may be at most {', '.join(work)}, {_number(context, 'max-memory', _USUAL_MEGABYTES):g} megabytes"
        + (f", {_number(context, 'max-seconds', 0):g} seconds" if "max-seconds" in own else "")
    )
    strategies = ", ".join(_words(context, "strategies")) or "none"
    lines.append(f"strategies: {strategies if 'strategies' in own else 'all that protect a client by themselves'}")
    trust = ", ".join(_words(context, "trust")) or "none"
    lines.append(f"trust: {trust if 'trust' in own else 'local, shared, and central for methods made for that alone'}")
    lines.append(f"units: {', '.join(_words(context, 'units')) or 'none' if 'units' in own else 'all'}")
    lines.append(f"test metrics: {_SHARING[_sharing(context)]}")
    lines.append(f"secure sums: {_of_fellows(_read_identity(context, b''))}")
    return lines


def _of_fellows(identity: Identity | None) -> str:
    if identity is None:
        return "not signed; the server is trusted to follow the protocol"
    if identity.accepted is None:
        return "signed; the server is trusted to follow the protocol"
    return (
        f"signed; of {len(identity.accepted)} known keys at least {identity.least} must be in a sum with this node, "
        "and no more others than a run allows to collude; the server is not trusted"
    )


def node_identity(context: Context, about: bytes) -> Identity | None:
    """What a node signs secure sums with, and whom its owner accepts in them; None where it has no ``signing-key``.

    Parameters
    ----------
    context : Context
        Of the node: ``signing-key``, ``fellows``, ``min-fellows``.
    about : bytes
        See `Identity`.

    Raises
    ------
    Refused
        One of them cannot be read, or says nothing without another: then nothing is allowed.
    """
    try:
        return _read_identity(context, about)
    except _Unreadable as error:
        log.warning("%s", error)
        raise Refused(f"this node's {error.name} cannot be read, so nothing is allowed; its log says why") from error


class _Unreadable(DPForestError):
    """What a file of keys says; with its path, for its owner alone."""

    def __init__(self, name: str, path: object, why: str) -> None:
        super().__init__(f"{name} {path} {why}")
        self.name = name


def _read_identity(context: Context, about: bytes) -> Identity | None:
    own = context.node_config
    for name, needed in (("fellows", "signing-key"), ("min-fellows", "fellows")):
        if name in own and needed not in own:
            raise Refused(f"this node's {name} needs {needed} in the node configuration, so nothing is allowed")
    if "signing-key" not in own:
        return None
    from strategies.secure_aggregation.fellows import Identity, public_bytes, read_public_keys, read_signing_key  # slow

    key = _read_keys(context, "signing-key", lambda path: read_signing_key(path.read_bytes()))
    accepted = None
    if "fellows" in own:
        accepted = _read_keys(context, "fellows", lambda path: read_public_keys(path.read_text(encoding="utf-8")))
    least = _number(context, "min-fellows", 1, whole=True)
    if "min-fellows" in own and accepted is not None and least > len(accepted - {public_bytes(key.public_key())}):
        raise Refused(
            f"this node's min-fellows {least} is above the number of keys in its fellows, so nothing is allowed; its "
            "owner can set it in the node configuration"
        )
    return Identity(key, about, accepted, least)


def _read_keys(context: Context, name: str, read: Callable[[Path], _Read]) -> _Read:
    path = context.node_config[name]
    try:
        return read(Path(str(path)).expanduser())
    except OSError as error:
        raise _Unreadable(name, path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _Unreadable(
            name, path, "is no text: one public key a line, as in the .pub files of ssh-keygen"
        ) from error
    except (ValueError, RuntimeError, DPForestError) as error:  # a path that cannot be one, too
        raise _Unreadable(name, path, str(error)) from error


def spend_lifetime_budget(plan: RunPlan, context: Context) -> None:
    """Add a run to the node's ``budget-file``, if its owner keeps one.

    Then ``lifetime-epsilon`` and ``lifetime-delta`` hold for all runs together: what different runs release about the
    same rows adds up. A run of a method without a budget is written down with no epsilon and does not count.

    Raises
    ------
    Refused
        The run would bring the total above a limit, has been charged before, or the file cannot be read or written.
        The words toward the server are always the same; the node's log says more.
    """
    if "budget-file" not in context.node_config:
        return
    limits, (epsilon, delta), protection = Limits.of(context), _cost(plan), plan.protection
    run = Spent(_now(), str(context.run_id), plan.method.name, epsilon, delta, protection.unit, protection.trust)
    try:
        with _fails_closed():
            allowed = _budget_file(context).spend(run, _room(limits.all_epsilon), _room(limits.all_delta))
    except SpentAlready:
        raise Refused(_LOST) from None
    if not allowed:
        log.warning("budget-file: epsilon %s and delta %s more would exceed lifetime-epsilon %s or lifetime-delta %s",
                    *map(rounded_up, (epsilon or 0, delta or 0, limits.all_epsilon, limits.all_delta)))  # fmt: skip
        raise Refused(_ALL_RUNS)


def write_request(kind: str, plan: RunPlan | None, context: Context) -> int | None:
    """Write a message into the node's ``budget-file``, if its owner keeps one, before it is looked into; its number.

    Parameters
    ----------
    kind : str
        Of message.
    plan : RunPlan, optional
        What it asks, if that could be read.
    context : Context

    Raises
    ------
    Refused
        The file cannot be read or written: then nothing is answered.
    """
    if "budget-file" not in context.node_config:
        return None
    epsilon, delta = (None, None) if plan is None else _cost(plan)
    strategy = "" if plan is None else plan.method.name
    with _fails_closed():
        return _budget_file(context).ask(Request(_now(), str(context.run_id), kind, strategy, epsilon, delta))


def write_answer(number: int | None, outcome: Outcome, words: str, context: Context) -> None:
    """Write down what a message is about to be answered; raises as `write_request`."""
    if number is not None:
        with _fails_closed():
            _budget_file(context).answer(number, _now(), outcome, words)


def _budget_file(context: Context) -> BudgetFile:
    file = context.node_config["budget-file"]
    if not isinstance(file, str) or not file:
        raise BrokenBudgetFile(f"budget-file {file!r} must be the path of a file")
    return BudgetFile(Path(file))


@contextmanager
def _fails_closed() -> Iterator[None]:
    try:
        yield
    except BrokenBudgetFile as error:
        log.warning("budget-file: %s", error)
        raise Refused(_NO_BUDGET_FILE) from None


def _cost(plan: RunPlan) -> tuple[float | None, float | None]:
    """Epsilon and delta of a run; None for a method without a budget."""
    if not plan.method.uses_budget:
        return None, None
    return float(plan.budget.epsilon), float(plan.budget.delta)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _words(context: Context, name: str) -> list[str]:
    return str(context.node_config.get(name, "")).replace(",", " ").split()


def _number(context: Context, name: str, usual: Any, whole: bool = False) -> Any:
    """A limit of the owner's; what is no number allows nothing, rather than what was usual."""
    value = context.node_config.get(name)
    if value is None:
        return usual
    kinds = int if whole else int | float
    if isinstance(value, bool) or not isinstance(value, kinds) or not int(whole) <= value <= _LARGEST:
        wanted = "a whole number from 1" if whole else "a finite number from 0"
        raise Refused(
            f"this node's {name} {value!r} must be {wanted}, without quotes, so nothing is allowed; its owner can set "
            "it in the node configuration"
        )
    return value


def _room(limit: float) -> float:
    """The limit with room for sums of shares, which round."""
    return limit * (1 + ROUNDING)


def _check_limit(what: str, asked: float, limit: float, option: str, hint: str = "") -> None:
    # Written so that a limit that is no number allows nothing.
    if not asked <= _room(limit):
        raise Refused(f"{what} {rounded_up(asked)} is above this node's {option} {limit:g}{hint}")
