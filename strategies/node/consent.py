"""What the owner of a real node allows. Read from the node's own configuration; no message can change it."""

from __future__ import annotations

import difflib
import logging
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flwr.app import Context

from dpforest.errors import DPForestError
from dpforest.ledger import ROUNDING, rounded_up
from dpforest.schema import Schema
from strategies.flower_compat import is_simulated
from strategies.method import Task, Work
from strategies.node.budget_file import BrokenBudgetFile, BudgetFile, Spent
from strategies.plan import RunPlan

log = logging.getLogger(__name__)

KEYS = (
    "partition-id", "data-path", "max-epsilon", "rows", "max-delta", "budget-file", "max-nodes", "max-scores",
    "max-products", "strategies", "share-metrics", "state-folder",
)  # fmt: skip
"""All that an owner can set in a node configuration."""
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
# The same words for whatever stands in the way: more would tell a server what other runs have spent.
_ALL_RUNS = "all runs together would spend more than this node's owner allows"
_NO_BUDGET_FILE = "this node cannot keep its budget-file; its log says why"


class Refused(DPForestError):
    """The node's owner does not allow what the server asks."""


@dataclass(frozen=True)
class Limits:
    """What one run may spend (or all together, with a ``budget-file``), as the owner's configuration says.

    Parameters
    ----------
    epsilon, delta : float
    why_delta : str
        What to do about the one of delta, in words.
    """

    epsilon: float
    delta: float
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
        return cls(_number(context, "max-epsilon", _USUAL_EPSILON), delta, why)


def check_owner_allows(plan: RunPlan, context: Context, evaluating: bool) -> None:
    """Hold a plan against the node's configuration.

    Parameters
    ----------
    plan : RunPlan
        What the server asks.
    context : Context
        Of the node: ``max-epsilon``, ``max-delta``, ``rows``, ``strategies``, ``share-metrics``.
    evaluating : bool
        Whether test metrics are asked for.

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
    limits = Limits.of(context)
    # Epsilon means nothing to a method without a budget: if it sends anything, only its name in `strategies` allows it.
    if method.uses_budget and ("max-epsilon" in own or not simulated):
        _check_limit("epsilon", budget.epsilon, limits.epsilon, "max-epsilon")
    if simulated:
        return
    if method.uses_budget:
        _check_limit("delta", budget.delta, limits.delta, "max-delta", limits.why_delta)
    named = str(own.get("strategies", "")).replace(",", " ").split()
    if method.name not in named and ("strategies" in own or not plan.protection.by_client_alone):
        raise Refused(
            f"this node does not take part in strategy {method.name} ({plan.protection.trust}); its owner can allow it "
            f'in the node configuration: strategies="{method.name}"'
        )
    if evaluating and own.get("share-metrics") is not True:
        raise Refused("this node does not share metrics (node configuration share-metrics=true allows it)")


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


_WORDS = {
    "nodes": "of all its trees together",
    "scores": "of candidate splits",
    "products": "of weights and values in training",
}


def spend_lifetime_budget(plan: RunPlan, context: Context) -> None:
    """Add a run to the node's ``budget-file``, if its owner keeps one.

    Then ``max-epsilon`` and ``max-delta`` hold for all runs together: what different runs release about the same rows
    adds up. A run of a method without a budget is written down with no epsilon and does not count.

    Raises
    ------
    Refused
        The run would bring the total above a limit, or the file cannot be read or written. The words toward the server
        are always the same; the node's log says more.
    """
    file = context.node_config.get("budget-file")
    if file is None:
        return
    limits, counts = Limits.of(context), plan.method.uses_budget
    run = Spent(
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        run=str(context.run_id),
        strategy=plan.method.name,
        epsilon=float(plan.budget.epsilon) if counts else None,
        delta=float(plan.budget.delta) if counts else None,
        unit=plan.protection.unit,
        trust=plan.protection.trust,
    )
    try:
        if not isinstance(file, str) or not file:
            raise BrokenBudgetFile(f"budget-file {file!r} must be the path of a file")
        allowed = BudgetFile(Path(file)).spend(run, _room(limits.epsilon), _room(limits.delta))
    except BrokenBudgetFile as error:
        log.warning("budget-file: %s", error)
        raise Refused(_NO_BUDGET_FILE) from None
    if not allowed:
        log.warning("budget-file: epsilon %s and delta %s more would exceed max-epsilon %s or max-delta %s",
                    *map(rounded_up, (run.epsilon or 0, run.delta or 0, limits.epsilon, limits.delta)))  # fmt: skip
        raise Refused(_ALL_RUNS)


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
