"""Sums over so many clients that each shares masks with its neighbours on a circle only."""

from __future__ import annotations

import math

import numpy as np
import pytest
from in_memory import Federation, Lie

from dpforest.errors import DPForestError
from strategies.method import TooFewClients
from strategies.secure_aggregation import Phase, Refused, SecureSummer, Terms, keys, wire
from strategies.secure_aggregation.circle import FEWEST, circle_for, cut_chance

CLIENTS = 120


def ready(dropouts: int = 4, colluders: int = 2, rounds: int = 1) -> tuple[Federation, dict[int, np.ndarray]]:
    federation = Federation(Terms(CLIENTS, rounds, 10**6, dropouts, colluders))
    vectors = {client: np.array([client, -10 * client, 1000]) for client in range(CLIENTS)}
    return federation, vectors


def total_of(vectors: dict[int, np.ndarray], gone: list[int]) -> list[int]:
    return sum(vector for client, vector in vectors.items() if client not in gone).tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize("clients", [5, FEWEST - 1])
def test_few_clients_share_with_all(clients: int) -> None:
    assert Terms(clients, 1, 10, 1, 1).circle is None
    assert Terms(clients, 1, 10, 1, 1).threshold == 3


@pytest.mark.parametrize(
    ("clients", "dropouts", "colluders"), [(100, 0, 0), (100, 3, 1), (1000, 10, 0), (1000, 50, 10), (10_000, 100, 100)]
)
def test_neighbourhoods_hold_by_their_distribution(clients: int, dropouts: int, colluders: int) -> None:
    circle = circle_for(clients, dropouts, colluders, 100)
    assert circle is not None
    k, t = circle.neighbours, circle.threshold
    assert 20 <= k < clients - dropouts
    assert k % 2 == 0

    def more_than(least: int, of_a_kind: int, others: int) -> float:
        ways = sum(math.comb(of_a_kind, j) * math.comb(others - of_a_kind, k - j) for j in range(least + 1, k + 1))
        return ways / math.comb(others, k)

    # Colluders: neither t of one kind, nor, with the others' single parts, t of both: 2 t > k + e.
    exceeding = 2 * t - k - 1
    assert clients * more_than(exceeding, colluders, clients - dropouts - 1) <= 2**-64
    assert 100 * clients * more_than(k - t, dropouts, clients - 1) <= 2**-20
    assert 100 * cut_chance(clients, dropouts + colluders, k) <= 2**-64


def test_the_chance_of_a_cut_is_no_less_than_it_happens() -> None:
    rng, n, gone, k = np.random.default_rng(0), 30, 12, 4

    def is_cut() -> bool:
        lost = np.zeros(n, dtype=bool)
        lost[rng.permutation(n)[:gone]] = True
        # Pieces between runs of k / 2 or more lost places in a row.
        left = np.flatnonzero(~lost)
        gaps = np.diff(np.append(left, left[0] + n)) - 1
        return (gaps >= k // 2).sum() >= 2

    happens = np.mean([is_cut() for _ in range(4000)])
    assert happens > 0
    assert happens <= cut_chance(n, gone, k)


def test_nobody_needs_more_than_its_neighbours() -> None:
    federation, vectors = ready(dropouts=0, colluders=0)
    circle = federation.terms.circle
    assert circle is not None
    federation.exchange(vectors)
    message = federation.collector.message(5)
    assert len(message[wire.PUBLIC_KEYS]) == circle.neighbours + 1
    federation.exchange(vectors)
    federation.exchange(vectors)
    total = federation.exchange(vectors)
    assert total is not None
    assert total.values.tolist() == total_of(vectors, [])
    assert len(total.clients) == CLIENTS


@pytest.mark.parametrize("when", ["never shared", "never masked", "sent nothing to unmask"])
def test_the_sum_is_that_of_the_survivors_whoever_drops_out(when: str) -> None:
    federation, vectors = ready()
    gone = np.random.default_rng(len(when)).permutation(CLIENTS)[:4].tolist()
    federation.exchange(vectors)
    federation.exchange(vectors, lost=gone if when == "never shared" else [])
    federation.exchange(vectors, lost=gone if when == "never masked" else [])
    total = federation.exchange(vectors, lost=gone if when == "sent nothing to unmask" else [])
    assert total is not None
    left_out = [] if when == "sent nothing to unmask" else gone
    assert total.values.tolist() == total_of(vectors, left_out)
    assert not federation.collector.liars


def test_more_dropouts_than_were_allowed_for_give_the_sum_up() -> None:
    federation, vectors = ready()
    federation.set_up(vectors)
    with pytest.raises(TooFewClients):
        federation.exchange(vectors, lost=[1, 2, 3, 4, 5])


def lie(phase: Phase, name: str, change: object) -> Lie:
    return lambda now, reply: {**reply, name: change(reply[name].copy())} if now is phase else reply  # type: ignore[operator]


@pytest.mark.parametrize(
    ("phase", "name"), [(Phase.SHARE, wire.SEALED), (Phase.SHARE, wire.PART_HASHES), (Phase.MASK, wire.OPENED)]
)
def test_liars_are_named_and_cost_themselves_only(phase: Phase, name: str) -> None:
    federation, vectors = ready()
    liars = {7: lie(phase, name, lambda a: a ^ 1), 60: lie(phase, name, lambda a: a ^ 1)}
    federation.set_up(vectors, liars)
    assert federation.exchange(vectors, lies=liars) is None
    assert set(federation.collector.liars) == {7, 60}
    assert federation.collector.phase is Phase.MASK_AGAIN
    federation.exchange(vectors)
    total = federation.exchange(vectors)
    assert total is not None
    assert total.values.tolist() == total_of(vectors, [7, 60])


def test_wrong_parts_are_found_and_do_not_count() -> None:
    federation, vectors = ready()
    federation.set_up(vectors)
    federation.exchange(vectors)
    total = federation.exchange(vectors, lies={9: lie(Phase.UNMASK, wire.PARTS, lambda a: a ^ 1)})
    assert total is not None
    assert total.values.tolist() == total_of(vectors, [])
    assert set(federation.collector.liars) == {9}


def test_colluders_around_one_client_do_not_restore_its_secrets() -> None:
    federation, vectors = ready()
    federation.set_up(vectors)
    federation.exchange(vectors)
    arranged = federation.collector.arranged
    victim = arranged[0]
    partners = federation.terms.partners(victim, arranged)
    assert sorted(partners) == sorted([arranged[at] for at in (*range(1, 11), *range(-10, 0))])
    owner = SecureSummer.from_bytes(federation.states[victim], federation.terms)
    parts = {}
    for index, holder in enumerate(partners[: federation.terms.threshold - 1], 1):
        summer = SecureSummer.from_bytes(federation.states[holder], federation.terms)
        _, dealers = federation.terms.ring(holder, arranged)
        parts[index] = summer.held[dealers.index(victim), 0, 1].tobytes()
    at = owner.known.tolist().index(victim)
    one_more = {**parts, **{federation.terms.threshold: b"\0" * 16}}
    guessed = keys.public_key(keys.round_key(keys.restore(one_more, federation.terms.threshold)))
    assert guessed != owner.round_keys[at, 0].tobytes()


@pytest.mark.parametrize("name", [wire.KNOWN, wire.KEY_HASHES, wire.PUBLIC_KEYS])
def test_keys_of_others_than_its_neighbours_are_refused(name: str) -> None:
    federation, vectors = ready(0, 0)
    federation.exchange(vectors)
    message = dict(federation.collector.message(5))
    if name == wire.KNOWN:
        stranger = next(c for c in range(CLIENTS) if c not in message[wire.KNOWN])
        message[name] = np.sort(np.append(message[name][message[name] != message[name][0]], stranger))
        if message[wire.KNOWN].tolist().count(5) == 0:
            pytest.skip("the one taken out is the client itself")
    else:
        message[name] = message[name].copy()
        own = message[wire.KNOWN].tolist().index(5) if name == wire.PUBLIC_KEYS else 5
        message[name][(own + 1) % len(message[name])] ^= 1
    with pytest.raises(Refused):
        federation.reply(5, message, vectors[5], Phase.SHARE)


def test_survivors_without_a_clients_neighbours_are_refused() -> None:
    federation, vectors = ready(dropouts=12, colluders=0)
    terms = federation.terms
    assert terms.circle is not None
    federation.set_up(vectors)
    federation.exchange(vectors)
    message = dict(federation.collector.message(5))
    near = terms.partners(5, federation.collector.arranged)[: terms.most_failing + 1]
    message[wire.SURVIVORS] = np.setdiff1d(message[wire.SURVIVORS], near)
    with pytest.raises(Refused, match="so many of its neighbours"):
        federation.reply(5, message, vectors[5])


def test_a_sum_out_of_bounds_is_refused() -> None:
    federation, vectors = ready(0, 0)
    federation.set_up(vectors)
    federation.exchange(vectors, lies={3: lie(Phase.MASK, wire.MASKED, lambda a: a + np.array(2**28, a.dtype))})
    with pytest.raises(DPForestError, match="exceeds"):
        federation.exchange(vectors)
