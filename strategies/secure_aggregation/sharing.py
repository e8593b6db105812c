"""Who shares the noise of a secure sum: settings, trust and shares of every method that has its sums so."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ConfigRecord

from dpforest.errors import DPForestError
from dpforest.guarantee import Trust, TrustModel, Unit
from dpforest.mechanisms import DiscreteGaussianSums, DiscreteLaplaceCounts
from dpforest.settings import FromZero, Settings
from strategies.messages import PHASE, BadMessage
from strategies.method import Arrays, ClientTask, Protection, Public, Released, Task, Update
from strategies.secure_aggregation.client import SecureSummer
from strategies.secure_aggregation.server import Phase
from strategies.secure_aggregation.terms import Terms

_STATE = "secure"
# Chance that the noise of any client and round exceeds what fits a secure sum; the client then drops out of the round.
# It adds to delta, so it must be far below any.
_TAIL = 1e-30


@dataclass(frozen=True)
class SharingSettings(Settings):
    """With whom the noise is shared under ``privacy.trust=shared``.

    Parameters
    ----------
    dropouts
        With ``trust=shared``: clients that may be missing in a sum (``min_clients`` is for local noise).
    colluders
        With ``trust=shared``: clients that may tell the server all they know.
    """

    dropouts: FromZero = 0
    colluders: FromZero = 0


def shared_protection(unit: Unit, settings: SharingSettings) -> Protection:
    """A unit that only sums over clients protect: nobody sees a single client's vector."""
    return Protection(unit, shared_trust(settings), among_known=shared_trust(settings, among_known=True))


def shared_trust(settings: SharingSettings, among_known: bool = False) -> Trust:
    """Who must be trusted where only sums over clients are protected and seen, and by whom that knows its fellows."""
    server = "the server follows the protocol (it may look at all it gets)"
    unknown = ""
    if among_known:
        server = (
            "the server is not trusted, also where it deviates from the protocol, as clients know each other's keys"
        )
        unknown = "; so does one whose key the client's owner has not listed"
    return Trust(
        "for sums over clients by secure aggregation",
        f"{server}, at most {settings.colluders} clients collude with it (one that takes its own noise off what is "
        f"published counts as such{unknown}), at most {settings.dropouts} drop out of a sum",
        TrustModel.SHARED,
    )


def noise_shares(task: Task[Any]) -> int:
    """Of how many shares the noise of a sum is made: 1 where every client adds all noise itself.

    The clients that are neither missing nor colluding are the ones whose shares must suffice.

    Raises
    ------
    DPForestError
        A single client would show its sums with a share of the noise, or settings of sharing say something where
        nothing is shared.
    """
    settings = task.settings
    if task.trust is not TrustModel.SHARED:
        if settings.dropouts or settings.colluders:
            raise DPForestError("dropouts and colluders only matter for privacy.trust=shared: leave them at 0")
        return 1
    if task.clients < 2:
        raise DPForestError(
            f"privacy.trust=shared with {task.clients} client would show its sums with a share of the noise: "
            "use more clients, or privacy.trust=local"
        )
    return max(1, task.clients - settings.dropouts - settings.colluders)


@dataclass(frozen=True)
class SecureTerms:
    """What the secure sums of a run need.

    Parameters
    ----------
    terms : Terms
    largest_sum : int
        What a client's numbers are cut off at before its noise, so that they fit with it.
    """

    terms: Terms
    largest_sum: int


def terms_for(
    task: Task[Any],
    sums: int,
    mechanisms: Iterable[DiscreteGaussianSums | DiscreteLaplaceCounts],
    draws: int,
    largest: float,
) -> SecureTerms:
    """Terms of a run's secure sums.

    Parameters
    ----------
    sums : int
        Of the run.
    mechanisms : iterable of mechanism
        What noises the sums.
    draws : int
        Numbers that all clients draw in all rounds together, at most.
    largest : float
        What a client's numbers need room for, before noise.

    Raises
    ------
    DPForestError
        There are too few clients for so many dropouts and colluders, or too much noise for 64 bits.
    """
    tail = math.ceil(max(mechanism.tail(_TAIL / draws) for mechanism in mechanisms))
    needed = tail + largest
    # In 32 bits if that is enough: the masked vectors then take half the bytes.
    bits = 31 if needed * task.clients < 2**31 else 62
    if needed * task.clients >= 2**62:
        raise DPForestError(
            f"sums of up to {needed:.3g} of each of {task.clients} clients do not fit 64 bits: "
            "choose an epsilon that is less extreme"
        )
    room = (2**bits - 1) // max(1, task.clients)
    settings = task.settings
    terms = Terms(task.clients, sums, room, settings.dropouts, settings.colluders)
    return SecureTerms(terms, room - tail)


def secure_update(
    task: ClientTask[Any], terms: Terms, arrays: Arrays, vector: Callable[[], np.ndarray], state: str = _STATE
) -> Update:
    """A client's answer to a message of secure aggregation.

    Parameters
    ----------
    task : ClientTask
        Its ``state`` keeps the client's side of the protocol, its ``config`` says the phase.
    arrays : mapping of str to ndarray
        Of the message.
    vector : callable of () to ndarray of int64, shape (n,)
        Charges the ledger, under a line whose name no release with other noise has in this run, and draws the client's
        share of the noise; called where the vector of a round is asked for.
    state : str
        Under which name ``task.state`` keeps it.
    """
    phase = task.config.get(PHASE)
    kept = task.state.config_records.get(state)
    if phase == Phase.PRESENT.value and kept is not None:
        return Update(Public({}))
    if phase == Phase.ADVERTISE.value:
        if kept is not None:
            raise BadMessage("this client has given its keys for this run already")
        summer = SecureSummer(task.client, terms, task.identity)
    elif kept is None:
        raise BadMessage("this client has no keys of this run")
    else:
        summer = SecureSummer.from_bytes(bytes(kept["summer"]), terms, task.identity)  # type: ignore[arg-type]
    if phase == Phase.ADVERTISE.value:
        reply = summer.advertise(arrays)
    elif phase == Phase.SHARE.value:
        reply = summer.share(arrays)
    elif phase == Phase.MASK.value:
        summer.admit(arrays)  # before anything is spent
        masked = vector()
        reply = summer.mask(arrays, masked, task.ledger.entries[-1].what)
    elif phase == Phase.MASK_AGAIN.value:
        reply = summer.mask_again(arrays)
    elif phase == Phase.CONFIRM.value:
        reply = summer.confirm(arrays)
    elif phase == Phase.UNMASK.value:
        reply = summer.unmask(arrays)
    else:
        raise BadMessage(f"the message says phase={phase!r}")
    task.state[state] = ConfigRecord({"summer": summer.to_bytes()})
    if phase == Phase.MASK.value:
        return Update(Released(task.ledger, reply))
    return Update(Public(reply))  # keys, parts of masks, and fresh masks on what was released before
