"""Test metrics under the guarantee: what a node sends of its test rows when its owner shares metrics privately.

A node sends, once in a run, either how many test rows of each class were taken for which class (one cell for each pair,
whether it occurs or not), or five sums over targets and errors that are clipped to the public range of the target, as
whole numbers with discrete Laplace noise. No other number about test rows leaves it: not how many there are, not
whether there are any.

Proof. *One release.* The model is fixed before the test rows are looked at, and a row's predictions are a function of
that row and the model alone (`ClientSide.predicts_alone`), so a record adds its own vector of whole numbers to the
sums, whatever the others are: a one in one cell, or at most ``_PARTS[i] * _STEPS`` in size in cell i
(`dpforest.mechanisms.whole`). Its L1 norm is at most 1, or ``_STEPS``; by `DiscreteLaplaceCounts` the release is
epsilon-differentially private for adding or removing a test record. Whatever else a node does follows from messages and
public numbers: the release has a fixed size, and is charged before the rows are read.

*The whole run costs a record epsilon and no more.* Let the run's releases about training rows be (epsilon, delta)-
differentially private together, however a server chooses its messages from what it has seen (that is what the ledger
holds a run to). A real node divides its records by a keyed hash of each raw record (`fl_app.data.split.node_data`):
the side of a record follows from its own bytes and a key that is independent of all records, so one record more or less
changes either the training part or the test part by that record, and leaves the other as it is. Fix the key.

1. The record is on the training side. The test part is then the same for both neighbours, and what the node says of
   it is a random function of that fixed part and of messages. So a server together with this part of the node is
   nothing but another (randomized) server of the training side, and its view is (epsilon, delta)-private.
2. The record is on the test side. Training answers are then a random function of a fixed part and of messages. The
   test part is asked once, by the line that the ledger has of it; by the above, the view is (epsilon, 0)-private.

Either way it is (epsilon, delta), for every key, and so for a random one: parallel composition (McSherry 2009), also
with a server that chooses when to ask, and about which model. `dpforest.ledger.total_epsilon` counts the worse of both
parts. Over several runs a record stays on its side (the key is kept), so epsilons and deltas of runs add up as without
metrics, and a run is charged once.

*Noised once.* Under ``privacy.trust=shared`` the nodes send these numbers into one more secure sum, with keys of its
own, and each adds a share of the noise: n - d - c of them have that of one node together, as for the sums of training
(`strategies.secure_aggregation.sharing`). Then the release is the sum over nodes; who sees it sees what one node with
all their test records would have sent, and a record moves it as it moves its own node's numbers. So the above holds
with the sum in the place of a node's answer, under the trust model of the run. A node answers in one way or in the
other, once a run: its ledger has one line. Steps are coarser, for shares of less noise a number.

*Where it does not hold.* Rows of somebody's own loading code (`strategies.node.app.LocalRows`) are divided by that
code: it must put each record on its side by that record alone. A record that is in both parts costs both, 2 epsilon,
and one that moves others costs more. In simulations rows are held out at random and by class, so that a record more may
move others: they show what nodes report, and the ledger is about neighbours that differ on one side. Under
``evaluation=subject`` whole clients of a simulation test and others train, so no record is in both; real nodes divide
their own records by the hash whatever a run asks for. Where the unit is a client, both parts are that client's, so
nothing is sent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpforest.errors import DPForestError
from dpforest.guarantee import PrivacyUnit
from dpforest.ledger import TEST_ROWS, Entry
from dpforest.schema import MOST_ROWS, Schema
from strategies.method import ClientSide, ClientTask, Method, Protection, Task
from strategies.metrics import Sums, add_sums

if TYPE_CHECKING:
    from dpforest.mechanisms import DiscreteLaplaceCounts
    from strategies.secure_aggregation.sharing import SecureTerms

WHAT = "test metrics"
NOISED = "noised"  # the metric of a reply that holds them
LAST = "last"  # the setting of a message that says that the run ends with it
_NOTE = "of test rows, which no line about training is about: the worse of both counts"
_STEPS, _STEPS_OF_SHARES = 1 << 20, 1 << 12
# Shares of the noised vector's sensitivity: rows, target, its square, squared error, absolute error.
_PARTS = np.array([0.1, 0.1, 0.15, 0.4, 0.25])
_LARGEST = 1 << 62
_DRAWS = 1000


@dataclass(frozen=True)
class PrivateSums:
    """The release about one node's test rows, the same on both sides.

    Parameters
    ----------
    schema : Schema
    epsilon : float
        Finite, above 0.
    shares : int
        Of how many nodes' noise the sum of all nodes has enough; 1 where each adds all itself.
    """

    schema: Schema
    epsilon: float
    shares: int = 1

    @property
    def unit(self) -> int:
        """What a row moves the numbers by at most, in L1 norm."""
        if self.schema.is_classification:
            return 1
        return _STEPS if self.shares == 1 else _STEPS_OF_SHARES

    @property
    def mechanism(self) -> DiscreteLaplaceCounts:
        """Of all numbers together."""
        from dpforest.mechanisms import DiscreteLaplaceCounts  # slow to import, and needed at the end only

        return DiscreteLaplaceCounts(self.epsilon, self.unit, self.shares)

    @property
    def entry(self) -> Entry:
        """Its line in the ledger."""
        return self.mechanism.entry(WHAT, TEST_ROWS, note=_NOTE)

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return len(self.schema.classes) ** 2 or len(_PARTS)

    def exact(self, y: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """The sums that noise is added to, int64 of shape (size,); of no rows, zeros.

        Parameters
        ----------
        y : ndarray of shape (n_rows,)
            Classes, or targets.
        predicted : ndarray of shape (n_rows, n_classes) or (n_rows,)
            Probabilities, or targets; what is none counts as the largest.
        """
        if self.schema.is_classification:
            classes = len(self.schema.classes)
            return np.bincount(y * classes + np.argmax(predicted[:, :classes], axis=1), minlength=self.size)
        from dpforest.mechanisms.whole import whole_numbers  # likewise

        centre, half = self._range
        target = np.clip((y - centre) / half, -1, 1)
        error = (np.clip(np.nan_to_num((predicted - centre) / half, nan=1.0), -1, 1) - target) / 2
        of_each = np.stack([np.ones(len(y)), target, target**2, error**2, np.abs(error)], axis=1)
        # Rounded to the nearest, none exceeds its step, which is a whole number.
        return whole_numbers(of_each * self._steps, self.unit).sum(axis=0)

    def read(self, values: Any) -> np.ndarray:
        """What a node has sent, int64 of shape (size,).

        Raises
        ------
        DPForestError
            Its form is not that.
        """
        if not isinstance(values, list) or len(values) != self.size or not all(isinstance(v, int) for v in values):
            raise DPForestError(f"the private evaluation is not {self.size} whole numbers")
        if not all(abs(value) <= self._most for value in values):
            raise DPForestError("the private evaluation counts more rows than any table has")
        return np.array(values, dtype=np.int64)

    def sums(self, values: np.ndarray) -> Sums:
        """As `strategies.metrics` has them, the target as its distance from the centre of its range."""
        if self.schema.is_classification:
            return {"confusion": values.astype(float).tolist()}
        half = self._range[1]
        n, y, yy, squared, absolute = values / self._steps
        return {
            "moments": [n, half * y, half**2 * yy, 0.0, 0.0, 0.0],
            "errors": [4 * half**2 * squared, 2 * half * absolute],
        }

    def sums_in_clear(self, sums: Sums) -> Sums:
        """What `sums` has of the sums of a client that noises nothing, so that both can be added."""
        if self.schema.is_classification:
            return {"confusion": sums["confusion"]}
        centre = self._range[0]
        n, y, yy = sums["moments"][:3]
        moments = [n, y - n * centre, yy - 2 * centre * y + n * centre**2]
        return {"moments": [*moments, 0.0, 0.0, 0.0], "errors": sums["errors"]}

    def possible(self, sums: Sums, clients: int) -> Sequence[Sums]:
        """Sums with the noise of so many clients in them, with such noise once more."""
        # Geometric numbers of failures add up to negative binomial ones; discrete Laplace noise is a difference of two.
        rng, ends = np.random.default_rng(0), -math.expm1(-1 / self.mechanism.scale)
        failures = clients / self.shares
        first, second = (rng.negative_binomial(failures, ends, (_DRAWS, self.size)) for _ in range(2))
        noise = first - second
        return [add_sums([sums, self.sums(each)]) for each in (*noise, *-noise)]

    @property
    def _range(self) -> tuple[float, float]:
        assert self.schema.target_range is not None
        low, high = self.schema.target_range
        return (low + high) / 2, (high - low) / 2

    @property
    def _steps(self) -> np.ndarray:
        return np.floor(_PARTS * self.unit)

    @property
    def _most(self) -> int:
        noise = math.ceil(self.mechanism.tail(1e-30))
        return min(_LARGEST, MOST_ROWS * self.unit + noise)


def shared_sums(task: Task[Any]) -> tuple[PrivateSums, SecureTerms]:
    """What all nodes send together where they share noise, and the terms of the secure sum for it.

    Raises
    ------
    DPForestError
        Nothing is shared in such a run, or it does not fit.
    """
    from strategies.secure_aggregation.sharing import noise_shares, terms_for  # which need the method's contract

    shares = noise_shares(task)
    if shares == 1:
        raise DPForestError("nodes share no noise in this run: each noises its own test metrics")
    release = PrivateSums(task.schema, task.budget.epsilon, shares)
    mechanism = release.mechanism
    return release, terms_for(task, 1, [mechanism], task.clients * release.size, MOST_ROWS * release.unit)


def can_be_private(method: Method, protection: Protection, epsilon: float) -> bool:
    """Whether a run has a guarantee that its test metrics may be a part of."""
    return method.uses_budget and protection.unit.kind is PrivacyUnit.RECORD and math.isfinite(epsilon)


def predict_each(side: ClientSide[Any], task: ClientTask[Any], X: np.ndarray, arrays: Any) -> np.ndarray:
    """Predictions of which each follows from its row and the model alone.

    A public row comes with every batch: that a model cannot predict must not depend on whether there are rows.
    """
    public = np.array([[feature.low for feature in task.schema.features]], dtype=X.dtype)
    if side.predicts_alone:
        return side.predict(task, np.concatenate([X, public]), arrays)[:-1]
    rows = [side.predict(task, row, arrays) for row in np.concatenate([public, X])[:, None, :]]
    return np.concatenate(rows)[1:]
