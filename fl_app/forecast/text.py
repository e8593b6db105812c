"""A forecast for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from dpforest.ledger import rounded_up
from fl_app.forecast.forecast import Forecast, Score
from fl_app.results.text import decimals, fact_lines, human_bytes, short_delta
from fl_app.terminal.tables import columns


def forecast_text(found: Forecast, width: int | None = None) -> str:
    """Facts line by line, and a table of releases.

    Parameters
    ----------
    found : Forecast
    width : int, optional
        Columns of the terminal.
    """
    lines = [fact_lines(list(_facts(found)), width)]
    if found.releases:
        unit = found.experiment.protection.unit
        header = ["what one client releases", "times", "noise", f"{unit.kind}s", "share"]
        rows = [
            [each.what, str(each.times), f"{each.noise:.3g}", f"{each.units:,}", f"{each.share:.2%}"]
            for each in found.releases
        ]
        lines += ["", columns(header, rows, width)]
        meaning = f"in what one {unit.name} changes at most; share: of what all these {unit.kind}s add"
        lines += [f"noise: its deviation, {meaning}"]
    return "\n".join(lines)


def _facts(found: Forecast) -> Iterator[tuple[str, str]]:
    budget = found.experiment.budget
    yield "method", f"{found.experiment.method.name}, {found.clients} clients of about {found.rows:,} rows"
    if found.experiment.method.uses_budget:
        yield "budget", f"epsilon {rounded_up(budget.epsilon)}, {short_delta(budget.delta)}; {found.protection}"
    else:
        yield "budget", "none: the method guarantees nothing, whatever epsilon says"
    if leak := found.experiment.source.schema().leak:
        yield "guarantee", f"none: {leak}"
    for words in found.unprotected:
        yield "unprotected", words
    if found.refused:
        yield "refused", found.refused
    if signal := found.signal:
        above = signal.trees if signal.stands_out else 0
        yield "trees", f"{above} of {signal.trees} stand out of the noise, at depth {signal.depth}"
        yield "a leaf", f"about {signal.rows:.3g} rows, noise {signal.noise:.3g} rows"
    if found.experiment.method.uses_budget:
        yield "least epsilon", _least(found)
    yield from _work(found)
    if found.score:
        yield from _score(found.score)


def _least(found: Forecast) -> str:
    if found.least_epsilon is None:
        return "not known: nothing that the method plans stands out of its noise at any epsilon"
    if found.signal or found.refused:
        return f"{rounded_up(found.least_epsilon, 2)}: from there on trees stand out of the noise"
    return f"{rounded_up(found.least_epsilon, 2)}: from there on the noise is below what all together can add"


def _work(found: Forecast) -> Iterator[tuple[str, str]]:
    if found.refused:
        return
    yield "exchanges", str(found.exchanges)
    seconds = "the method does not say"
    if found.seconds:
        seconds = f"at most {found.seconds:.2g} of one core for a message (by public numbers; often far less)"
    yield "seconds", seconds
    if found.bytes_up is not None:
        yield "bytes up", f"about {human_bytes(found.bytes_up)} a client over the run (within a factor of 3 or so)"


def _score(score: Score) -> Iterator[tuple[str, str]]:
    if score.failed:
        yield "made-up rows", f"no score: {score.failed}"
        return
    assert score.value is not None
    compared = [f"without noise {decimals(score.without_noise)}"] if score.without_noise is not None else []
    if score.trivial is not None:
        compared.append(f"the same answer for every row {decimals(score.trivial)}")
    yield "made-up rows", f"{score.metric} {decimals(score.value)}; {', '.join(compared)}"
    yield "", "one seed, on rows made up from the schema with correlated columns: yours may be easier or harder"
    yield "its bytes", f"{human_bytes(score.bytes_up)} up, {human_bytes(score.bytes_down)} down, all clients"
    yield "its seconds", f"{score.seconds:.1f} on this machine, one client after another"
