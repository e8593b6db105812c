"""What ``dpforest node status`` says, from the node's budget file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from dpforest.errors import DPForestError
from dpforest.files import written_whole
from dpforest.ledger import rounded_up
from dpforest.texts import harmless_cell
from fl_app.node.owner_file import OwnerFile
from fl_app.terminal.tables import aligned
from strategies.node.budget_file import BudgetFile, RunSummary
from strategies.node.consent import Limits

_COLUMNS = tuple(field.name for field in fields(RunSummary))


@dataclass(frozen=True)
class NodeStatus:
    """All runs of a node, and what is left.

    Parameters
    ----------
    runs : sequence of RunSummary
    spent, left : (float, float)
        Epsilon and delta of all runs together, and what the limits leave of them.
    """

    runs: Sequence[RunSummary]
    spent: tuple[float, float]
    left: tuple[float, float]

    def text(self) -> str:
        """A table for the terminal."""
        table = aligned([_COLUMNS, *(tuple(map(_cell, astuple(run))) for run in self.runs)])
        (epsilon, delta), (more_epsilon, more_delta) = self.spent, self.left
        return "\n".join(
            [
                *(table if self.runs else ["nothing was asked yet"]),
                f"spent: epsilon {rounded_up(epsilon)}, delta {rounded_up(delta)}",
                f"remaining: epsilon {max(0.0, more_epsilon):g}, delta {max(0.0, more_delta):g}",
            ]
        )


def node_status(owner: OwnerFile) -> NodeStatus:
    """Read the status of a node; nothing is made where it has never run.

    Raises
    ------
    DPForestError
        There is no budget file yet, or it cannot be believed.
    """
    path = Path(owner.node_config["budget-file"])
    if not path.exists():
        raise DPForestError(f"{path} is not there: the node has not been started yet, or its state is gone")
    file, limits = BudgetFile(path), Limits.of(owner.context)
    spent = file.spent()
    return NodeStatus(file.summaries(), spent, (limits.all_epsilon - spent[0], limits.all_delta - spent[1]))


def write_csv(status: NodeStatus, path: Path) -> None:
    """Write a line a run; words are a server's."""
    with written_whole(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_COLUMNS)
        for run in status.runs:
            writer.writerow([harmless_cell(cell) if isinstance(cell, str) else cell for cell in astuple(run)])


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else str(value)
