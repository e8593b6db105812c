"""The audit of a method: worlds are tried, the one that shows most is repeated, and the same with half the noise."""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from dpforest.audit import CONFIDENCE, AuditResult, CanaryScores, Claim, ErrorRates, Found, ReleaseFamily
from dpforest.audit import needed_repetitions as needed
from dpforest.audit.functions import bound_for, found_by
from dpforest.audit.messages import field_rates
from dpforest.errors import DPForestError
from dpforest.guarantee import PrivacyUnit, TrustModel
from dpforest.ledger import Entry, total_epsilon
from strategies.audit.client_view import ClientView
from strategies.audit.conversation import NOT_OURS
from strategies.audit.repetition import Fields, Repetition
from strategies.audit.server_view import NAME as SERVER_WORLD
from strategies.audit.server_view import ServerView
from strategies.audit.subject import Subject
from strategies.audit.witness import Diverged
from strategies.audit.worlds import World, worlds_of

View = ClientView | ServerView
_PILOT = 16  # repetitions of each world with the record, and as many without
_CHECKED = 2  # of these, whose messages are compared with the neighbour's
_MOST_FIELDS = 400  # repetitions with the record, and without, whose messages are kept
_MOST_NUMBERS = 4_000_000  # that these may hold together
_FIRST_PILOT = 1 << 30  # no other repetition has such a number
_AS_MUCH = 0.99  # of what the best world shows: worlds with fewer rows come first and are repeated faster
_BATCH = 50
_SHARE_OF_CLAIM = 0.75  # of the time; the rest is for half the noise
_LEAST = 40
ALL = "all that goes out"


@dataclass(frozen=True)
class Release:
    """One line of the ledger, by itself.

    Parameters
    ----------
    what : str
        The ledger's name.
    claim : float
        Epsilon that it costs, at the run's delta.
    lower_bound : float
        Of its epsilon, so that all releases' bounds hold at once with the audit's confidence.
    half_noise : float
        The same with half the noise.
    """

    what: str
    claim: float
    lower_bound: float
    half_noise: float = 0.0

    @property
    def violated(self) -> bool:
        """Whether it costs more than the ledger says."""
        return self.lower_bound > self.claim

    @property
    def caught(self) -> bool:
        """Whether with half the noise it was found to cost more than the ledger says."""
        return self.half_noise > self.claim


@dataclass(frozen=True)
class WorldTried:
    """A world with what a few repetitions let hope for.

    Parameters
    ----------
    name : str
    auroc : float
        Of finding the record's presence, by these repetitions.
    note : str
        Why it was left out, if it was.
    """

    name: str
    auroc: float = 0.5
    note: str = ""


@dataclass(frozen=True)
class MethodAudit:
    """What the audit of a method has found.

    Parameters
    ----------
    method : str
    guarantee : str
        In the ledger's words.
    unit : str
        Whose presence is hidden.
    result : AuditResult
        With an infinite claim where nothing is guaranteed.
    world : str
        The neighbours that showed most.
    worlds : tuple of WorldTried
    releases : tuple of Release
        By the same repetitions.
    leaks : tuple of str
        What depends on a record although the mechanisms let the same through.
    field : Found or None
        Of the best test of a single field of the messages, which knows nothing of the mechanisms.
    claims : bool
        Whether anything is guaranteed.
    silent : bool
        Whether nothing that follows from rows leaves a client.
    seconds : float
    """

    method: str
    guarantee: str
    unit: str
    result: AuditResult
    world: str
    worlds: tuple[WorldTried, ...]
    releases: tuple[Release, ...]
    leaks: tuple[str, ...]
    field: Found | None
    claims: bool
    silent: bool
    seconds: float

    @property
    def violated(self) -> bool:
        """Whether what was guaranteed does not hold."""
        by_release = any(release.violated for release in self.releases)
        return self.claims and bool(self.result.violated or by_release or self.leaks or self._field_violates)

    @property
    def has_power(self) -> bool:
        """Whether half the noise was caught: in all releases together, or in one of them."""
        return self.result.has_power or any(release.caught for release in self.releases)

    @property
    def culprits(self) -> tuple[str, ...]:
        """The releases, or what else, by which it does not hold."""
        if not self.violated:
            return ()
        single = tuple(release.what for release in self.releases if release.violated)
        worst = max(self.releases, key=lambda release: release.lower_bound / release.claim, default=None)
        named = single or ((worst.what,) if worst is not None and self.result.violated else ())
        by_field = (self.field.by,) if self.field is not None and self._field_violates else ()
        return (*named, *self.leaks, *by_field)

    @property
    def _field_violates(self) -> bool:
        return self.field is not None and self.field.epsilon > self.result.claim.epsilon


@dataclass
class Sample:
    """Scores of repetitions: of all releases together and of each, with the record and without."""

    totals: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    parts: tuple[list[dict[str, float]], list[dict[str, float]]] = field(default_factory=lambda: ([], []))
    fields: tuple[list[Fields], list[Fields]] = field(default_factory=lambda: ([], []))
    leaks: set[str] = field(default_factory=set)
    numbers: int = 0
    hope: float = 0.0  # mean divergence, of a pilot

    def add(self, inside: bool, repetition: Repetition) -> None:
        """Take a repetition in."""
        ratios = repetition.log_ratios()
        self.totals[inside].append(sum(ratios.values()))
        self.parts[inside].append(ratios)
        self.leaks |= set(repetition.different)
        size = sum(np.size(value) for value in repetition.fields.values())
        if len(self.fields[inside]) < _MOST_FIELDS and self.numbers + size <= _MOST_NUMBERS:
            self.fields[inside].append(repetition.fields)
            self.numbers += size

    def extend(self, other: Sample) -> None:
        """Take another sample in."""
        for side in (0, 1):
            self.totals[side].extend(other.totals[side])
            self.parts[side].extend(other.parts[side])
            room = _MOST_FIELDS - len(self.fields[side])
            if self.numbers + other.numbers <= _MOST_NUMBERS:
                self.fields[side].extend(other.fields[side][:room])
        self.numbers += other.numbers
        self.leaks |= other.leaks

    @property
    def scores(self) -> CanaryScores:
        """Of all releases together."""
        return CanaryScores(np.array(self.totals[1]), np.array(self.totals[0]))

    def scores_of(self, what: str) -> CanaryScores:
        """Of one release."""
        outside, inside = (np.array([part.get(what, 0.0) for part in side]) for side in self.parts)
        return CanaryScores(inside, outside)

    def __len__(self) -> int:
        return min(map(len, self.totals))


def audit_method(
    subject: Subject,
    *,
    seconds: float = 150.0,
    repetitions: int | None = None,
    confidence: float = CONFIDENCE,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda words: None,
) -> MethodAudit:
    """Measure a lower bound of epsilon on what a client of a run lets out.

    Parameters
    ----------
    subject : Subject
    seconds : float
        About so long repetitions are made, where their number is not given.
    repetitions : int, optional
        With and without the record together.
    confidence : float
    jobs : int
        Processes.
    progress : callable of str
        Is given what goes on, in words.

    Raises
    ------
    DPForestError
        The method cannot run on any of the worlds, or the repetitions are too few for the claim.
    """
    began = time.perf_counter()
    with _bench(subject, jobs) as bench:
        name, tried = _try_worlds(subject, bench)
        view = bench.view(name)
        guarantee = view.ledger.guarantee()
        silent = not (view.sends or view.draws)
        claims = guarantee.holds and not silent
        claim = Claim(guarantee.epsilon if claims else math.inf, guarantee.delta)
        lower_bounds = _LowerBounds(view.entries if claims else [], claim, confidence)
        if claims and repetitions is not None:
            lower_bounds.check_enough(repetitions)
        progress(f"repeating: {name}")
        left = max(1.0, seconds - (time.perf_counter() - began)) if repetitions is None else math.inf
        sample = Sample() if silent else bench.sample(name, False, repetitions, left * _SHARE_OF_CLAIM)
        half = None
        if claims:
            lower_bounds.check_enough(2 * len(sample))
            progress("the same with half the noise")
            left = seconds - (time.perf_counter() - began) if repetitions is None else math.inf
            half = bench.sample(name, True, repetitions, max(left, 1.0))
        leaks = tuple(sorted(sample.leaks.union(bench.diverged, *(pilot.leaks for pilot in tried.values()))))
        by_field = None if silent else _by_field(sample, claim, confidence)
        found = (
            lower_bounds.found(sample)
            if claims
            else by_field or Found(0.0, "nothing, as nothing is sent", ErrorRates(0, 0, 0, 0), 0)
        )
        result = AuditResult(claim, found, lower_bounds.found(half) if half is not None else None, confidence)
        return MethodAudit(
            method=subject.name,
            guarantee="nothing leaves the client" if silent else str(guarantee),
            unit=guarantee.unit.name,
            result=result,
            world=name,
            worlds=tuple(bench.worlds_tried(tried)),
            releases=lower_bounds.releases(sample, half) if half is not None else (),
            leaks=leaks if claims else (),
            field=by_field if claims else None,
            claims=claims,
            silent=silent,
            seconds=time.perf_counter() - began,
        )


class _LowerBounds:
    """Turns scores into lower bounds, by what the ledger's lines allow together."""

    def __init__(self, entries: Sequence[Entry], claim: Claim, confidence: float) -> None:
        self._entries, self._claim, self._confidence = list(entries), claim, confidence
        self._gaussian = bool(self._entries) and all(entry.mu for entry in self._entries)

    def check_enough(self, repetitions: int) -> None:
        """Refuse repetitions that could not refute the claim."""
        claim, mu = self._claim, 0.0
        if self._gaussian:
            mu = math.sqrt(sum(entry.mu**2 * entry.times for entry in self._entries if entry.sampling == 1))
        least = 2 * max(_LEAST // 2, needed(claim.epsilon, claim.delta, self._confidence, mu or 3.0 * self._gaussian))
        if repetitions < least:
            raise DPForestError(
                f"{repetitions} repetitions are too few to refute {claim} with {100 * self._confidence:g} per cent "
                f"confidence, whatever comes out: give --repetitions {least} or more, or more --seconds"
            )

    def found(self, sample: Sample) -> Found:
        """What all releases together prove, and in words what they do whatever each of them costs."""
        scores, by = sample.scores, ALL
        if not self._gaussian and sum(entry.times for entry in self._entries) > 1:
            alone = scores.epsilon_lower_bound(self._claim.delta, self._confidence)
            by = f"{ALL}, if all releases are off by the same factor; epsilon {alone:.3f} whatever they are off by"
        return self._of(scores, self._entries, by, 2 * len(sample))

    def releases(self, sample: Sample, half: Sample) -> tuple[Release, ...]:
        """Each line of the ledger by itself."""
        names = sorted({name for part in sample.parts for ratios in part for name in ratios})
        entries = {name: [entry for entry in self._entries if entry.what.endswith(name)] for name in names}
        lines = {name: own for name, own in entries.items() if own}
        confidence = 1 - (1 - self._confidence) / max(len(lines), 1)
        return tuple(
            Release(name, total_epsilon(own, self._claim.delta),
                    *(self._of(part.scores_of(name), own, name, 2 * len(part), confidence).epsilon
                      for part in (sample, half)))
            for name, own in lines.items()
        )  # fmt: skip

    def _of(
        self, scores: CanaryScores, entries: list[Entry], by: str, repetitions: int, confidence: float | None = None
    ) -> Found:
        confidence = self._confidence if confidence is None else confidence
        family = ReleaseFamily(entries, self._claim.delta)
        rates = scores.rates_of_best(family.worth)
        sampled = any(entry.sampling < 1 for entry in entries)
        mu = rates.mu(confidence) if self._gaussian and not sampled else 0.0
        return Found(family.epsilon(rates, confidence), by, rates, repetitions, mu)


def _by_field(sample: Sample, claim: Claim, confidence: float) -> Found | None:
    """The best test of one field of the messages, that assumes nothing."""
    outside, inside = sample.fields
    if min(len(inside), len(outside)) < _LEAST // 2 or not any(inside):
        return None

    test, rates = field_rates(inside, outside, bound_for(claim, gaussian=False))
    return found_by(rates, test.words, claim, confidence, False, len(inside) + len(outside))


def _try_worlds(subject: Subject, bench: _Bench) -> tuple[str, dict[str, Sample]]:
    """The world that shows most, or the first of those that show as much, and a few repetitions of each."""
    tried: dict[str, Sample] = {}
    for name in bench.names:
        try:
            bench.view(name)
        except Diverged as error:
            bench.diverged.add(str(error))
            bench.left_out[name] = str(error)
            continue
        except DPForestError as error:
            bench.left_out[name] = str(error)
            continue
        tried[name] = bench.pilot(name)
    if not tried:
        reasons = "; ".join(dict.fromkeys(bench.left_out.values()))
        raise DPForestError(f"{subject.name} cannot be audited under these settings: {reasons}")
    enough = _AS_MUCH * max(map(_hope, tried.values()))
    return next(name for name, sample in tried.items() if _hope(sample) >= enough), tried


def _hope(sample: Sample) -> float:
    """How much a world shows: of single fields too little is known before they are repeated."""
    return sample.hope or float(any(fields for part in sample.fields for fields in part)) * 1e-3


class _Bench:
    """Views of the worlds of a subject, in this process."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._worlds: dict[str, World | None] = {world.name: world for world in worlds_of(subject)}
        if subject.task.trust is TrustModel.CENTRAL:
            averages = bool(subject.method.server(subject.server_task).initial_arrays())
            if subject.claims and (subject.task.unit is PrivacyUnit.RECORD or not averages):
                raise DPForestError(f"{subject.name} cannot be audited: {NOT_OURS}")
            self._worlds = {SERVER_WORLD: None, **self._worlds}
        self._views: dict[str, View] = {}
        self.left_out: dict[str, str] = {}
        self.diverged: set[str] = set()

    @property
    def names(self) -> list[str]:
        """Of the worlds: where a whole client is hidden and the server noises, there is one."""
        if SERVER_WORLD in self._worlds and self._subject.claims:
            return [SERVER_WORLD]
        return [name for name in self._worlds if name != SERVER_WORLD]

    def view(self, name: str) -> View:
        """What is seen in a world."""
        if name not in self._views:
            world = self._worlds[name]
            self._views[name] = ServerView(self._subject) if world is None else ClientView(self._subject, world)
        return self._views[name]

    def pilot(self, name: str) -> Sample:
        """A few repetitions; of the first ones, messages are compared with the neighbour's."""
        sample, divergences = Sample(), []
        for inside, repetition in self._repetitions(name, False, range(_FIRST_PILOT, _FIRST_PILOT + _PILOT), _CHECKED):
            sample.add(inside, repetition)
            divergences.append(repetition.divergence())
        sample.hope = float(np.mean(divergences)) if divergences else 0.0
        return sample

    def batch(self, name: str, halved: bool, first: int, count: int) -> Sample:
        """Repetitions with the record, and as many without."""
        sample = Sample()
        for inside, repetition in self._repetitions(name, halved, range(first, first + count)):
            sample.add(inside, repetition)
        return sample

    def _repetitions(
        self, name: str, halved: bool, numbers: range, checked: int = 0
    ) -> Iterator[tuple[bool, Repetition]]:
        view = self.view(name)
        if not (view.sends or view.draws):
            return
        for place, number in enumerate(numbers):
            for inside in (False, True):
                yield inside, view.repeat(inside, number, halved, place < checked)

    def sample(self, name: str, halved: bool, repetitions: int | None, seconds: float) -> Sample:
        """So many repetitions, or as many as there is time for."""
        sample, first, ends = Sample(), 0, time.perf_counter() + seconds
        wanted = math.inf if repetitions is None else repetitions // 2
        while first < wanted and (first < _LEAST or time.perf_counter() < ends):
            count = int(min(_BATCH, wanted - first))
            sample.extend(self.batch(name, halved, first, count))
            first += count
        return sample

    def worlds_tried(self, tried: dict[str, Sample]) -> Iterator[WorldTried]:
        """All worlds, with how they did."""
        for name, sample in tried.items():
            yield WorldTried(name, sample.scores.auroc() if len(sample) > 1 else 0.5)
        for name, reason in self.left_out.items():
            yield WorldTried(name, note=reason)


class _ParallelBench(_Bench):
    """The same, with repetitions in several processes."""

    def __init__(self, subject: Subject, pool: ProcessPoolExecutor, jobs: int) -> None:
        super().__init__(subject)
        self._pool, self._jobs = pool, jobs

    def sample(self, name: str, halved: bool, repetitions: int | None, seconds: float) -> Sample:
        sample, first, ends = Sample(), 0, time.perf_counter() + seconds
        wanted = math.inf if repetitions is None else repetitions // 2
        waiting: list[Future[Sample]] = []
        while waiting or first < wanted:
            while first < wanted and len(waiting) < 2 * self._jobs and (first < _LEAST or time.perf_counter() < ends):
                count = int(min(_BATCH, wanted - first))
                waiting.append(self._pool.submit(_batch_of_worker, name, halved, first, count))
                first += count
            if not waiting:
                break
            sample.extend(waiting.pop(0).result())
        return sample


_worker: _Bench | None = None


def _start_worker(subject: Subject) -> None:
    global _worker
    _worker = _Bench(subject)


def _batch_of_worker(name: str, halved: bool, first: int, count: int) -> Sample:
    assert _worker is not None
    return _worker.batch(name, halved, first, count)


@contextmanager
def _bench(subject: Subject, jobs: int) -> Iterator[_Bench]:
    if jobs == 1:
        yield _Bench(subject)
        return
    # Forked processes would share locks with threads of TensorFlow and Numba.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, _start_worker, (subject,)) as pool:
        yield _ParallelBench(subject, pool, jobs)
