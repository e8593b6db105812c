"""What a curious or lying server can and cannot learn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from Crypto.Cipher import AES
from Crypto.Hash import SHA256
from Crypto.Protocol.KDF import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st
from in_memory import Federation, any_federation, ready

from dpforest.errors import DPForestError
from strategies.messages import BadMessage
from strategies.secure_aggregation import Phase, Refused, SecureSummer, SumCollector, Terms, keys, wire
from strategies.secure_aggregation.wire import (
    MASKED,
    MEMBERS,
    PARTS,
    PUBLIC_KEYS,
    ROSTER,
    ROUND,
    ROUND_KEYS,
    SEALED,
    SURVIVORS,
)


def unmask_request(round_: int, survivors: list[int]) -> dict[str, np.ndarray]:
    return {ROUND: np.array([round_, 0]), SURVIVORS: np.array(survivors, np.int64)}


@pytest.mark.parametrize("largest", [10, 2**40])
def test_masked_vector_is_uniform_whatever_the_vector(largest: int) -> None:
    length = 100_000
    federation = Federation(Terms(3, 1, largest), length)
    vectors = {client: np.full(length, largest * (client - 1)) for client in range(3)}
    federation.set_up(vectors)
    for reply in federation.replies(vectors).values():
        bytes_ = reply[MASKED].view(np.uint8).reshape(length, -1)
        for position in bytes_.T:
            counts = np.bincount(position, minlength=256)
            chi_square = ((counts - length / 256) ** 2 / (length / 256)).sum()
            assert abs(chi_square - 255) < 8 * np.sqrt(2 * 255)  # mean and spread of chi-square with 255 degrees


def test_masks_of_rounds_and_clients_are_unrelated() -> None:
    federation, _ = ready()
    same = dict.fromkeys(range(6), np.array([1, 1, 1]))
    first = federation.replies(same)
    federation.collector.receive(first)
    federation.exchange(same)
    second = federation.replies(same)
    seen = [reply[MASKED].tobytes() for reply in (*first.values(), *second.values())]
    assert len(set(seen)) == 12


def test_sum_over_part_of_the_survivors_stays_masked() -> None:
    """The masks between those left out and the others do not cancel."""
    federation, vectors = ready()
    replies = federation.replies(vectors)
    zero = np.zeros(3, np.uint32)
    for size in range(1, 6):
        for some in itertools.combinations(range(6), size):
            partial = sum((replies[client][MASKED] for client in some), zero)
            expected = sum(vectors[client] for client in some).astype(np.uint32)
            assert not np.array_equal(partial, expected)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_liar_never_gets_both_secrets_of_a_client(data: st.DataObject) -> None:
    """The server claims other survivors to each client, and its colluders hand over all parts they hold."""
    federation, vectors = any_federation(data, colluders=2, more=2)
    terms, everybody = federation.terms, list(vectors)
    victim = data.draw(st.sampled_from(everybody))
    evil = data.draw(
        st.sets(
            st.sampled_from([c for c in everybody if c != victim]), min_size=terms.colluders, max_size=terms.colluders
        )
    )
    holders, _ = terms.ring(victim, everybody)
    hear_missing = data.draw(st.sets(st.sampled_from(holders)))
    parts: dict[str, dict[int, bytes]] = {"self": {}, "key": {}}
    for index, holder in enumerate(holders, 1):
        if holder in evil:
            held = SecureSummer.from_bytes(federation.states[holder], terms).held
            for kind, column in (("self", 0), ("key", 1)):
                parts[kind][index] = held[index - 1, 0, column].tobytes()
            continue
        named = [c for c in everybody if c != victim] if holder in hear_missing else everybody
        reply = federation.reply(holder, unmask_request(1, named), vectors[holder])
        parts["key" if holder in hear_missing else "self"][index] = reply[PARTS][index - 1].tobytes()
        with pytest.raises(Refused, match="only once"):
            federation.reply(holder, unmask_request(1, everybody), vectors[holder])
    assert min(len(known) for known in parts.values()) < terms.threshold


def test_fewer_parts_than_the_threshold_restore_another_secret() -> None:
    seed = bytes(range(16))
    parts = dict(enumerate(keys.split(seed, 4, 6), 1))
    for some in itertools.combinations(parts, 4):
        assert keys.restore({index: parts[index] for index in some}, 4) == seed
    for some in itertools.combinations(parts, 3):
        assert keys.restore({index: parts[index] for index in some}, 3) != seed


@pytest.mark.parametrize(
    ("round_", "survivors", "why"),
    [
        (1, [0, 1, 2, 3], "4 survivors"),  # below the threshold
        (1, [0, 1, 2, 4, 5], "not among the survivors"),  # without the client itself
        (1, [1, 2, 3, 4, 9], "no clients of this run"),
        (1, [0, 1, 2, 3, 4, 5, 9], "7 survivors"),
        (2, [0, 1, 2, 3, 4, 5], "only round 1"),  # not masked yet
        (0, [0, 1, 2, 3, 4, 5], "only round 1"),
    ],
)
def test_client_refuses_to_unmask(round_: int, survivors: list[int], why: str) -> None:
    federation, vectors = ready()
    federation.exchange(vectors)
    with pytest.raises(Refused, match=why):
        federation.reply(3, unmask_request(round_, survivors), vectors[3])
    federation.reply(3, unmask_request(1, [0, 1, 2, 3, 4, 5]), vectors[3])  # the refusal cost nothing


@pytest.mark.parametrize("survivors", [[3, 3, 3, 3, 3], [5, 4, 3, 2, 1, 0]])
def test_survivors_named_twice_or_out_of_order_are_malformed(survivors: list[int]) -> None:
    federation, vectors = ready()
    federation.exchange(vectors)
    with pytest.raises(BadMessage, match="each client once"):
        federation.reply(3, unmask_request(1, survivors), vectors[3])


def test_old_rounds_are_neither_masked_nor_unmasked_again() -> None:
    federation, vectors = ready(rounds=3)
    old_mask = federation.collector.message(3)
    federation.exchange(vectors)
    with pytest.raises(Refused, match="masked once"):
        federation.reply(3, old_mask, vectors[3], Phase.MASK)
    federation.exchange(vectors, unreached=[3])  # the client never unmasked round 1
    federation.exchange(vectors)
    with pytest.raises(Refused, match="only round 2"):
        federation.reply(3, unmask_request(1, [0, 1, 2, 3, 4, 5]), vectors[3])
    with pytest.raises(Refused, match="asked to mask round 1"):
        federation.reply(3, old_mask, vectors[3], Phase.MASK)
    with pytest.raises(Refused, match="asked to mask round 4"):
        federation.reply(3, {ROUND: np.array([4, 0])}, vectors[3], Phase.MASK)


def test_client_that_missed_a_round_does_not_unmask_it() -> None:
    federation, vectors = ready()
    federation.exchange(vectors, unreached=[3])
    with pytest.raises(Refused, match="only round 0"):
        federation.reply(3, unmask_request(1, [0, 1, 2, 3, 4, 5]), vectors[3])


def test_what_is_no_longer_needed_is_erased() -> None:
    federation, vectors = ready()
    federation.exchange(vectors)
    federation.exchange(vectors)
    summer = SecureSummer.from_bytes(federation.states[0], federation.terms)
    second = wire.Attempt(2).secret(federation.terms)
    assert not summer.seeds[:second].any()
    assert not summer.held[:, :second].any()
    assert not summer.vector.size
    assert summer.seeds[second].any()
    assert summer.held[:, second].any()


def uncovered(
    masked: np.ndarray, summer: SecureSummer, round_: int, self_seed: bytes | None, key_seed: bytes
) -> np.ndarray:
    """What the server makes of a client's masked vector with the secrets that it has."""
    terms, vector = summer.terms, masked.copy()
    setup = summer.setup.tobytes()
    salt = wire.mask_salt(setup, np.arange(terms.clients), wire.Attempt(round_), summer.release)
    if self_seed is not None:
        terms.field.add_mask(vector, wire.self_mask(self_seed, salt, summer.client), -1)
    for peer in range(terms.clients):
        if peer != summer.client:
            public = summer.round_keys[peer, wire.Attempt(round_).secret(terms)].tobytes()
            key = wire.pair_mask(keys.round_key(key_seed), public, salt, summer.client, peer)
            terms.field.add_mask(vector, key, -wire.pair_sign(summer.client, peer))
    return terms.field.decode(vector)


def test_vector_that_arrives_after_its_client_was_given_up_stays_covered() -> None:
    federation, vectors = ready()
    replies = federation.replies(vectors)
    late = replies.pop(3)[MASKED]
    federation.collector.receive(replies)
    summer = SecureSummer.from_bytes(federation.states[3], federation.terms)
    holders, _ = federation.terms.ring(3, list(range(6)))
    answers = federation.replies(vectors)
    parts = {index: answers[holder][PARTS][index - 1].tobytes() for index, holder in enumerate(holders, 1)}
    round_key_seed = keys.restore(parts, federation.terms.threshold)
    assert keys.public_key(keys.round_key(round_key_seed)) == summer.round_keys[3, 0].tobytes()
    assert not np.array_equal(uncovered(late, summer, 1, None, round_key_seed), vectors[3])


def test_key_of_a_missed_round_opens_no_later_round() -> None:
    """Client 3 misses round 1, where the server restores its round key, and is back in round 2."""
    federation, vectors = ready()
    before = SecureSummer.from_bytes(federation.states[3], federation.terms)
    federation.exchange(vectors, unreached=[3])
    federation.exchange(vectors)
    masked = federation.replies(vectors)[3][MASKED]
    summer = SecureSummer.from_bytes(federation.states[3], federation.terms)
    second = wire.Attempt(2).secret(federation.terms)
    known, hidden = before.seeds[0, 1].tobytes(), before.seeds[second, 1].tobytes()
    self_seed = before.seeds[second, 0].tobytes()  # the server restores it lawfully in round 2
    assert not np.array_equal(uncovered(masked, summer, 2, self_seed, known), vectors[3])
    # Only both secrets of round 2 would do, which shows that the attack is a real one.
    np.testing.assert_array_equal(uncovered(masked, summer, 2, self_seed, hidden), vectors[3])


def test_replaced_repeated_or_weak_keys_are_refused() -> None:
    terms = Terms(4, 1, 10)
    federation = Federation(terms)
    nothing = dict.fromkeys(range(4), np.zeros(3, np.int64))
    federation.exchange(nothing)
    message = federation.collector.message(1)

    def changed(name: str, client: int, value: np.ndarray | int) -> dict[str, np.ndarray]:
        array = message[name].copy()
        array[client] = value
        return {**message, name: array}

    other = SecureSummer(1, terms).advertise(SumCollector(terms, 3).message(1))["secure.public_key"]
    for bad, why in (
        (changed(PUBLIC_KEYS, 1, other), "not its own"),
        (changed(ROUND_KEYS, 1, 7), "not its own"),
        (changed(PUBLIC_KEYS, 2, message[PUBLIC_KEYS][3]), "same public key"),
        (changed(PUBLIC_KEYS, 2, 0), "small order"),
        ({**message, **{name: message[name][1:] for name in message}}, "3 members"),
    ):
        with pytest.raises(DPForestError, match=why):
            federation.reply(1, bad, nothing[1])
    federation.reply(1, message, nothing[1])
    with pytest.raises(Refused, match="shared already"):
        federation.reply(1, message, nothing[1])


def test_clients_shown_different_keys_cannot_read_each_other() -> None:
    """The server swaps the round keys of client 3 for its own, but only towards client 0."""
    terms = Terms(4, 1, 10)
    federation = Federation(terms)
    vectors = dict.fromkeys(range(4), np.zeros(3, np.int64))
    federation.exchange(vectors)
    shown = dict(federation.collector.message(0))
    swapped = shown[ROUND_KEYS].copy()
    swapped[3] = SecureSummer(3, terms).advertise(SumCollector(terms, 3).message(3))["secure.round_keys"]
    replies = federation.replies(vectors, unreached=[0])
    replies[0] = federation.reply(0, {**shown, ROUND_KEYS: swapped}, vectors[0])
    federation.collector.receive(replies)
    with pytest.raises(DPForestError, match="altered"):
        federation.reply(0, federation.collector.message(0), vectors[0])


def test_clients_with_other_terms_cannot_read_each_other() -> None:
    federation = Federation(Terms(4, 1, 10))
    vectors = dict.fromkeys(range(4), np.zeros(3, np.int64))
    federation.exchange(vectors)
    replies = federation.replies(vectors, unreached=[0])
    other = SecureSummer.from_bytes(federation.states[0], Terms(4, 1, 11))
    federation.collector.receive({**replies, 0: other.share(federation.collector.message(0))})
    with pytest.raises(DPForestError, match="altered"):
        other.mask(federation.collector.message(0), vectors[0])


def test_seal_for_another_client_cannot_be_passed_on() -> None:
    federation, vectors = ready()
    message = dict(federation.collector.message(4))
    with pytest.raises(DPForestError, match="meant for another"):
        federation.reply(4, {**message, SEALED: message[SEALED][::-1]}, vectors[4])
    with pytest.raises(DPForestError, match="meant for another"):
        federation.reply(4, {**message, SEALED: federation.collector.message(5)[SEALED]}, vectors[4])


@pytest.mark.parametrize(
    ("roster", "why"), [([0, 1, 2, 3], "4 clients"), ([0, 1, 2, 4, 5], "not among"), ([1, 2, 3, 4, 8], "no keys")]
)
def test_roster_that_shrinks_the_sum_is_refused(roster: list[int], why: str) -> None:
    federation, vectors = ready()
    with pytest.raises(Refused, match=why):
        federation.reply(3, {**federation.collector.message(3), ROSTER: np.array(roster)}, vectors[3])


def test_roster_may_lose_clients_later_but_not_too_many_and_gains_none() -> None:
    federation, vectors = ready(rounds=3)
    federation.exchange(vectors)
    federation.exchange(vectors)

    def mask(round_: int, roster: list[int]) -> None:
        federation.reply(3, {ROUND: np.array([round_, 0]), ROSTER: np.array(roster)}, vectors[3], Phase.MASK)

    with pytest.raises(Refused, match="4 clients"):
        mask(2, [0, 1, 2, 3])
    mask(2, [0, 1, 2, 3, 4])
    with pytest.raises(Refused, match="out of the run"):
        mask(3, [0, 1, 2, 3, 4, 5])


def test_steps_out_of_order_are_refused() -> None:
    terms = Terms(4, 1, 10)
    with pytest.raises(Refused, match="no secrets were shared"):
        SecureSummer(0, terms).mask({ROUND: np.array([1, 0])}, np.zeros(3, np.int64))
    with pytest.raises(Refused, match="only once"):
        SecureSummer(0, terms).unmask(unmask_request(0, [0, 1, 2, 3]))
    with pytest.raises(BadMessage, match=MEMBERS):
        SecureSummer(0, terms).share({})


def test_ciphers_agree_with_another_implementation() -> None:
    """The ones in use are from ``cryptography``; pycryptodome has its own."""
    key = bytes(range(32))
    stream = keys.keystream(key)
    expected = AES.new(key, AES.MODE_CTR, nonce=b"", initial_value=0).encrypt(bytes(1000))
    assert stream(600) + stream(400) == expected
    assert keys.derive(key, b"salt", "purpose") == HKDF(key, 32, b"salt", SHA256, context=b"purpose")
    sealed = keys.seal(key, b"content", b"context")
    opened = AES.new(key, AES.MODE_GCM, nonce=sealed[:12]).update(b"context")
    assert opened.decrypt_and_verify(sealed[12:-16], sealed[-16:]) == b"content"
