"""A server that deviates, and clients that know each other's keys: what it tries ends before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from flwr.app import Context, Message
from hand_made import CLIENTS, SCHEMA, make, write_table
from in_memory import Federation
from one_node import ask, error, node

from dpforest.errors import DPForestError
from fl_app.client_app import app as client_app
from fl_app.engine.experiment import Experiment
from fl_app.engine.in_process import InProcessGrid
from fl_app.engine.run import Run, run_experiment
from strategies.messages import BadMessage
from strategies.method import Arrays, TooFewClients
from strategies.secure_aggregation import Phase, Refused, SecureSummer, Terms, wire
from strategies.secure_aggregation.fellows import (
    PUBLIC_BYTES,
    Identity,
    public_bytes,
    read_public_keys,
    read_signing_key,
)

# Any kind that Flower or ssh-keygen makes.
KEYS = [ec.generate_private_key(ec.SECP384R1()) for _ in range(6)] + [Ed25519PrivateKey.generate() for _ in range(3)]
PUBLIC = [public_bytes(key.public_key()) for key in KEYS]
ABOUT = bytes(32)
EVERYBODY = frozenset(PUBLIC)


def identities(clients: int, listed: frozenset[bytes] | None = EVERYBODY, **own: object) -> dict[int, Identity]:
    return {client: Identity(KEYS[client], ABOUT, listed, **own) for client in range(clients)}  # type: ignore[arg-type]


def federation(
    clients: int = 6, dropouts: int = 1, colluders: int = 1, known: Mapping[int, Identity] | None = None
) -> tuple[Federation, dict[int, np.ndarray]]:
    vectors = {client: np.array([client, -10 * client, 1000]) for client in range(clients)}
    known = identities(clients) if known is None else known
    return Federation(Terms(clients, 2, 1000, dropouts, colluders), identities=known), vectors


def refused(one: Federation, client: int, message: Arrays, vectors: Mapping[int, np.ndarray]) -> str:
    before = one.states[client]
    with pytest.raises(DPForestError) as caught:
        one.reply(client, message, vectors[client])
    assert one.states[client] == before
    return str(caught.value)


@pytest.mark.parametrize(("dropouts", "exchanges"), [(0, 2 + 4), (1, 2 + 6)])
@pytest.mark.parametrize("listed", [EVERYBODY, None])
def test_the_sum_is_that_of_the_survivors(dropouts: int, exchanges: int, listed: frozenset[bytes] | None) -> None:
    one, vectors = federation(dropouts=dropouts, known=identities(6, listed))
    one.set_up(vectors)
    assert one.collector.exchanges == exchanges
    totals = []
    for missing in ([3], []) if dropouts else ([], []):
        one.exchange(vectors, unreached=missing)
        if dropouts:
            assert one.collector.phase is Phase.CONFIRM
            one.exchange(vectors)
        totals.append(one.exchange(vectors))
        survivors = [client for client in vectors if client not in missing]
        np.testing.assert_array_equal(totals[-1].values, sum(vectors[client] for client in survivors))
        assert totals[-1].clients == tuple(survivors)
    assert one.collector.phase is Phase.DONE


def test_a_sum_is_masked_again_and_signed_again_where_a_liar_has_to_go() -> None:
    one, vectors = federation()

    def wrong_seals(phase: Phase, reply: Arrays) -> Arrays:
        if phase is not Phase.SHARE:
            return reply
        return {**reply, wire.SEALED: np.zeros_like(reply[wire.SEALED])}

    one.set_up(vectors, lies={5: wrong_seals})
    one.exchange(vectors)
    assert one.collector.phase is Phase.MASK_AGAIN
    one.exchange(vectors)
    one.exchange(vectors)
    assert one.exchange(vectors).clients == (0, 1, 2, 3, 4)


@pytest.mark.parametrize("client", [0, 4])
def test_swapped_keys_are_refused_before_anything_is_sealed(client: int) -> None:
    """Keys of its own under a fellow's name: no signature fits them, neither none, nor an old one, nor another's."""
    one, vectors = federation()
    one.exchange(vectors)
    evil, _ = federation(known={})
    evil.exchange(vectors)
    message, other = dict(one.collector.message(client)), evil.collector.message(client)
    for name in (wire.PUBLIC_KEYS, wire.ROUND_KEYS):
        message[name] = message[name].copy()
        message[name][[2, 3]] = other[name][[2, 3]]
    for signatures in (message[wire.SIGNATURES], np.zeros_like(message[wire.SIGNATURES])):
        said = refused(one, client, {**message, wire.SIGNATURES: signatures}, vectors)
        assert f"does not know {2 if signatures.any() else 5} of the other 5 clients by their keys" in said
    moved = message[wire.SIGNATURES][::-1]
    assert "does not know" in refused(one, client, {**message, wire.SIGNATURES: moved}, vectors)


@pytest.mark.parametrize("unknown", [1, 2, 5])
def test_clients_that_the_server_plays_are_as_many_as_may_collude(unknown: int) -> None:
    """Sybils sign whatever is needed, by keys of theirs, or do not sign at all."""
    listed = frozenset(PUBLIC[: 6 - unknown])
    for signing in (True, False):
        known = {client: each for client, each in identities(6, listed).items() if signing or client < 6 - unknown}
        one, vectors = federation(dropouts=0, known=known)
        one.exchange(vectors)
        message = one.collector.message(0)
        if unknown == 1:
            one.reply(0, message, vectors[0])
        else:
            assert f"does not know {unknown} of the other 5" in refused(one, 0, message, vectors)


def test_an_owner_may_want_more_fellows_than_a_run_does() -> None:
    one, vectors = federation(dropouts=0, colluders=3, known=identities(6, frozenset(PUBLIC[:4]), least=4))
    one.exchange(vectors)
    assert "knows 3 of the other 5 clients by their keys, and its owner wants min-fellows 4" in refused(
        one, 0, one.collector.message(0), vectors
    )


def test_one_fellow_is_not_two() -> None:
    known = identities(6)
    known[5] = known[4]
    one, vectors = federation(known=known)
    with pytest.raises(TooFewClients, match="clients 4 and 5"):
        one.exchange(vectors)
    one, vectors = federation()
    one.exchange(vectors)
    message = dict(one.collector.message(0))
    message[wire.IDENTITIES] = message[wire.IDENTITIES].copy()
    message[wire.IDENTITIES][5] = message[wire.IDENTITIES][4]
    assert "two clients sign with the same key" in refused(one, 0, message, vectors)


@pytest.mark.parametrize("colluding", [1, 4])
def test_one_colluding_fellow_is_not_many(colluding: int) -> None:
    """It signs for every number, and what follows its key in a row makes that row none of another key."""
    known = {client: Identity(KEYS[min(client, 1)], ABOUT, frozenset(PUBLIC[:2])) for client in range(6)}
    one, vectors = federation(dropouts=0, colluders=colluding, known=known)
    adverts = {client: dict(one.reply(client, one.collector.message(client), vectors[client])) for client in known}
    for client, advert in adverts.items():
        advert[wire.IDENTITY] = advert[wire.IDENTITY].copy()
        advert[wire.IDENTITY][-1] = client
        one.collector.check(client, advert)
    adverts[0][wire.IDENTITY] = known[0].public
    each = {name: np.stack([advert[name] for advert in adverts.values()]) for name in adverts[0] if name != wire.ABOUT}
    shown = {wire.PUBLIC_KEYS: each[wire.PUBLIC_KEY], wire.IDENTITIES: each[wire.IDENTITY]}
    shown |= {wire.ROUND_KEYS: each[wire.ROUND_KEYS], wire.SIGNATURES: each[wire.SIGNATURE]}
    message = {wire.MEMBERS: np.arange(6), **shown}
    with pytest.raises(Refused, match="two clients sign with the same key"):
        one.reply(0, message, vectors[0], Phase.SHARE)
    with pytest.raises(TooFewClients, match="clients 1 and 2 and 3 and 4 and 5"):
        one.collector.receive(adverts)


def test_identities_that_are_left_out_do_not_go_unseen() -> None:
    one, vectors = federation()
    one.exchange(vectors)
    message = {
        name: array
        for name, array in one.collector.message(0).items()
        if name not in (wire.IDENTITIES, wire.SIGNATURES)
    }
    assert "identity given out for client 0 is not its own" in refused(one, 0, message, vectors)


def up_to_masks() -> tuple[Federation, dict[int, np.ndarray]]:
    one, vectors = federation()
    one.set_up(vectors)
    return one, vectors


@pytest.mark.parametrize("of", ["another run", "another round", "another client", "nobody"])
def test_replayed_agreements_end_before_a_vector_is_made(of: str) -> None:
    one, vectors = up_to_masks()
    message = dict(one.collector.message(0))
    signatures = message[wire.SIGNATURES].copy()
    if of == "another run":
        earlier, _ = up_to_masks()
        signatures = earlier.collector.message(0)[wire.SIGNATURES]
    elif of == "another round":  # of the same run, about something else
        signatures[1:] = [advert.signature for advert in list(one.collector.adverts.values())[1:]]
    elif of == "another client":
        signatures = np.roll(signatures, 1, axis=0)
    else:
        signatures[1:] = 0
    assert "does not know 5 of the other 5" in refused(one, 0, {**message, wire.SIGNATURES: signatures}, vectors)
    del message[wire.SIGNATURES]
    assert wire.SIGNATURES in refused(one, 0, message, vectors)


def test_another_plan_is_another_agreement() -> None:
    """A fellow that was asked for less noise is none."""
    known = identities(6)
    known[5] = replace(known[5], about=bytes([1] * 32))
    one, vectors = federation(known=known)
    one.exchange(vectors)
    assert one.collector.liars == {5: "signs for another run, or another plan, than the others"}
    both = {client: replace(each, about=bytes([client + 7] * 32)) for client, each in known.items()}
    one, vectors = federation(known=known)
    one.exchange(vectors)
    one.identities = both  # the server has sent each another plan, and passes all on
    assert "does not know" in refused(one, 0, one.collector.message(0), vectors)


def confirmed(
    one: Federation, vectors: Mapping[int, np.ndarray], named: Mapping[int, list[int]]
) -> dict[int, np.ndarray]:
    """Signatures of clients on the survivors that a lying server names to each."""
    attempt = one.collector.message(0)[wire.ROUND]
    return {
        client: one.reply(client, {wire.ROUND: attempt, wire.SURVIVORS: np.array(survivors)}, vectors[client])[
            wire.SIGNATURE
        ]
        for client, survivors in named.items()
    }


def request(one: Federation, survivors: list[int], signed: Mapping[int, np.ndarray]) -> Arrays:
    return {
        wire.ROUND: one.collector.attempt.to_array(),
        wire.SURVIVORS: np.array(survivors),
        wire.SIGNERS: np.array(sorted(signed), np.int64),
        wire.SIGNATURES: np.stack([signed[client] for client in sorted(signed)]),
    }


@pytest.mark.parametrize("listed", [EVERYBODY, None])
@pytest.mark.parametrize("split", range(1, 6))
def test_different_survivors_for_different_clients_never_both_come_out(
    split: int, listed: frozenset[bytes] | None
) -> None:
    """Whoever signs whatever is one of the colluders; the others are given one list or the other."""
    known = identities(6, listed)
    one, vectors = federation(known=known)
    one.set_up(vectors)
    one.exchange(vectors)
    lists = [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4]
    colluder = 4  # on both lists, and signs both
    honest = [client for client in range(6) if client != colluder]
    of = {client: lists[client < split and client < 5] for client in honest}
    signed = confirmed(one, vectors, of)
    gave = set()
    for number, survivors in enumerate(lists):
        attempt, roster = one.collector.attempt, np.arange(6)
        parts = wire.survivors_parts(one.collector.setup, attempt, roster, np.array(survivors))
        with_it = {client: each for client, each in signed.items() if of[client] is survivors}
        with_it[colluder] = known[colluder].sign("survivors", colluder, *parts)
        for client in honest:
            try:
                phase = Phase.UNMASK
                one.reply(client, request(one, survivors, with_it), vectors[client], phase)
                gave.add(number)
            except Refused:
                continue
    assert len(gave) <= 1


def test_survivors_that_too_few_have_signed_are_not_unmasked() -> None:
    one, vectors = up_to_masks()
    one.exchange(vectors)
    everybody = list(range(6))
    signed = confirmed(one, vectors, dict.fromkeys(everybody, everybody))
    assert one.terms.quorum == 4
    few = {client: signed[client] for client in (0, 1, 2)}
    twice = {**few, 3: signed[2], 9: signed[4]}
    for wrong in (few, twice, {client: np.zeros_like(each) for client, each in signed.items()}):
        with pytest.raises(Refused, match=r"[03] clients have signed"):
            one.reply(0, request(one, everybody, wrong), vectors[0], Phase.UNMASK)
    with pytest.raises(Refused, match="not those that this client has signed"):
        one.reply(0, request(one, everybody[:5], signed), vectors[0], Phase.UNMASK)
    with pytest.raises(BadMessage, match="signers"):
        one.reply(0, {k: v for k, v in request(one, everybody, signed).items() if k != wire.SIGNERS}, vectors[0],
                  Phase.UNMASK)  # fmt: skip
    with pytest.raises(Refused, match="signed already"):
        confirmed(one, vectors, {0: everybody[:5]})
    assert wire.PARTS in one.reply(0, request(one, everybody, signed), vectors[0], Phase.UNMASK)


@pytest.mark.parametrize("name", [wire.SIGNERS, wire.SURVIVORS])
def test_numbers_whose_differences_wrap_around_name_nobody_twice(name: str) -> None:
    """Each is above the one before it by the difference alone, and the first comes again."""
    one, vectors = up_to_masks()
    one.exchange(vectors)
    around = np.array([0, 2**62, -(2**63), -(2**62)] * 4 + [0])
    assert (np.diff(around) > 0).all()
    signed = confirmed(one, vectors, {0: list(range(6))})
    message = {**request(one, list(range(6)), signed), wire.SIGNERS: around}
    message |= {name: around, wire.SIGNATURES: np.stack([signed[0]] * len(around))}
    with pytest.raises(BadMessage, match=f"{name}' must be ascending, each client once"):
        one.reply(0, message, vectors[0], Phase.UNMASK)


@pytest.mark.parametrize("dropouts", [0, 1])
def test_vectors_of_different_releases_come_to_no_sum(dropouts: int) -> None:
    """Who is asked for another release of the plan adds another noise, which may be less."""
    for what in ("trees", "histograms"):
        one, vectors = federation(dropouts=dropouts)
        one.collector.what = what
        one.set_up(vectors)
        asked = {client: "histograms" if client else "trees" for client in vectors}
        one.collector.receive(
            {client: one.reply(client, one.collector.message(client), vectors[client], what=asked[client])
             for client in vectors}
        )  # fmt: skip
        if dropouts:
            one.exchange(vectors)
        with pytest.raises(DPForestError, match="exceeds"):
            one.exchange(vectors)


@pytest.mark.parametrize(
    ("strategy", "unit"),
    [
        ({"name": "boost"}, "record"),
        ({"name": "boost", "linear_share": 0.0}, "record"),
        ({"name": "boost", "scale": "moments"}, "client"),
        ({"name": "boost", "scale": "own"}, "client"),
        ({"name": "dp_sgd", "standardize": "private"}, "record"),
        ({"name": "dp_fedavg"}, "client"),
    ],
)
def test_lines_of_a_plan_with_one_name_have_one_noise(strategy: dict[str, Any], unit: str) -> None:
    privacy = {"delta": 1e-6, "unit": unit, "trust": "shared"}
    plan = make({"name": "table", "schema": SCHEMA}, epsilon=8.0, strategy=strategy, rounds=3, privacy=privacy)
    lines = {entry.single for entry in plan.method.server(plan.server_task(CLIENTS)).planned()}
    assert len({entry.what for entry in lines}) == len(lines)


def test_signatures_of_an_earlier_round_are_of_no_use_in_the_next() -> None:
    one, vectors = up_to_masks()
    everybody = list(range(6))
    one.exchange(vectors)
    old = {client: reply[wire.SIGNATURE] for client, reply in one.replies(vectors).items()}
    one.collector.receive({client: {wire.SIGNATURE: each} for client, each in old.items()})
    one.exchange(vectors)
    one.exchange(vectors)
    confirmed(one, vectors, dict.fromkeys(everybody, everybody))
    with pytest.raises(Refused, match="0 clients have signed"):
        one.reply(0, request(one, everybody, old), vectors[0], Phase.UNMASK)


def flipped(phase: Phase) -> Callable[[Phase, Arrays], Arrays]:
    def lie(now: Phase, reply: Arrays) -> Arrays:
        return {**reply, wire.SIGNATURE: reply[wire.SIGNATURE] ^ np.uint8(255)} if now is phase else reply

    return lie


@pytest.mark.parametrize("phase", [Phase.ADVERTISE, Phase.SHARE, Phase.CONFIRM])
def test_a_client_whose_signature_is_none_costs_itself_only(phase: Phase) -> None:
    one, vectors = federation()
    lies = {2: flipped(phase)}
    one.set_up(vectors, lies=lies)
    one.exchange(vectors, lies=lies)
    one.exchange(vectors, lies=lies)
    assert one.exchange(vectors, lies=lies) is not None
    assert list(one.refused) == [2]
    assert "sign" in one.refused[2]


@pytest.mark.parametrize("signing", [1, 3])
def test_clients_without_lists_go_on_as_ever_where_few_can_sign(signing: int) -> None:
    known = {client: each for client, each in identities(6, None).items() if client < signing}
    one, vectors = federation(known=known)
    one.set_up(vectors)
    assert one.collector.exchanges == 2 + 4
    one.exchange(vectors)
    assert one.exchange(vectors) is not None


def test_too_few_confirmations_cost_one_sum() -> None:
    one, vectors = up_to_masks()
    one.exchange(vectors)
    with pytest.raises(TooFewClients, match="3 clients signed who is in the sum, and 4 have to"):
        one.exchange(vectors, lost=[0, 1, 2])
    one.exchange(vectors) if one.collector.phase is Phase.PRESENT else None
    one.exchange(vectors)
    one.exchange(vectors)
    assert one.exchange(vectors) is not None


def test_on_a_circle_nobody_can_be_cut_off() -> None:
    """All survivors are signed, and terms under which a server could choose whom to isolate are refused."""
    keys = [Ed25519PrivateKey.generate() for _ in range(100)]  # quick to check, for 100 x 100 signatures
    listed = frozenset(public_bytes(key.public_key()) for key in keys)
    known = {client: Identity(key, ABOUT, listed if client < 3 else None) for client, key in enumerate(keys)}
    vectors = dict.fromkeys(range(100), np.array([1, 2, 3]))
    terms = Terms(100, 1, 10, 1, 0)
    assert terms.circle is not None
    one = Federation(terms, identities=known)
    one.set_up(vectors)
    one.exchange(vectors, unreached=[7])
    one.exchange(vectors)
    np.testing.assert_array_equal(one.exchange(vectors).values, [99, 198, 297])
    wide = SecureSummer(0, Terms(1000, 1, 10, 200, 0), known[0])
    wide.identities = np.ones((1000, PUBLIC_BYTES), np.uint8)
    with pytest.raises(Refused, match="could cut the circle of clients, in which each has 80 neighbours"):
        wide.check_terms()


@pytest.mark.parametrize("key", [KEYS[0], KEYS[6], ec.generate_private_key(ec.SECP521R1())])
def test_keys_are_read_as_ssh_keygen_writes_them(key: ec.EllipticCurvePrivateKey | Ed25519PrivateKey) -> None:
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    again = read_signing_key(private)
    assert read_public_keys(f"# ours\n{public} somebody@somewhere\n\n") == {public_bytes(again.public_key())}
    identity = Identity(again, ABOUT, read_public_keys(public))
    assert identity.accepts(identity.public)


@pytest.mark.parametrize("text", ["", "# nothing\n", "ssh-rsa AAAA", "ecdsa-sha2-nistp384 AAAA", "x" * 1000])
def test_what_is_no_list_of_keys_is_said(text: str) -> None:
    with pytest.raises(DPForestError, match=r"has no public key"):
        read_public_keys(text)


# --- whole nodes


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, and four nodes' keys with a list of them."""
    folder = tmp_path_factory.mktemp("nodes")
    write_table(folder)
    public = []
    for client in range(CLIENTS):
        private = KEYS[client].private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        (folder / f"{client}.key").write_bytes(private)
        public.append(KEYS[client].public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode())
    (folder / "fellows.pub").write_text("\n".join(public))
    stranger = KEYS[CLIENTS].public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    (folder / "one.pub").write_text(stranger)
    return folder


def experiment(home: Path, **strategy: Any) -> Experiment:
    boost = {"name": "boost", "depth": 2, **strategy}
    schema = {"name": "table", "schema": SCHEMA}
    return make(schema, epsilon=8.0, strategy=boost, rounds=2, privacy={"delta": 1e-6, "trust": "shared"})


def rules(home: Path, client: int, **more: Any) -> dict[str, Any]:
    """What a node's owner says who knows all fellows; None leaves a key out."""
    signing = {"signing-key": str(home / f"{client}.key"), "fellows": str(home / "fellows.pub")}
    limits = {"partition-id": client, "max-epsilon": 8.0, "max-delta": 1e-6, "strategies": "boost"}
    settings = {"data-path": str(home / "table.csv"), "state-folder": str(home / f"state {client}")}
    return {key: value for key, value in (limits | settings | signing | more).items() if value is not None}


def run_on_nodes(home: Path, more: Mapping[int, Mapping[str, Any]], **strategy: Any) -> Run:
    def answer(message: Message, context: Context) -> Message:
        client = int(context.node_config["partition-id"])
        own_rules = rules(home, client, **more.get(client, {}))
        return client_app(message, Context(1, context.node_id, own_rules, context.state, {}))

    return run_experiment(experiment(home, **strategy), InProcessGrid(answer, CLIENTS))


@pytest.mark.parametrize("dropouts", [0, 1])
def test_where_all_nodes_know_their_fellows_the_server_is_not_trusted(home: Path, dropouts: int) -> None:
    done = run_on_nodes(home, {}, dropouts=dropouts)
    assert done.privacy["holds"]
    assert not done.failures
    assert "the server is not trusted, also where it deviates" in done.privacy["trust"]
    assert done.privacy["trust_kind"] == "shared"
    assert {ledger["trust"] for ledger in done.privacy["clients"].values()} == {done.privacy["trust"]}


@pytest.mark.parametrize("more", [{"fellows": None}, {"fellows": None, "signing-key": None}])
def test_where_one_does_not_the_server_follows_the_protocol(home: Path, more: dict[str, Any]) -> None:
    colluders = int("signing-key" in more)
    done = run_on_nodes(home, {2: more}, colluders=colluders)
    assert done.privacy["holds"]
    assert "the server follows the protocol" in done.privacy["trust"]


def test_a_node_that_knows_too_few_says_so_and_spends_nothing(home: Path) -> None:
    with pytest.raises(TooFewClients, match=r"does not know 3 of the other 3 clients by their keys") as caught:
        run_on_nodes(home, {0: {"fellows": str(home / "one.pub")}})
    assert "strategy.colluders" in str(caught.value)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"signing-key": None}, "this node's fellows needs signing-key in the node configuration"),
        ({"fellows": None, "min-fellows": 2}, "this node's min-fellows needs fellows in the node configuration"),
        ({"signing-key": "/nowhere"}, "this node's signing-key cannot be read"),
        ({"fellows": "/nowhere"}, "this node's fellows cannot be read"),
        ({"fellows": 7}, "this node's fellows cannot be read"),
        ({"min-fellows": "2"}, "this node's min-fellows '2' must be a whole number from 1"),
        ({"min-fellows": 0}, "this node's min-fellows 0 must be a whole number from 1"),
        ({"min-fellows": 4}, "this node's min-fellows 4 is above the number of keys in its fellows"),
    ],
)
def test_what_is_wrong_in_the_owners_list_allows_nothing(home: Path, more: dict[str, Any], words: str) -> None:
    context = node(**rules(home, 0, **more))
    said = error(ask(context, experiment(home), phase="advertise", step="histograms"))
    assert words in said
    assert "so nothing is allowed" in said
    assert "nowhere" not in said
    assert not context.state
