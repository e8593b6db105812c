"""What an audit has found, for a screen."""

from __future__ import annotations

from collections.abc import Iterator

from dpforest.audit import Found
from dpforest.ledger import rounded_up
from strategies.audit import MethodAudit

_MOST_RELEASES = 8  # releases


def audit_lines(found: MethodAudit) -> Iterator[str]:
    """What an audit has found, for a screen."""
    yield f"method       {found.method}"
    yield f"guarantee    {found.guarantee}"
    if found.silent:
        yield "             There is nothing to audit: nothing that follows from rows leaves the client."
        return
    yield f"neighbours   {found.world} (of {len(found.worlds)} tried)"
    for world in found.worlds if len(found.worlds) > 1 else ():
        yield f"             {world.name}: {world.note or f'AUROC {world.auroc:.2f} in a few repetitions'}"
    if not found.claims:
        yield from _of_nothing(found)
        return
    yield from _of_all(found)
    if found.result.found.mu:
        yield f"             mu {found.result.found.mu:.3f}, if the noise is Gaussian, of whatever size"
    yield from _of_releases(found)
    if found.field is not None:
        yield f"one field    {_of_field(found.field)}"
    if found.violated:
        yield f"The guarantee does NOT hold, by: {'; '.join(found.culprits)}"
    elif not found.has_power:
        yield "Nothing was refuted, and with half the noise nothing would have been: give more --seconds or --canaries"
    else:
        yield "Nothing was refuted. A lower bound is no proof: that is the ledger's."
    yield f"{found.seconds:.0f} seconds"


def _of_all(found: MethodAudit) -> Iterator[str]:
    """All releases together; where half the noise was caught in one of them alone, that is said there."""
    *lines, power = str(found.result).splitlines()
    yield from lines
    caught = [release.what for release in found.releases if release.caught]
    if found.result.has_power or not caught:
        yield power
        return
    half = found.result.half_noise
    assert half is not None
    yield f"half noise   epsilon {half.epsilon:.3f} of all together: caught by {caught[0]}"


def _of_releases(found: MethodAudit) -> Iterator[str]:
    """Those of which most was seen."""
    clearest = sorted(found.releases, key=lambda release: (-release.violated, -release.lower_bound / release.claim))
    for release in clearest[:_MOST_RELEASES]:
        claim = rounded_up(release.claim, 4)
        yield (
            f"             {release.what}: epsilon {release.lower_bound:.3f} of {claim}; "
            f"with half the noise {release.half_noise:.3f}"
        )
    if (more := len(clearest) - _MOST_RELEASES) > 0:
        yield f"             and {more} more, of which less was seen"


def _of_nothing(found: MethodAudit) -> Iterator[str]:
    field = found.result.found
    yield "claim        none: there is nothing to hold"
    yield f"what leaks   {_of_field(field)}"
    yield f"             Any claim below epsilon {field.epsilon:.3f} is refuted by this alone."
    yield f"{found.seconds:.0f} seconds"


def _of_field(field: Found) -> str:
    if not field.epsilon:
        return f"nothing is seen in single fields alone, best by {field.by} ({field.repetitions:,} repetitions)"
    return f"epsilon {field.epsilon:.3f} or more by {field.by}: {field.rates} ({field.repetitions:,} repetitions)"
