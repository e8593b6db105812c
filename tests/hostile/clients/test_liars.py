"""A client that lies is found and named, costs itself only, and nobody honest is blamed for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from in_memory import Federation, Lie, any_federation

from dpforest.errors import DPForestError
from strategies.method import Arrays, TooFewClients
from strategies.secure_aggregation import Phase, Refused, SecureSummer, Terms, keys, wire
from strategies.secure_aggregation.wire import (
    COMMITMENTS,
    MASKED,
    OPENED,
    PART_HASHES,
    PARTS,
    PUBLIC_KEY,
    ROSTER,
    ROUND,
    ROUND_KEYS,
    SEALED,
    SURVIVORS,
)

Change = Callable[[np.ndarray], np.ndarray]
# A point of order 8 (https://cr.yp.to/ecdh.html#validate).
SMALL_ORDER = np.frombuffer(bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"), np.uint8)


def lie(phase: Phase, name: str, change: Change) -> Lie:
    """Another array under a name, in the exchanges of one phase."""

    def tamper(now: Phase, reply: dict[str, np.ndarray]) -> Arrays:
        return {**reply, name: change(reply[name].copy())} if now is phase and name in reply else reply

    return tamper


def row(at: int, value: np.ndarray | int) -> Change:
    def change(array: np.ndarray) -> np.ndarray:
        array[at] = value
        return array

    return change


def flipped(array: np.ndarray) -> np.ndarray:
    return array ^ 1


def turned(array: np.ndarray) -> np.ndarray:
    return np.roll(array, 1, axis=0)


# Each is found, whatever else goes wrong, and names its sender.
FOUND = {
    "public key of zeros": lie(Phase.ADVERTISE, PUBLIC_KEY, lambda a: a * 0),
    "public key of small order": lie(Phase.ADVERTISE, PUBLIC_KEY, lambda a: SMALL_ORDER),
    "round key of small order": lie(Phase.ADVERTISE, ROUND_KEYS, row(0, SMALL_ORDER)),
    "round keys repeated": lie(Phase.ADVERTISE, ROUND_KEYS, lambda a: a[:1].repeat(len(a), axis=0)),
    "round keys of nobody": lie(Phase.ADVERTISE, ROUND_KEYS, flipped),
    "seals in another order": lie(Phase.SHARE, SEALED, turned),
    "altered seals": lie(Phase.SHARE, SEALED, flipped),
    "other parts than promised": lie(Phase.SHARE, PART_HASHES, flipped),
    "parts in another order": lie(Phase.SHARE, PART_HASHES, turned),
    "blames everybody": lie(Phase.MASK, OPENED, lambda a: a * 0),
    "wrong parts": lie(Phase.UNMASK, PARTS, flipped),
    "one wrong part": lie(Phase.UNMASK, PARTS, row(0, 7)),
    "random parts": lie(Phase.UNMASK, PARTS, lambda a: np.random.default_rng(0).integers(0, 256, a.shape, np.uint8)),
}  # fmt: skip
# Each may be the lie of the one or of the other, and does no harm.
HARMLESS = {
    "one altered seal": lie(Phase.SHARE, SEALED, row(0, 7)),
    "blames one": lie(Phase.MASK, OPENED, row(0, 7)),
}


def vectors_of(terms: Terms, draw: int = 0) -> dict[int, np.ndarray]:
    rng = np.random.default_rng(draw)
    return {c: rng.integers(-terms.largest_value, terms.largest_value, 3, endpoint=True) for c in range(terms.clients)}


def run(federation: Federation, lies: dict[int, Lie], gone: dict[int, set[int]] | None = None) -> list[set[int]]:
    """All sums, each exact; who is in each."""
    clients = []
    vectors = vectors_of(federation.terms)
    exchange = 0
    while federation.collector.phase is not Phase.DONE:
        if federation.collector.phase is Phase.MASK:
            vectors = vectors_of(federation.terms, exchange)
        missing = [client for client, when in (gone or {}).items() if exchange in when]
        total = federation.exchange(vectors, unreached=missing, lies=lies)
        exchange += 1
        if total is not None:
            np.testing.assert_array_equal(total.values, sum(vectors[client] for client in total.clients))
            clients.append(set(total.clients))
    assert federation.collector.exchanges == exchange
    return clients


def named(federation: Federation) -> set[int]:
    return federation.refused.keys() | federation.collector.liars.keys()


@pytest.mark.parametrize("how", FOUND)
def test_a_lie_is_found_and_costs_its_sender_only(how: str) -> None:
    """Four holders of each secret, of whom three restore it."""
    federation = Federation(Terms(6, 3, 1000, dropouts=1, colluders=1))
    sums = run(federation, {2: FOUND[how]})
    assert named(federation) == {2}
    assert len(sums) == 3
    assert all(clients >= {0, 1, 3, 4, 5} for clients in sums)
    assert sums[-1] == {0, 1, 3, 4, 5}, "once found, it is asked no more"


@pytest.mark.parametrize("how", HARMLESS)
def test_what_either_of_two_may_have_made_up_names_nobody(how: str) -> None:
    federation = Federation(Terms(6, 3, 1000, dropouts=1, colluders=1))
    assert run(federation, {2: HARMLESS[how]}) == [set(range(6))] * 3
    assert not named(federation)


@st.composite
def mixes(draw: st.DrawFn) -> tuple[Terms, dict[int, str], dict[int, set[int]]]:
    """Terms, and up to as many bad clients as they allow: who lies how, and who is gone when."""
    dropouts, colluders = draw(st.integers(1, 3)), draw(st.integers(0, 1))
    clients = 2 * dropouts + colluders + 2 + draw(st.integers(0, 2))
    terms = Terms(clients, draw(st.integers(1, 2)), draw(st.sampled_from([1000, 2**40])), dropouts, colluders)
    bad = draw(st.sets(st.integers(0, clients - 1), max_size=dropouts))
    lies = {client: draw(st.sampled_from(["", *FOUND, *HARMLESS])) for client in bad}
    exchanges = st.sets(st.integers(0, 2 + 2 * terms.rounds + dropouts))
    return terms, lies, {client: draw(exchanges) for client in bad if draw(st.booleans())}


@seed(17)
@settings(max_examples=30, deadline=None)
@given(mixes())
def test_no_mix_of_liars_and_dropouts_costs_anybody_else(
    mix: tuple[Terms, dict[int, str], dict[int, set[int]]],
) -> None:
    terms, lies, gone = mix
    federation = Federation(terms)
    tampering = {client: (FOUND | HARMLESS)[how] for client, how in lies.items() if how}
    sums = run(federation, tampering, gone)
    honest = set(range(terms.clients)) - lies.keys()
    assert len(sums) == terms.rounds
    assert all(clients >= honest for clients in sums)
    assert not named(federation) & honest
    assert federation.collector.ended is None
    assert named(federation) >= {client for client, how in lies.items() if how in FOUND and client not in gone}


def test_a_key_of_another_client_is_not_the_others_fault() -> None:
    federation = Federation(Terms(6, 1, 1000, dropouts=1, colluders=1))
    vectors = vectors_of(federation.terms)
    others = federation.replies(vectors)[1]
    federation.exchange(vectors, lies={2: lambda phase, reply: others})
    assert named(federation) == {2}
    assert "is another's" in federation.refused[2]


def test_clients_that_share_a_private_key_are_both_named() -> None:
    federation = Federation(Terms(8, 1, 1000, dropouts=2, colluders=1))
    one, two = (SecureSummer.from_bytes(federation.states[client], federation.terms) for client in (1, 2))
    two.private_key = one.private_key
    federation.states[2] = two.to_bytes()
    assert run(federation, {}) == [{0, 3, 4, 5, 6, 7}]
    assert named(federation) == {1, 2}
    assert "clients 1 and 2" in federation.collector.liars[1]


@pytest.mark.parametrize("gone", [[], [4]])
def test_another_secret_than_promised_costs_one_sum_and_names_who_shared_it(gone: list[int]) -> None:
    federation = Federation(Terms(8, 3, 1000, dropouts=2, colluders=1))
    vectors = vectors_of(federation.terms)
    lies = {2: lie(Phase.ADVERTISE, COMMITMENTS, flipped)}
    federation.set_up(vectors, lies)
    federation.exchange(vectors, unreached=gone, lies=lies)
    with pytest.raises(DPForestError, match="client 2 shared the parts of another secret than it promised"):
        federation.exchange(vectors, unreached=gone, lies=lies)
    federation.exchange(vectors, lies=lies)
    assert federation.exchange(vectors, lies=lies).clients == (0, 1, 3, 4, 5, 6, 7)
    assert named(federation) == {2}


def test_a_wrong_secret_of_a_client_that_is_gone_is_its_own_fault() -> None:
    """It promised one round key and shared another, and left before its vector was due."""
    federation = Federation(Terms(6, 2, 1000, dropouts=1, colluders=1))
    vectors = vectors_of(federation.terms)
    federation.exchange(vectors)
    summer = SecureSummer.from_bytes(federation.states[2], federation.terms)
    honest_round_keys = summer.own_round_keys
    summer.seeds, promised = summer.seeds.copy(), honest_round_keys()
    summer.seeds[0, wire.KEY] ^= 1
    summer.own_round_keys = lambda: promised  # type: ignore[method-assign]
    replies = federation.replies(vectors, unreached=[2])
    federation.collector.receive({**replies, 2: summer.share(federation.collector.message(2))})
    federation.exchange(vectors, unreached=[2])
    with pytest.raises(DPForestError, match="client 2 shared the parts of another secret"):
        federation.exchange(vectors)
    federation.exchange(vectors)
    assert federation.exchange(vectors).clients == (0, 1, 3, 4, 5)


def test_a_vector_of_no_client_is_found_and_blames_nobody() -> None:
    """Every vector is uniform to the server, so that none can be distinguished from an honest one."""
    federation = Federation(Terms(6, 2, 1000, dropouts=1, colluders=1), length=20)
    vectors = {client: np.full(20, client) for client in range(6)}
    federation.set_up(vectors)
    noise = np.random.default_rng(0).integers(0, 2**32, 20, np.uint32)
    federation.exchange(vectors, lies={2: lie(Phase.MASK, MASKED, lambda a: noise)})
    with pytest.raises(DPForestError, match="which one does not show"):
        federation.exchange(vectors)
    assert not named(federation)
    federation.exchange(vectors)
    np.testing.assert_array_equal(federation.exchange(vectors).values, np.full(20, 15))


def test_seals_that_are_wrong_for_some_name_their_sender_at_the_latest_when_parts_are_missing() -> None:
    """Two of five holders have no part, which they may have made up; then one more cannot be reached."""
    federation = Federation(Terms(6, 2, 1000, dropouts=2))
    vectors = vectors_of(federation.terms)
    lies = {2: lie(Phase.SHARE, SEALED, lambda a: row(1, 9)(row(0, 9)(a)))}
    federation.set_up(vectors, lies)
    federation.exchange(vectors)
    assert not named(federation)
    with pytest.raises(DPForestError, match="client 2 sealed other parts than it promised for 2 clients"):
        federation.exchange(vectors, unreached=[5])
    federation.exchange(vectors)
    assert federation.exchange(vectors).clients == (0, 1, 3, 4, 5)


def test_without_room_for_liars_the_pair_is_named_and_nobody_left_out() -> None:
    federation = Federation(Terms(4, 2, 1000, colluders=1))
    vectors = vectors_of(federation.terms)
    federation.set_up(vectors)
    federation.exchange(vectors, lies={2: HARMLESS["blames one"]})
    with pytest.raises(TooFewClients, match="client 2 says that its part is not the promised one"):
        federation.exchange(vectors)
    assert not named(federation)


def test_a_run_ends_at_once_when_too_few_are_left_for_a_sum() -> None:
    federation = Federation(Terms(6, 5, 1000, dropouts=1, colluders=1))
    vectors = vectors_of(federation.terms)
    federation.set_up(vectors)
    federation.exchange(vectors)
    liars = dict.fromkeys((2, 3), FOUND["wrong parts"])
    with pytest.raises(TooFewClients):
        federation.exchange(vectors, unreached=[4], lies=liars)
    assert federation.collector.phase is Phase.DONE
    assert "client 2 returned a wrong part" in federation.collector.ended
    assert "client 3 returned a wrong part" in federation.collector.ended


def test_who_missed_the_agreement_on_keys_is_not_asked_again() -> None:
    terms = Terms(8, 1, 1000, dropouts=2, colluders=1)
    federation = Federation(terms)
    vectors = vectors_of(terms)
    federation.exchange(vectors, unreached=[1])
    assert federation.collector.participants(list(range(8))) == [0, 2, 3, 4, 5, 6, 7]
    federation.exchange(vectors, unreached=[2])
    assert not federation.collector.is_enough([0, 1, 2, 3, 4, 5])
    for _ in range(2):
        assert federation.collector.participants(list(range(8))) == [0, 3, 4, 5, 6, 7]
        federation.exchange(vectors)


def masked_again(federation: Federation, vectors: dict[int, np.ndarray]) -> tuple[dict, dict]:
    """Masked vectors of both attempts at a sum in which a client's seals turn out not to open."""
    lies = {2: FOUND["altered seals"]}
    federation.set_up(vectors, lies)
    first = federation.replies(vectors)
    federation.collector.receive(first)
    assert federation.collector.phase is Phase.MASK_AGAIN
    return first, federation.replies(vectors)


def test_masks_of_a_sum_that_is_masked_anew_are_fresh() -> None:
    """Both attempts carry the same vectors, and what unmasks the second says nothing of the first."""
    federation = Federation(Terms(6, 1, 1000, dropouts=1, colluders=1))
    vectors = vectors_of(federation.terms)
    before = {c: SecureSummer.from_bytes(state, federation.terms).seeds for c, state in federation.states.items()}
    first, second = masked_again(federation, vectors)
    assert first.keys() - second.keys() == {2}
    federation.collector.receive(second)
    answers = federation.replies(vectors)
    members = list(range(6))
    for client in second:
        assert not np.array_equal(first[client][MASKED], second[client][MASKED])
        holders, _ = federation.terms.ring(client, members)
        parts = {}
        for index, holder in enumerate(holders, 1):
            if holder in answers:
                at = [d for d in federation.terms.ring(holder, members)[1] if d != 2].index(client)
                parts[index] = answers[holder][PARTS][at].tobytes()
        assert keys.restore(parts, federation.terms.threshold) == before[client][1, wire.SELF].tobytes()
        assert before[client][0, wire.SELF].tobytes() != before[client][1, wire.SELF].tobytes()


def test_a_client_masks_again_only_what_is_masked_still_and_for_fewer_clients() -> None:
    federation = Federation(Terms(6, 2, 1000, dropouts=1, colluders=1))
    vectors = vectors_of(federation.terms)
    federation.set_up(vectors)
    federation.exchange(vectors)
    again = {ROUND: np.array([1, 1]), ROSTER: np.array([0, 1, 3, 4, 5])}

    def ask(client: int, phase: Phase, **changes: list[int]) -> Arrays:
        message = again | {f"secure.{name}": np.array(value) for name, value in changes.items()}
        return federation.reply(client, message, vectors[client], phase)

    with pytest.raises(Refused, match="same clients"):
        ask(3, Phase.MASK_AGAIN, roster=list(range(6)))
    for other in ([1, 0], [1, 2], [2, 1], [0, 1]):
        with pytest.raises(Refused, match="again, but only round 1"):
            ask(3, Phase.MASK_AGAIN, round=other)
    ask(3, Phase.MASK_AGAIN)
    with pytest.raises(Refused, match="only once"):
        ask(3, Phase.MASK_AGAIN, roster=[0, 1, 3, 4, 5])
    everybody = {SURVIVORS: np.arange(6)}
    with pytest.raises(Refused, match="only once"):  # the first masks stay on for good
        federation.reply(3, {ROUND: np.array([1, 0]), **everybody}, vectors[3], Phase.UNMASK)
    federation.reply(4, {ROUND: np.array([1, 0]), **everybody}, vectors[4], Phase.UNMASK)
    with pytest.raises(Refused, match="again, but only"):  # the first masks may be off
        ask(4, Phase.MASK_AGAIN)


@seed(17)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_no_server_unmasks_two_attempts_at_one_vector(data: st.DataObject) -> None:
    """It tells some holders to mask again and others not, and colluders hand over all parts that they hold."""
    federation, vectors = any_federation(data, colluders=1, more=1)
    terms, everybody = federation.terms, set(vectors)
    victim, dropped = data.draw(st.permutations(sorted(everybody)))[:2]
    evil = set(data.draw(st.permutations(sorted(everybody - {victim})))[: terms.colluders])
    fewer = np.array(sorted(everybody - {dropped}))
    holders, _ = terms.ring(victim, sorted(everybody))
    known: dict[int, int] = {0: len(evil & set(holders)), 1: len(evil & set(holders))}
    for holder in sorted(set(holders) - evil):
        retries = data.draw(st.integers(0, 1)) if holder != dropped else 0
        if retries:
            federation.reply(holder, {ROUND: np.array([1, 1]), ROSTER: fewer}, vectors[holder], Phase.MASK_AGAIN)
        known[retries] += 1
        roster = fewer if retries else np.array(sorted(everybody))
        federation.reply(holder, {ROUND: np.array([1, retries]), SURVIVORS: roster}, vectors[holder], Phase.UNMASK)
        for other in (0, 1):
            with pytest.raises(Refused):
                federation.reply(
                    holder, {ROUND: np.array([1, other]), SURVIVORS: roster}, vectors[holder], Phase.UNMASK
                )
    assert min(known.values()) < terms.threshold


def test_possession_of_a_key_is_shown_for_one_client_and_by_its_owner_alone() -> None:
    mine, server, other = (bytes([n]) * 32 for n in (1, 2, 3))
    shown = keys.possession(mine, keys.public_key(server), "of key 0 by 5")
    assert shown == keys.possession(server, keys.public_key(mine), "of key 0 by 5")
    assert shown != keys.possession(server, keys.public_key(mine), "of key 0 by 6")
    assert shown != keys.possession(server, keys.public_key(other), "of key 0 by 5")
    with pytest.raises(keys.BadKey, match="small order"):
        keys.possession(server, SMALL_ORDER.tobytes(), "of key 0 by 5")
