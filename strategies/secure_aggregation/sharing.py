"""Who shares the noise of a secure sum: settings, trust and shares of every method that has its sums so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpforest.errors import DPForestError
from dpforest.guarantee import Trust, TrustModel
from dpforest.settings import FromZero, Settings
from strategies.method import Task


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


def shared_trust(settings: SharingSettings) -> Trust:
    """Who must be trusted where only sums over clients are protected and seen."""
    return Trust(
        "for sums over clients by secure aggregation",
        "the server follows the protocol (it may look at all it gets), "
        f"at most {settings.colluders} clients collude with it (one that takes its own noise off what is published "
        f"counts as such), at most {settings.dropouts} drop out of a sum",
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
