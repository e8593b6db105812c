"""What a user spends: in the similarity, in each session, and in all of them together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpforest.forest import Limits
from dpforest.growers.kernels import SCORE_UNIT
from dpforest.ledger import ALL_ROWS, Entry, rows_slice
from dpforest.mechanisms import DiscreteLaplaceCounts, Selection
from strategies.forests import LEAST_ROWS, own_nodes
from strategies.method import Task, Work
from strategies.pp_fprf.kernels import GAIN_UNIT
from strategies.pp_fprf.settings import GlobalSettings, PersonalSettings, TreeSettings

HASHES = "hash values of all training rows"
VALUES = "candidate values lie between the smallest and largest values of a node's own rows"
SIZES = "exact numbers of rows in every node"
FOREIGN = "sessions of other masters, which the paper does not count"


@dataclass(frozen=True)
class RowPart:
    """A part of a user's rows in the words of its ledger."""

    rows: str
    prefix: str


@dataclass(frozen=True)
class Plan:
    """Mechanisms of a run.

    Proof of the total (tight). A row falls into one slice and is seen by the trees of that slice only. There it adds 1
    to one bucket of each hash function (L1 norm ``functions``), and for each tree and level it lies in one node: it
    raises the scores of that node's candidates by 0 to 1 (see `dpforest.growers.grow`) and the node's size by 1, and
    in the end the count of one class in one leaf by 1. So a level of a tree costs one vote and one size, levels and the
    leaves add up, and so do the trees of a slice; trees of other slices cost this row nothing.

    Parameters
    ----------
    histograms : DiscreteLaplaceCounts or None
        Of the similarity, for PP-FPRF with a guarantee.
    votes : Selection
        One choice a node.
    sizes : DiscreteLaplaceCounts or None
        Of the nodes of a level; None where they are sent as they are.
    leaves : DiscreteLaplaceCounts
        Class counts of the leaves of one tree.
    depth : int
        Levels with votes.
    sessions : int or None
        Masters that a user grows with at most; None: no limit.
    trees : int
        Of one master.
    slices : int
    """

    histograms: DiscreteLaplaceCounts | None
    votes: Selection
    sizes: DiscreteLaplaceCounts | None
    leaves: DiscreteLaplaceCounts
    depth: int
    sessions: int | None
    trees: int
    slices: int

    def tree_epsilon(self, levels: int, leaves: bool = True) -> float:
        """Cost of a tree with so many levels of votes, with or without its leaves."""
        level = self.votes.epsilon + (self.sizes.epsilon if self.sizes else 0.0)
        # Nothing times infinity would be no number.
        return (levels * level if levels else 0.0) + (self.leaves.epsilon if leaves else 0.0)

    def spent(self, levels: Sequence[int], leaves: bool = True) -> float:
        """What a user spent that voted in so many levels of each of its trees: that of its dearest slice of rows."""
        similarity = self.histograms.epsilon if self.histograms else 0.0
        trees = [self.tree_epsilon(voted, leaves) for voted in levels]
        return similarity + max(math.fsum(trees[i :: self.slices]) for i in range(self.slices))

    def similarity_entries(self, functions: int) -> list[Entry]:
        """What a user releases to find out whom it is similar to."""
        return [] if self.histograms is None else [self.histograms.entry(histogram_words(functions))]

    def part_entries(self, part: RowPart, phase: str, trees: int) -> list[Entry]:
        """What a user releases in a phase of growing about one part of its rows, in so many trees."""
        if not trees:
            return []
        if phase == "count":
            return [self.leaves.entry(f"{part.prefix}class counts of leaves", part.rows, trees)]
        found = [self.votes.entry(f"{part.prefix}choices of splits", part.rows, trees)]
        if self.sizes is not None:
            found.append(self.sizes.entry(f"{part.prefix}sizes of nodes", part.rows, trees))
        return found

    def parts(self, n_trees: int) -> list[RowPart]:
        """The parts of a user's rows that its trees see: the slices, of which tree ``i`` sees number ``i % slices``."""
        if self.slices == 1:
            return [RowPart(ALL_ROWS, "")]
        return [
            RowPart(rows_slice(f"{self.slices} slices", i), f"slice {i + 1}: ")
            for i in range(min(self.slices, n_trees))
        ]

    def entries(self, functions: int) -> list[Entry]:
        """What a user will release at most; published: in its own sessions."""
        most = math.ceil((self.sessions or 1) * self.trees / self.slices)
        rows = ALL_ROWS if self.slices == 1 else rows_slice(f"{self.slices} slices", 0)
        prefix = "" if self.slices == 1 else "of each slice of rows: "
        part = RowPart(rows, prefix)
        votes, leaves = self.part_entries(part, "vote", most * self.depth), self.part_entries(part, "count", most)
        return [*self.similarity_entries(functions), *votes, *leaves]


def histogram_words(functions: int) -> str:
    """The ledger's words for the similarity."""
    return f"histograms of {functions} hash functions"


def plan_of(task: Task[GlobalSettings]) -> Plan:
    """The plan of a run of PP-FGRF or PP-FPRF; its entries cost the task's budget."""
    settings = task.settings
    total = task.budget.epsilon
    if settings.published:
        # Section 4.3: epsilon / d for each of the d - 1 levels of splits and for the leaves; the gain is at most
        # log2 of the classes, and the exponent is half of that of a score that can only rise.
        share = total / settings.trees / (settings.depth + 1)
        sensitivity = math.ceil(2 * math.log2(task.schema.n_outputs) * GAIN_UNIT)
        votes = Selection(share, sensitivity, "exponential")
        sessions = settings.most_sessions if isinstance(settings, PersonalSettings) else 1
        return Plan(None, votes, None, DiscreteLaplaceCounts(share), settings.depth, sessions, settings.trees, 1)
    histograms, rest, sessions = None, total, 1
    if isinstance(settings, PersonalSettings):
        similarity = settings.similarity_share * total
        histograms = DiscreteLaplaceCounts(similarity, settings.functions)
        rest, sessions = total if math.isinf(total) else total - similarity, settings.most_sessions or 1
    tree = rest / math.ceil(sessions * settings.trees / settings.slices)
    vote, size = settings.vote_share * tree / settings.depth, settings.size_share * tree / settings.depth
    leaves = (1 - settings.vote_share - settings.size_share) * tree
    return Plan(
        histograms,
        Selection(vote, SCORE_UNIT, "permute_and_flip"),
        DiscreteLaplaceCounts(size),
        DiscreteLaplaceCounts(leaves),
        settings.depth,
        sessions,
        settings.trees,
        settings.slices,
    )


def planned(task: Task[GlobalSettings]) -> list[Entry]:
    """What one user will release over the run; published: what the paper counts, B = trees * epsilon."""
    settings = task.settings
    plan = plan_of(task)
    if settings.published:
        plan = replace(plan, sessions=1)
    return plan.entries(settings.functions if isinstance(settings, PersonalSettings) else 0)


def alone_work(task: Task[TreeSettings]) -> Work:
    """All trees of a user, on its own rows."""
    settings = task.settings
    return Work(nodes=own_nodes(settings.trees, settings.depth, task.schema.rows or LEAST_ROWS))


def work(task: Task[GlobalSettings]) -> Work:
    """All trees that a user may take part in; a message is about a level of each."""
    settings = task.settings
    sessions = (settings.most_sessions or task.clients) if isinstance(settings, PersonalSettings) else 1
    nodes = Limits.complete(settings.trees * sessions, settings.depth).nodes
    return Work(nodes=nodes, scores=nodes * settings.candidates(task.schema.n_features))
