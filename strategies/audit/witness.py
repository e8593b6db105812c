"""Who watches what a client's mechanisms draw, and repeats it on other rows."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpforest.audit import HalvedNoise
from dpforest.errors import DPForestError
from dpforest.mechanisms import DiscreteGaussianSums, Mechanism
from dpforest.noise import Noise, Secure, Seeded
from dpforest.noise.base import Shape

Samples = dict[tuple[str, int], list[np.ndarray]]  # by purpose and round


class Diverged(DPForestError):
    """On neighbouring rows other mechanisms are asked, or for values of another shape."""


@dataclass(frozen=True)
class Draw:
    """One release.

    Parameters
    ----------
    what : str
        The ledger's name of it.
    mechanism : Mechanism
    values : ndarray
        What went into the mechanism.
    output : ndarray
        What came out of the client.
    seen : ndarray
        What a server sees of it: of a secure sum, the sum with the noise of all parties.
    group : int
        Draws of one group are made of one sample of the rows, or of the clients.
    """

    what: str
    mechanism: Mechanism
    values: np.ndarray
    output: np.ndarray
    seen: np.ndarray
    group: int


@dataclass
class Recorder:
    """Draws as a client does, from its noise or half of it, and keeps what was drawn.

    Parameters
    ----------
    others : Noise
        The noise of the other parties of a secure sum.
    halved : bool
        Draw half the noise that the mechanisms ask for.
    """

    others: Noise
    halved: bool = False
    draws: list[Draw] = field(default_factory=list)
    group: int | None = None

    def draw(self, what: str, mechanism: Mechanism, values: np.ndarray, noise: Noise) -> np.ndarray:
        source = noise.source if isinstance(noise, AuditNoise) else noise
        source, others = (HalvedNoise(part) if self.halved else part for part in (source, self.others))
        output = mechanism._noised(values, source)
        seen = output
        if isinstance(mechanism, DiscreteGaussianSums) and mechanism.shares > 1:
            zeros = np.zeros((mechanism.shares - 1, *np.shape(values)), dtype=np.int64)
            seen = output + mechanism._noised(zeros, others).sum(axis=0)
        group = len(self.draws) if self.group is None else self.group
        self.draws.append(Draw(what, mechanism, np.array(values), output, seen, group))
        return output


class Replayer:
    """Gives out what was drawn before, and keeps what would have gone into the mechanisms.

    Parameters
    ----------
    draws : sequence of Draw
    """

    def __init__(self, draws: Sequence[Draw]) -> None:
        self._draws = iter(draws)
        self.values: list[np.ndarray] = []

    def draw(self, what: str, mechanism: Mechanism, values: np.ndarray, noise: Noise) -> np.ndarray:
        known = next(self._draws, None)
        if known is None or (known.what, known.mechanism) != (what, mechanism):
            raise Diverged(f"with one record more or less the client releases {what!r} where it did not, or otherwise")
        if np.shape(known.values) != np.shape(values):
            raise Diverged(f"with one record more or less {what!r} has another shape")
        self.values.append(np.array(values))
        return known.output


class AuditNoise(Noise):
    """A noise source of one purpose in one repetition.

    What no proof needs to be secret (shuffles, candidates) is the same in all repetitions, and samples whose secrecy a
    proof does need are kept, so that they can be repeated with the record in or out.

    Parameters
    ----------
    source : Noise
        Of the noise, and of the samples.
    public : Generator
        Of the rest.
    samples : list of ndarray
        The samples that were drawn; all that there are to repeat if ``repeats``.
    repeats : bool
    """

    def __init__(self, source: Noise, public: np.random.Generator, samples: list[np.ndarray], repeats: bool) -> None:
        self.source = source
        self._public, self._samples, self._repeats = public, samples, repeats
        self._next: Iterator[np.ndarray] = iter(samples)

    def discrete_laplace(self, scale: float, shape: Shape) -> np.ndarray:
        return self.source.discrete_laplace(scale, shape)

    def discrete_laplace_share(self, scale: float, shares: int, shape: Shape) -> np.ndarray:
        return self.source.discrete_laplace_share(scale, shares, shape)

    def discrete_gaussian(self, sigma: float, shape: Shape) -> np.ndarray:
        return self.source.discrete_gaussian(sigma, shape)

    def permute_and_flip(self, scores: np.ndarray, scale: float) -> np.ndarray:
        return self.source.permute_and_flip(scores, scale)

    def exponential_mechanism(self, scores: np.ndarray, scale: float) -> np.ndarray:
        return self.source.exponential_mechanism(scores, scale)

    def bernoulli(self, probability: float, size: int) -> np.ndarray:
        if not self._repeats:
            self._samples.append(self.source.bernoulli(probability, size))
            return self._samples[-1]
        # The record comes last; where it is in the rows, it is taken to be in the sample too.
        known = next(self._next)
        taken = np.ones(size, dtype=bool)
        taken[: len(known)] = known
        return taken

    def sample(self, population: int, size: int) -> np.ndarray:
        return self.source.sample(population, size)

    def generator(self) -> np.random.Generator:
        return self._public


@dataclass
class Randomness:
    """All that is random in one repetition of a client.

    Parameters
    ----------
    key : tuple of int
        Of the repetition.
    seed : int
        Of the audit.
    secure : bool
        Whether noise is drawn cryptographically.
    public_key : tuple of int
        Of what no proof needs to be secret: the same for all repetitions, or, for a method that claims nothing, the
        repetition's own.
    known : mapping
        Samples of an earlier repetition that is repeated, by purpose and round.
    """

    key: tuple[int, ...]
    seed: int
    secure: bool
    public_key: tuple[int, ...] = ()
    known: Samples | None = None
    samples: Samples = field(default_factory=dict)

    def noise(self, client: int, round_: int) -> Callable[[str], Noise]:
        """What a client's task has as ``noise``."""

        def source(purpose: str) -> Noise:
            secret = Secure() if self.secure else Seeded(self._entropy(self.key, client, round_, purpose))
            repeats = self.known is not None
            place = (purpose, round_)
            samples = self.known.get(place, []) if self.known is not None else self.samples.setdefault(place, [])
            return AuditNoise(secret, self._public(client, round_, purpose), samples, repeats)

        return source

    def rng(self, client: int, round_: int) -> Callable[[str], np.random.Generator]:
        """What a client's task has as ``rng``."""
        return lambda purpose: self._public(client, round_, purpose)

    def others(self) -> Noise:
        """Noise of the other parties of a secure sum."""
        return Secure() if self.secure else Seeded(self._entropy(self.key, 0, 0, "others"))

    def _public(self, client: int, round_: int, purpose: str) -> np.random.Generator:
        return np.random.default_rng(self._entropy(self.public_key, client, round_, f"public {purpose}"))

    def _entropy(self, key: tuple[int, ...], client: int, round_: int, purpose: str) -> np.random.SeedSequence:
        return np.random.SeedSequence(self.seed, spawn_key=(*key, client, round_, zlib.crc32(purpose.encode())))
