"""All that an owner can set in a node configuration: ``node.toml``, or ``--node-config`` of a SuperNode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Key(NamedTuple):
    """What a key of the node configuration means, and what holds where it is not set; Markdown, for people."""

    meaning: str
    unset: str


KEYS: Mapping[str, Key] = {
    "partition-id": Key("which client this node is: 0, 1, ...", "no part in anything"),
    "data-path": Key(
        "the node's CSV or Parquet file, or a folder of them; a server never names a file",
        "the node must find a known data set by itself",
    ),
    "schema": Key(
        "the owner's schema (a YAML file, or a TOML file with a `[schema]`): what a server asks of a table may be a "
        "part of it and no more",
        "a server's schema is taken as it is",
    ),
    "max-epsilon": Key("most that a run may spend; means nothing to methods without a budget, such as `fedavg`", "1"),
    "rows": Key(
        "a number that the table will not exceed: the owner's public word, from which `max-delta` follows",
        "100 million",
    ),
    "max-delta": Key(
        "most that a run may spend; a mechanism may publish each record with this probability, so it is far below "
        "1 / `rows`",
        "1 / (100 `rows`): 2e-6 for 5000 rows, 1e-10 where `rows` is not set either",
    ),
    "lifetime-epsilon": Key("most that all runs together may spend; needs a `budget-file`", "`max-epsilon`"),
    "lifetime-delta": Key("most that all runs together may spend; needs a `budget-file`", "`max-delta`"),
    "budget-file": Key(
        "an SQLite file (made where there is none) in which the node writes down what it was asked and what it "
        "answered, and adds up its runs. A damaged one allows nothing",
        "none: a server can start a new run, with a new budget; `dpforest node` always keeps one",
    ),
    "max-nodes": Key("most work of one message: nodes of all its trees", "2 million, half a minute of one core"),
    "max-scores": Key(
        "most work of one message: candidate splits that are compared for its trees",
        "50 million, half a minute of one core",
    ),
    "max-products": Key(
        "most work of one message: products of weights and values in the training of a network",
        "1e12, some minutes of one core",
    ),
    "max-seconds": Key("most that one message may take by these numbers, in seconds of one core", "no limit"),
    "max-memory": Key("most that one message may take by these numbers, in megabytes", "4000"),
    "strategies": Key(
        "methods that it takes part in, and no others; those that trust the server, and any with "
        "`privacy.trust=shared`, take part only where they are named",
        "all that protect the client by themselves",
    ),
    "trust": Key(
        "whom a run may want trusted, one or more: `local` (nobody), `shared` (who is in the sums of a method in "
        "`strategies`), `central` (the server, which sees what a method in `strategies` sends before its noise)",
        "`local` and `shared`, and `central` for a method in `strategies` that is made for it: `boost` is not",
    ),
    "units": Key("what a run must protect: `record`, `client` or both", "both"),
    "share-metrics": Key(
        "how the server learns how good the final model is on the node's test rows: a fifth, chosen by a keyed hash "
        "of the whole record of the file, the same in every run, and never trained on. `private`: once a run, counts "
        "or bounded sums with noise, which cost a record no more than the run does. `none`: not at all. `clear` (also "
        "`true`): after every round, exactly, so that the server can learn these rows: they are outside every "
        "guarantee. A model that is the node's own (`lrf`, `pp_fprf`, `standalone_mlp`) is not evaluated even so: its "
        "metrics would show training rows",
        "`private`",
    ),
    "state-folder": Key(
        "where the node keeps the secret that chooses its test rows: where the data moves, it moves too",
        "`~/.local/state/dpforest` (`$XDG_STATE_HOME/dpforest`)",
    ),
    "signing-key": Key(
        "a private key (elliptic curve or Ed25519, as `ssh-keygen` makes it) with which the node signs its part of "
        "secure sums",
        "`private-key` of `node.toml`, else nothing is signed",
    ),
    "fellows": Key(
        "a file of public keys, one a line: whom the node accepts in secure sums, so that it need not trust the server",
        "anybody, by a server that follows the protocol",
    ),
    "min-fellows": Key("how many `fellows` must be in a sum with the node itself", "1"),
}
