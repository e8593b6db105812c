"""Secure aggregation: the server learns the sum of the clients' integer vectors and no single vector.

The protocol is that of Bonawitz et al. 2017 (Practical Secure Aggregation for Privacy-Preserving Machine Learning,
CCS, figures 2 and 4), with its key exchange batched for all rounds of a run. If nobody lies, a run of R rounds takes
2 + 2 R exchanges:

1. *advertise*: each client sends a public key for sealing shares and, for each round, a public key for masks, and
   shows by a key of the server's that it has the private ones.
2. *share*: for each round a client has two fresh secrets, the seed of its *self mask* and the seed of its *round
   key*. It splits both by Shamir's scheme among its holders and seals each holder's part for that holder alone. The
   server gets a hash of every part.
3. Each round, *mask*: a client sends its vector + self mask +- one mask for each other client, mod 2^k. The mask
   of a pair comes from the agreement of their two round keys; one adds and the other subtracts it. Call the
   clients that answered the survivors.
4. Each round, *unmask*: the server names the survivors, and each of them returns for every client whose parts it
   holds *one* part of that round: of the self mask if that client survived, of the round key if it did not. The
   server removes the self masks of the survivors and the pair masks that the missing clients left behind.

Terms (`Terms`): n clients are agreed on, at most d may be missing at any time, at most c may hand all they know to
the server. Each secret has k = 2 d + c + 1 holders, the next on a ring of the clients, and t = d + c + 1 parts restore
it. So n >= 2 d + c + 2 is needed, and at least n - d survivors in each round; below that the round is given up
(`TooFewClients`), and clients refuse to unmask. Count a round that was given up after its masked vectors were sent as
released: with colluders the server may hold parts enough to restore its sum. The next exchange then only asks who is
*present*: until enough clients are back, nobody sends a vector, and pays for it, in vain.

From 100 clients on, masks and parts are shared with neighbours on a circle only: `strategies.secure_aggregation.circle`
has what changes, with its proof. Below, "the other survivors" are then those on its part of the circle.

What stays secret
-----------------
*A server that follows the protocol but looks at everything, with c clients.* Of each honest client and round it gets
to know one of the two secrets at most, since c < t. A survivor's vector is covered by its masks with the other
honest survivors, whose round keys nobody restores; these cancel in nothing but the sum over all of them. A missing
client's vector, should it still arrive, is covered by its self mask. So the server learns the sum over the
survivors, and with the c vectors it knows, the sum over the n - d - c or more honest survivors (theorem 6.3 of the
paper). The secrets of different rounds are independent: what is restored in one round, because a client was
missing, says nothing about its vectors in the rounds after it has come back. Clients erase what they no longer need.

*A server that lies about the survivors or repeats messages.* A client masks once and answers one unmask request in a
round, and only for the round that it masked last. Both secrets of a client take 2 t parts, but its k holders give
at most k + c (colluders give both): 2 t = 2 d + 2 c + 2 > 2 d + 2 c + 1 = k + c. So no single vector is ever
uncovered. By naming different survivors to different clients such a server can shrink the sum: a round key takes
d + 1 honest holders that heard its owner is missing, and each accepts at most d missing; hence of H honest
clients at least H / (d + 1), and more than one, stay in the sum. Noise that was sized for n - d - c honest clients
(`dpforest.mechanisms.gaussian`) does not cover that; it assumes the same survivors for all. The paper closes the gap
by one more exchange with signatures, which clients with keys of their own do: `strategies.secure_aggregation.fellows`
has it, with its proof.

*Not covered without such keys*: a server that swaps public keys in the first exchange. A disagreement about keys or
terms between clients shows, as all keys are bound to a digest of both.

Clients that lie
----------------
Up to d clients that lie or are missing cost themselves only, and no honest client is named:

- *Keys* are tried when they arrive: none has small order, none is given twice, and each is its sender's own
  (`keys.possession`; the key of another client names whoever repeats it). Two clients that both have one private key
  have both given it away.
- *Parts in seals*: a holder answers the first mask request with the hash of what it found in each seal. If it is not
  what the dealer promised, one of the two lies. An honest dealer's holders fail it only by lying or being missing,
  so if its own innocence took more than d such clients, the dealer lied; and so did a holder that accuses more than d
  dealers. Who is found so is left out, and the others mask the same vectors again (*mask again*), by a second pair
  of secrets of that round. One wrong seal that nobody can pin on either does no harm: an
  honest dealer keeps k - d = t sound parts, and a dealer that spoils one of its own leaves k - 1 - (d - 1) = t.
- *Parts returned* are held against their hashes when they arrive; a wrong one names its sender and does not count.
  What is left is enough, for k - d = t. No other subset of holders needs to be tried, nor asked.

A lie of the following kinds costs one sum, which is given up:

- A client shared the parts of another secret than the one it promised: sound parts restore it, so that it is named.
- A dealer spoiled 2 to d seals, so that either side may lie, and others are then missing while parts are returned. If
  no more than d failed, the dealer is named.
- A client sent any vector it liked. *It cannot be named*: each vector is uniform to the server, and hiding that is what
  the protocol is for. The sum shows it if it exceeds what honest clients can add, or is beyond belief to the caller;
  one within these bounds does not show at all.

Shares that prove themselves (Feldman 1987) would find the first two before a vector is sent, but not the third, by
which the same client can do the same harm; with the libraries at hand their check takes a client some 8 s for 100
rounds, four parts and six holders.

*Finding a liar uncovers no honest vector.* (1) No client is ever asked for parts a second time, nor for the other kind:
hashes, not more parts, tell a wrong part. (2) Parts have 128 random bits each, and t - 1 of them say nothing of the
others, so their hashes say nothing either; what a holder found in a seal, the server knows from these hashes, or that
it was wrong. (3) To show possession of a key derives a key for that purpose alone, which no mask or seal is. (4) A sum
that is masked again uses secrets of its own, and no server can unmask one vector by both attempts: a client masks again
only while it has not returned parts of the first attempt, and then never does. So of each vector's holders, every one
that does not collude returns parts of one attempt; with e <= c that do, both attempts take 2 (t - e) parts of the k - e
others, and 2 (t - e) - (k - e) = c + 1 - e > 0. Masks are bound to the attempt and to its clients, so that vectors of
one cancel no mask of another. Clients leave the run, none enters it, and below n - d of them nobody masks. (5) Who lies
may also hand over what it knows: count it among the c.

Ciphers are those of ``cryptography`` and ``pycryptodome``: X25519, HKDF-SHA256, AES-256-GCM for parts, AES-256 in
counter mode for masks, Shamir's scheme over GF(2^128). Keys come from the operating system, never from the seed of a
run; the sums do not depend on them.
"""

from strategies.secure_aggregation.client import Refused, SecureSummer
from strategies.secure_aggregation.field import Field
from strategies.secure_aggregation.server import Phase, SumCollector, Total
from strategies.secure_aggregation.terms import Terms

__all__ = ["Field", "Phase", "Refused", "SecureSummer", "SumCollector", "Terms", "Total"]
