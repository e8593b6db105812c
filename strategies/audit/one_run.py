"""The audit of a method by one whole run with many canaries (Steinke, Nasr, Jagielski 2023).

Each canary is among the rows of one client by a coin of its own. Who has seen what the client let through, and knows
its other rows and all canaries, but no coin, guesses about those canaries that seem in most and out most.

Nothing is repeated but the client's answers to the run's messages, once with each canary alone, which says by how much
it moves what goes into the mechanisms: its trace, in deviations of the noise. A canary's score is what of its trace is
in the noised numbers, less what half of all canaries leave there, by its variance: of the noise, and of the coins of
canaries whose traces overlap with its own. Choices of splits are no evidence here.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from dpforest.audit import CONFIDENCE, AuditResult, Claim, one_run_epsilon
from dpforest.audit.functions import one_run
from dpforest.audit.likelihood import noise_deviation
from dpforest.errors import DPForestError
from dpforest.guarantee import PrivacyUnit, TrustModel
from strategies.audit.conversation import NOT_OURS, Conversation, Conversations
from strategies.audit.method import MethodAudit, WorldTried
from strategies.audit.subject import Rows, Subject
from strategies.audit.witness import Replayer, Samples
from strategies.audit.worlds import own_rows_of

_COINS, _PLAIN, _HALF = (1 << 21,), (1 << 22,), (1 << 23,)
_BATCH = 50
_GUESSES = 0.2  # of the canaries
_MOST_NUMBERS = 20_000  # of a trace
_MOST_CANARIES = 100_000


def audit_method_in_one_run(
    subject: Subject,
    canaries: int,
    *,
    confidence: float = CONFIDENCE,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda words: None,
) -> MethodAudit:
    """Measure a lower bound of epsilon by one run with canaries, and by one with half the noise.

    Parameters
    ----------
    subject : Subject
    canaries : int
        Records that are in by a coin each.
    confidence : float
    jobs : int
        Processes.
    progress : callable of str
        Is given what goes on, in words.

    Raises
    ------
    DPForestError
        The method hides no single record, or guarantees nothing; it cannot run on such rows; or the canaries are too
        few for the claim.
    """
    began = time.perf_counter()
    if subject.task.unit is not PrivacyUnit.RECORD:
        raise DPForestError(
            "one run hides one client and many records: canaries are for privacy.unit=record; leave --canaries out"
        )
    if subject.claims and subject.task.trust is TrustModel.CENTRAL:
        raise DPForestError(f"{subject.name} cannot be audited: {NOT_OURS}")
    if not subject.claims:
        raise DPForestError(f"{subject.name} guarantees nothing to hold canaries against: leave --canaries out")
    game = _Game(subject, canaries)
    progress(f"one run with {int(game.coins.sum())} of {canaries} canaries")
    run = game.play(halved=False)
    assert run.final is not None
    guarantee = run.final.guarantee()
    claim = Claim(guarantee.epsilon, guarantee.delta)
    check_enough_canaries(canaries, claim, confidence)
    found = one_run(game.coins, game.scores(run, jobs), claim, _GUESSES, confidence)
    progress("the same with half the noise")
    half = one_run(game.coins, game.scores(game.play(halved=True), jobs), claim, _GUESSES, confidence)
    return MethodAudit(
        method=subject.name,
        guarantee=str(guarantee),
        unit=guarantee.unit.name,
        result=AuditResult(claim, found, half, confidence),
        world=game.name,
        worlds=(WorldTried(game.name),),
        releases=(),
        leaks=(),
        field=None,
        claims=True,
        silent=False,
        seconds=time.perf_counter() - began,
    )


def check_enough_canaries(canaries: int, claim: Claim, confidence: float) -> None:
    """Refuse canaries that could not refute a claim if every guess were right; says how many could."""

    def could(number: int) -> bool:
        guesses = 2 * int(number * _GUESSES / 2)
        return one_run_epsilon(guesses, guesses, number, claim.delta, confidence) > claim.epsilon

    if could(canaries):
        return
    enough = canaries
    while not could(enough) and enough <= _MOST_CANARIES:
        enough = int(1.1 * enough) + 1
    more = f"give --canaries {enough} or more, or" if enough <= _MOST_CANARIES else "no number of them would be enough:"
    raise DPForestError(
        f"{canaries} canaries are too few to refute {claim} with {100 * confidence:g} per cent confidence, were all "
        f"guesses right: {more} leave --canaries out"
    )


class _Game:
    """The canaries, their coins, and runs with those that are in."""

    def __init__(self, subject: Subject, canaries: int) -> None:
        self._subject, self._talks = subject, Conversations(subject)
        schema = subject.task.schema
        rng = np.random.default_rng(np.random.SeedSequence(subject.seed, spawn_key=_COINS))
        # Anywhere within the bounds and of any class: most are alone there, and hard to learn.
        positions = rng.random((canaries, schema.n_features)).astype(np.float32)
        self._rows, _ = schema.check_matrix(schema.low + positions * (schema.high - schema.low))
        if schema.target_range is None:
            self._targets = rng.integers(schema.n_outputs, size=canaries)
        else:
            self._targets = rng.choice(schema.target_range, size=canaries)
        self.coins = rng.random(canaries) < 0.5
        self._others = own_rows_of(subject)
        self.name = f"{canaries} canaries, each in by a coin, and your rows"

    def play(self, halved: bool) -> Conversation:
        """A run with those that are in."""
        rows = _joined(self._others, (self._rows[self.coins], self._targets[self.coins]))
        return self._talks.hold(rows, halved=halved, key=_HALF if halved else _PLAIN)

    def scores(self, run: Conversation, jobs: int) -> np.ndarray:
        """High for the canaries that seem to be in, shape (n_canaries,)."""
        parts = [(self._rows[i : i + _BATCH], self._targets[i : i + _BATCH])
                 for i in range(0, len(self.coins), _BATCH)]  # fmt: skip
        if jobs == 1:
            found = [_traces(self._subject, run, self._others, part) for part in parts]
        else:
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(jobs, context, _start_worker, (self._subject, run, self._others)) as pool:
                found = list(pool.map(_traces_of_worker, parts))
        return matched(np.concatenate([traces for traces, _ in found]), found[0][1])


def matched(traces: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """How much of each trace is in what was seen; see the module.

    Parameters
    ----------
    traces : ndarray of shape (n_canaries, n_numbers)
        By how much each canary moves each number.
    seen : ndarray of shape (n_numbers,)
        What went out, less what would without canaries, under noise of deviation 1.
    """
    overlaps = traces @ traces.T
    own = overlaps.diagonal()
    variance = own + ((overlaps**2).sum(axis=1) - own**2) / 4
    gained = traces @ (seen - traces.sum(axis=0) / 2)
    return np.divide(gained, variance, out=np.zeros(len(traces)), where=variance > 0)


def _traces(subject: Subject, run: Conversation, others: Rows, canaries: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Traces of canaries, and what was seen."""
    talks = Conversations(subject)
    # Of the others it is known who was in a sample; each canary is taken to be.
    samples: Samples = {place: [each[: len(others[1])] for each in known] for place, known in run.samples.items()}

    def values(rows: Rows) -> list[np.ndarray]:
        replayer = Replayer(run.draws)
        talks.answers(run, rows, talks.randomness(run.key, samples), replayer)
        return replayer.values

    without = values(others)
    seen = _in_deviations(run, [draw.seen - known for draw, known in zip(run.draws, without, strict=True)])
    traces = []
    for row, target in zip(*canaries, strict=True):
        inside = values(_joined(others, (row[None], target[None])))
        moved = [(own - known) * draw.mechanism.cost.sampling
                 for draw, own, known in zip(run.draws, inside, without, strict=True)]  # fmt: skip
        traces.append(_in_deviations(run, moved))
    return np.array(traces), seen


def _in_deviations(run: Conversation, changes: list[np.ndarray]) -> np.ndarray:
    """All changes behind one another, in deviations of their noise; of very many numbers, signed sums of some."""
    parts = [
        np.ravel(change) / noise
        for draw, change in zip(run.draws, changes, strict=True)
        if (noise := noise_deviation(draw.mechanism)) > 0
    ]
    numbers = np.concatenate([np.zeros(0), *parts])
    if len(numbers) <= _MOST_NUMBERS:
        return numbers
    # Which numbers make a sum is the same for all traces, so that their overlaps stay about what they are.
    rng = np.random.default_rng(0)
    signs, places = rng.choice((-1.0, 1.0), len(numbers)), rng.integers(_MOST_NUMBERS, size=len(numbers))
    return np.bincount(places, signs * numbers, minlength=_MOST_NUMBERS)


_known: tuple[Subject, Conversation, Rows] | None = None


def _start_worker(*known: object) -> None:
    global _known
    _known = known  # type: ignore[assignment]


def _traces_of_worker(canaries: Rows) -> tuple[np.ndarray, np.ndarray]:
    assert _known is not None
    return _traces(*_known, canaries)


def _joined(one: Rows, other: Rows) -> Rows:
    return np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1].astype(one[1].dtype)])
