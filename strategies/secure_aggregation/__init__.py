"""Secure aggregation: the server learns the sum of the clients' integer vectors and no single vector.

The protocol is that of Bonawitz et al. 2017 (Practical Secure Aggregation for Privacy-Preserving Machine Learning,
CCS, figures 2 and 4), with its key exchange batched for all rounds of a run. A run of R rounds takes 2 + 2 R exchanges:

1. *advertise*: each client sends a public key for sealing shares and, for each round, a public key for masks.
2. *share*: for each round a client has two fresh secrets, the seed of its *self mask* and the seed of its *round
   key*. It splits both by Shamir's scheme among its holders and seals each holder's part for that holder alone.
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
d + 1 honest holders that were told its owner is missing, and each accepts at most d missing; hence of H honest
clients at least H / (d + 1), and more than one, stay in the sum. Noise that was sized for n - d - c honest clients
(`dpforest.mechanisms.gaussian`) does not cover that; it assumes the same survivors for all. The paper closes the gap
by one more exchange with signatures.

*Not covered*: a server that swaps public keys in the first exchange. That takes keys known from elsewhere. A
disagreement about keys or terms between clients shows, as all keys are bound to a digest of both. Nor is a client kept
from sending a wrong vector within the agreed bound.

Ciphers are those of ``cryptography`` and ``pycryptodome``: X25519, HKDF-SHA256, AES-256-GCM for parts, AES-256 in
counter mode for masks, Shamir's scheme over GF(2^128). Keys come from the operating system, never from the seed of a
run; the sums do not depend on them.
"""

from strategies.secure_aggregation.client import Refused, SecureSummer
from strategies.secure_aggregation.field import Field
from strategies.secure_aggregation.server import Phase, SumCollector, Total
from strategies.secure_aggregation.terms import Terms

__all__ = ["Field", "Phase", "Refused", "SecureSummer", "SumCollector", "Terms", "Total"]
