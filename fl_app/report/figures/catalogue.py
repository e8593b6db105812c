"""All figures of runs, with the tables that are written with them: what each is of, its place on a page, its caption.

A new figure is its function and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fl_app.report.answer import Answer
from fl_app.report.figures import attacks, comparison, convergence, epsilon, families, rounds, tradeoff
from fl_app.report.figures.style import save_figure, styled
from fl_app.report.papers import ldp_document, liu2022
from fl_app.report.sections import Family, Section, file_name, nearest_to_one
from fl_app.results.run_folder import write_table

_CURVES = 12  # that a figure of learning curves can show
_EXPLAINED = 4  # methods whose rounds and importances are shown, the best ones

Subject = Answer | Section | Family
Made = Iterator[tuple[str, Figure]] | Iterator[tuple[str, Any]]


def whole(section: Section) -> Section:
    """All of it."""
    return section


def best_settings(section: Section) -> Section:
    """The runs of the settings with the highest means: each of them has figures of its own."""
    means = section.frame.groupby("setting")[section.metric.name].mean().sort_values(ascending=False)
    best = set(means.index[:_EXPLAINED])
    return section.among(lambda run: run.setting in best)


def few_curves(section: Section) -> Section:
    """All runs; of many settings and epsilons only the epsilon nearest to 1 and no privacy."""
    if section.frame.groupby(["setting", "epsilon"]).ngroups <= _CURVES:
        return section
    middle = nearest_to_one(list(section.frame["epsilon"].unique()))
    return section.among(lambda run: run.epsilon in (middle, np.inf))


@dataclass(frozen=True)
class Entry:
    """A kind of figure, or of a table that is written with figures.

    Parameters
    ----------
    name : str
        Beginning of its files' names.
    of : type
        What it is made of: the answer of a section, a section, or a family.
    make : callable of that to iterator of (str, object)
        The rest of each file's name, and a figure, or lines of a table, or text.
    place : str
        Where a page has it; nowhere if empty.
    caption : str
    few : callable of a section to a section
        What a page shows of it, where all would be too much.
    """

    name: str
    of: type[Subject]
    make: Callable[[Any], Made]
    place: str = ""
    caption: str = ""
    few: Callable[[Section], Section] = whole

    def write(self, subject: Subject, folder: Path) -> list[Path]:
        """Make it and write it into a folder, figures as SVG and PNG; nothing where the runs have nothing to show."""
        written: list[Path] = []
        with styled():
            for rest, made in self.make(subject):
                folder.mkdir(parents=True, exist_ok=True)
                path = folder / "-".join(filter(None, (self.name, file_name(rest))))
                if isinstance(made, Figure):
                    written += save_figure(made, path)
                elif isinstance(made, str):
                    path.with_name(f"{path.name}.txt").write_text(f"{made}\n", encoding="utf-8")
                else:
                    write_table(path.with_name(f"{path.name}.csv"), made)
        return written


# In the order of a page.
CATALOGUE = (
    Entry("tradeoff", Answer, tradeoff.tradeoff, "answer",
          "The method with the highest mean at each epsilon; in grey each client's own model, which sends nothing, and "
          "the best without privacy. An ≈ says that no difference from another method is shown. Dots are seeds; from "
          "five on, a line is their 95 % interval."),
    Entry("answer", Answer, comparison.answer_picture, "score",
          "Methods with a guarantee, the best of each epsilon first, larger and with its score; where units and trust "
          "models both differ, each pair has a panel. Bars are 95 % intervals over seeds, by bootstrap, and of fewer "
          "than five seeds from the lowest to the highest. An ≈ says that no difference from another method is shown."),
    Entry("epsilon", Section, epsilon.against_epsilon, "score",
          "Mean over seeds and folds, bars from the lowest to the highest. Hollow: no valid guarantee. Grey crosses: "
          "published values with their source."),
    Entry("convergence", Section, convergence.convergence, "learning",
          "Score after each round, and after the bytes sent so far, of test rows if nothing else is said; bands span "
          "the seeds. The lighter, the smaller epsilon.", few_curves),
    Entry("rounds", Section, rounds.rounds, "learning",
          "Scores over rounds by epsilon; grey: what a source claims. Of many methods, the best four are shown.",
          best_settings),
    Entry("clients", Section, comparison.client_boxes, "clients",
          "Each box: the clients' scores (means over seeds); the filled mark is the worst."),
    Entry("alone", Section, epsilon.alone, "clients", "What each client reaches alone, without privacy."),
    Entry("labels", Section, convergence.label_map, "clients",
          "How the classes are spread over the clients (non-IID), as divided in the first run. Private facts, read "
          "from the data on this machine and from no run."),
    Entry("confusion", Section, comparison.confusion_matrices, "confusion",
          "Share of each true class, in per cent; runs of all seeds together."),
    Entry("importance", Section, rounds.importances, "importance",
          "Mean decrease in impurity, of what clients sent; bars span the seeds. Of many methods, the best four are "
          "shown; fl_app.compare --figures draws all.", best_settings),
    Entry("importance-map", Section, rounds.importance_maps, "importance",
          "The same as a heat map over epsilon, features in the order of the data.", best_settings),
    Entry("importance_stability", Section, rounds.stability, few=best_settings),
    Entry("membership", Section, attacks.against_attackers, "attackers",
          "Each mark: a run's score, and the area under the curve of the strongest attack by who knows so much, with "
          "its 95 % interval; the number is epsilon, ∞ no privacy. Hollow: no valid guarantee. Solid grey: a coin. "
          "Dotted: the most that epsilon allows to any attacker; a better attack than these may come nearer to it."),
    Entry("memorization", Section, epsilon.memorization, "memorization",
          "Share of clients whose tree does better on its own test rows than on anyone else's (Favero et al. 2024, "
          "section V-B)."),
    Entry("attack", Family, families.against_attacks, "joined",
          "Mean score against the share of clients with bad labels or trees; bars span the seeds."),
    Entry("rows", Family, families.against_rows, "joined",
          "Mean score against the rows of a client times epsilon; bars span the seeds, and each number of clients has "
          "a line of its own."),
    Entry("number", Family, families.against_clients, "joined",
          "Mean score against the number of clients that train; bars span the seeds. The lighter, the smaller the "
          "epsilon."),
    Entry("ldp", Section, ldp_document.document_figures, "settings",
          "Metrics and sizes of the noise at each level, with what the document says."),
    Entry("ldp_document", Section, ldp_document.document_file),
    Entry("users", Section, liu2022.user_figures, "clients",
          "Users' own forests against what differs between runs, and each user."),
    Entry("costs", Section, comparison.costs, "cost",
          "Mean score of each method against bytes and seconds, a mark an epsilon. Hollow: no valid guarantee. Grey "
          "crosses: published values."),
)  # fmt: skip

# Tables of single sources, as text of some width, by their heading.
TABLES: dict[str, Callable[[Section, int | None], str]] = {
    "Accuracy by type of user, as in Liu et al. 2022, tables 3 and 4": liu2022.user_table,
    "The tables of the LDP document": ldp_document.document_tables,
}


def entries_for(subject: Subject) -> list[Entry]:
    """What can be made of it; nothing of a section without any score."""
    if isinstance(subject, Section) and not subject.has_scores:
        return []
    return [entry for entry in CATALOGUE if entry.of is type(subject)]


def order_of(entry: Entry) -> int:
    """Its number on a page."""
    return [other.name for other in CATALOGUE].index(entry.name)


def write_all(subject: Subject, folder: Path) -> list[Path]:
    """Write all figures of it into a folder, of all settings, with the tables that belong to them."""
    return [path for entry in entries_for(subject) for path in entry.write(subject, folder)]
