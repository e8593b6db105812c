"""The right sum comes out, or none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from in_memory import Federation, ready

from dpforest.errors import DPForestError
from strategies.messages import BadMessage
from strategies.method import TooFewClients
from strategies.secure_aggregation import Phase, SecureSummer, SumCollector, Terms, Total
from strategies.secure_aggregation.server import PATIENCE
from strategies.secure_aggregation.wire import MASKED


@st.composite
def runs(draw: st.DrawFn) -> tuple[Terms, list[dict[int, str]]]:
    """Terms, and for each exchange who fails in it and how."""
    dropouts, colluders = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    clients = 2 * dropouts + colluders + 2 + draw(st.integers(0, 2))
    rounds = draw(st.integers(1, 3))
    terms = Terms(clients, rounds, draw(st.sampled_from([5, 2**40])), dropouts, colluders)
    faults = st.dictionaries(
        st.integers(0, clients - 1), st.sampled_from(["unreached", "lost"]), max_size=min(dropouts + 1, clients)
    )
    return terms, draw(st.lists(faults, min_size=2 + 2 * rounds, max_size=2 + 2 * rounds))


@settings(max_examples=40, deadline=None)
@given(runs(), st.integers(0, 2**32))
def test_sum_over_survivors_is_exact_whoever_drops_when(run: tuple[Terms, list[dict[int, str]]], seed: int) -> None:
    terms, faults = run
    rng = np.random.default_rng(seed)
    federation = Federation(terms, length=4)
    collector = federation.collector
    assert collector.exchanges == len(faults)
    missing: set[int] = set()
    for fault in faults:
        if collector.phase is Phase.DONE:
            break
        phase = collector.phase
        if phase is Phase.MASK:
            missing_in_round = set(missing)
            vectors = {
                client: rng.integers(-terms.largest_value, terms.largest_value, 4, endpoint=True)
                for client in range(terms.clients)
            }
        elif phase in (Phase.ADVERTISE, Phase.SHARE):
            vectors = dict.fromkeys(range(terms.clients), np.zeros(4, np.int64))
            missing_in_round = missing
        elif phase is Phase.PRESENT:
            missing_in_round = set(missing)
        missing_in_round |= set(fault)
        try:
            total = federation.exchange(
                vectors,
                unreached=[client for client, how in fault.items() if how == "unreached"],
                lost=[client for client, how in fault.items() if how == "lost"],
            )
        except TooFewClients:
            assert len(missing_in_round) > terms.dropouts
            if phase in (Phase.ADVERTISE, Phase.SHARE):
                return
            continue
        if phase is Phase.MASK:
            survivors = set(range(terms.clients)) - missing_in_round
        if phase is Phase.UNMASK:
            assert total is not None
            assert set(total.clients) == survivors
            np.testing.assert_array_equal(total.values, sum(vectors[client] for client in survivors))
        else:
            assert total is None


def test_client_that_misses_a_round_is_back_in_the_next() -> None:
    federation, vectors = ready()
    federation.exchange(vectors, unreached=[2])
    assert federation.exchange(vectors).clients == (0, 1, 3, 4, 5)
    federation.exchange(vectors)
    total = federation.exchange(vectors)
    assert total.clients == (0, 1, 2, 3, 4, 5)
    np.testing.assert_array_equal(total.values, [15, -150, 6000])
    assert federation.collector.phase is Phase.DONE
    assert federation.collector.participants(list(vectors)) == []


def test_round_with_too_few_clients_is_given_up_and_the_next_one_works() -> None:
    federation, vectors = ready()
    with pytest.raises(TooFewClients, match=r"4 clients answered.*needs 5"):
        federation.exchange(vectors, lost=[0, 1])
    assert federation.collector.phase is Phase.PRESENT
    assert federation.exchange(vectors) is None
    assert federation.collector.round == 2
    federation.exchange(vectors)
    assert federation.exchange(vectors).clients == (0, 1, 2, 3, 4, 5)
    assert federation.collector.exchanges == 2 + 4, "who is there was asked in place of unmasking"


def test_too_few_helpers_to_unmask_give_the_round_up() -> None:
    federation, vectors = ready()
    federation.exchange(vectors)
    with pytest.raises(TooFewClients, match="helped to unmask"):
        federation.exchange(vectors, lost=[0, 1, 2])
    federation.exchange(vectors, lost=[3])
    federation.exchange(vectors)
    assert federation.exchange(vectors) is not None
    assert federation.collector.exchanges == 2 + 4 + 1


def test_no_vector_is_asked_for_while_too_few_clients_are_there() -> None:
    federation, vectors = ready(rounds=3)
    federation.exchange(vectors)
    assert federation.exchange(vectors, unreached=[0]) is not None
    assert federation.collector.phase is Phase.MASK, "one may be missing"
    with pytest.raises(TooFewClients):
        federation.exchange(vectors, lost=[0, 5])
    with pytest.raises(TooFewClients, match=r"4 clients answered.*needs 5"):
        federation.exchange(vectors, unreached=[0, 5])
    assert federation.collector.phase is Phase.PRESENT
    federation.exchange(vectors, unreached=[0])
    assert federation.collector.round == 3, "waiting used up no round"
    federation.exchange(vectors, unreached=[0])
    assert federation.exchange(vectors).clients == (1, 2, 3, 4, 5)
    assert federation.collector.phase is Phase.DONE
    assert federation.collector.ended is None


def test_clients_that_are_not_available_are_waited_for_before_any_vector_is_sent() -> None:
    federation, vectors = ready()
    assert federation.collector.is_enough([0, 1, 2, 3, 4])
    assert not federation.collector.is_enough([0, 1, 2, 3])
    assert federation.collector.participants([0, 1, 2, 3]) == [0, 1, 2, 3]
    assert federation.collector.phase is Phase.PRESENT
    federation.exchange(vectors)
    assert federation.collector.phase is Phase.MASK
    assert federation.collector.participants([0, 1, 2, 3, 4]) == [0, 1, 2, 3, 4]
    assert federation.collector.phase is Phase.MASK, "one may be missing"


@pytest.mark.parametrize("gone", [[0, 1], [0, 1, 2, 3, 4, 5]])
def test_run_ends_when_clients_do_not_come_back(gone: list[int]) -> None:
    federation, vectors = ready(rounds=9)
    for _ in range(PATIENCE):
        assert federation.collector.phase is not Phase.DONE
        with pytest.raises(TooFewClients):
            federation.exchange(vectors, unreached=gone)
    assert federation.collector.phase is Phase.DONE
    assert (
        f"3 exchanges in a row came to no sum, the last because {6 - len(gone)} clients" in federation.collector.ended
    )
    sums = [SecureSummer.from_bytes(state, federation.terms).attempt.round for state in federation.states.values()]
    assert max(sums) <= 1, "whoever is still there was asked for one vector in vain"


def test_run_ends_when_every_sum_is_wrong() -> None:
    federation, vectors = ready(rounds=9)

    def refuse(total: Total) -> None:
        raise DPForestError("beyond belief")

    for _ in range(PATIENCE):
        federation.exchange(vectors)
        with pytest.raises(DPForestError, match="beyond belief"):
            federation.collector.receive(federation.replies(vectors), refuse)
    assert "beyond belief" in federation.collector.ended
    assert federation.collector.phase is Phase.DONE


@pytest.mark.parametrize("unreached", [[0, 1], [0, 1, 2, 3, 4, 5]])
def test_too_few_clients_to_agree_on_keys(unreached: list[int]) -> None:
    federation = Federation(Terms(6, 1, 10, dropouts=1, colluders=1))
    with pytest.raises(TooFewClients):
        federation.exchange(dict.fromkeys(range(6), np.zeros(3, np.int64)), unreached=unreached)


@pytest.mark.parametrize(
    ("clients", "dropouts", "colluders", "least"), [(1, 0, 0, 2), (0, 0, 0, 2), (3, 1, 0, 4), (6, 1, 3, 7)]
)
def test_too_few_clients_for_the_terms_are_refused(clients: int, dropouts: int, colluders: int, least: int) -> None:
    with pytest.raises(DPForestError, match=f"at least {least} are needed"):
        Terms(clients, 1, 10, dropouts, colluders)


@pytest.mark.parametrize("bad", [{"dropouts": -1}, {"colluders": -1}, {"rounds": 0}, {"largest_value": 0}])
def test_senseless_terms_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(DPForestError, match="or more"):
        Terms(**{"clients": 9, "rounds": 1, "largest_value": 1, **bad})


def test_field_is_as_small_as_the_largest_sum_allows() -> None:
    assert Terms(4, 1, 2**29 - 1).field.bits == 32
    assert Terms(4, 1, 2**29).field.bits == 64
    with pytest.raises(DPForestError, match="do not fit 64 bits"):
        Terms(4, 1, 2**61)


@pytest.mark.parametrize("largest", [2**29 - 1, 2**61 - 1])
def test_largest_sums_do_not_wrap_around(largest: int) -> None:
    federation = Federation(Terms(4, 1, largest), length=2)
    vectors = dict.fromkeys(range(4), np.array([largest, -largest]))
    federation.set_up(vectors)
    federation.exchange(vectors)
    np.testing.assert_array_equal(federation.exchange(vectors).values, [4 * largest, -4 * largest])


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (np.array([0, 1001, 0]), "exceed the agreed"),
        (np.array([0, -1001, 0]), "exceed the agreed"),
        (np.array([-(2**63), 0, 0]), "exceed the agreed"),
        (np.array([2**64 - 1, 0, 0], np.uint64), "exceed the agreed"),
        (np.array([np.nan, 0.0, 0.0]), "scale and round"),
        (np.zeros((3, 1), np.int64), "scale and round"),
    ],
)
def test_client_masks_only_integers_within_the_bound(vector: np.ndarray, message: str) -> None:
    federation, vectors = ready()
    with pytest.raises(DPForestError, match=message):
        federation.exchange({**vectors, 3: vector})


def test_sum_beyond_the_bound_of_all_clients_is_reported() -> None:
    federation, vectors = ready()
    replies = federation.replies(vectors)
    reply = replies[3][MASKED].copy()
    reply[0] += np.uint32(10**6)  # as if a client had sent a million
    federation.collector.receive({**replies, 3: {**replies[3], MASKED: reply}})
    with pytest.raises(DPForestError, match="exceeds"):
        federation.exchange(vectors)


def test_empty_and_long_vectors() -> None:
    federation = Federation(Terms(3, 2, 10), length=0)
    empty = dict.fromkeys(range(3), np.zeros(0, np.int64))
    federation.set_up(empty)
    federation.exchange(empty)
    assert federation.exchange(empty).values.shape == (0,)
    federation.collector.length = 200_001  # longer than what is masked at a time
    vectors = dict.fromkeys(range(3), np.arange(200_001) % 11)
    federation.exchange(vectors)
    np.testing.assert_array_equal(federation.exchange(vectors).values, 3 * vectors[0])


def test_replies_of_the_wrong_form_do_not_count() -> None:
    federation, vectors = ready()
    replies = federation.replies(vectors)
    for bad in (
        {},
        {MASKED: replies[0][MASKED][:2]},
        {MASKED: replies[0][MASKED].astype(np.uint64)},
        {MASKED: replies[0][MASKED].astype(float)},
    ):
        with pytest.raises(BadMessage, match=r"secure\.masked"):
            federation.collector.check(0, bad)
    with pytest.raises(BadMessage, match="no part"):
        federation.collector.check(17, replies[0])


def test_more_clients_than_agreed_are_refused() -> None:
    terms = Terms(2, 1, 10)
    collector = SumCollector(terms, 1)
    with pytest.raises(DPForestError, match="3 clients take part"):
        collector.receive({c: SecureSummer(c, terms).advertise(collector.message(c)) for c in range(3)})
