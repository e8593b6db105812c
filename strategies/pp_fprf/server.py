"""The server's side of LRF, PP-FGRF and PP-FPRF: it stands in for all masters."""

from __future__ import annotations

import logging
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpforest.errors import DPForestError
from dpforest.forest import Forest, concatenate, pack
from dpforest.ledger import Entry, Ledger
from strategies.forests import model_arrays, read_model, save_forest
from strategies.kept_models import KeptModelsServer
from strategies.method import Arrays, Charges, ClientUpdate, ServerSide, Task, TooFewClients
from strategies.pp_fprf.alone import finish
from strategies.pp_fprf.growth import NO_MASTER, Group, Growth
from strategies.pp_fprf.plan import FOREIGN, HASHES, SIZES, VALUES, plan_of, planned
from strategies.pp_fprf.settings import GlobalSettings, PersonalSettings
from strategies.pp_fprf.similarity import choose_similar, similarity_of_hashes, similarity_of_histograms

log = logging.getLogger(__name__)
_MOST_ROWS = 10**7


def _check_classes(task: Task) -> None:
    if not task.schema.is_classification:
        raise DPForestError("these trees vote for classes; use strategy=fext for a regression target")


class _OwnForests(ServerSide):
    """For users that end with a forest of their own, which a simulation shows for the run folder."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        _check_classes(task)
        self._models: dict[int, Forest] = {}

    def take_own_model(self, client: int, arrays: Arrays) -> None:
        self._models[client] = read_model(arrays, self.task.schema)

    def client_facts(self, client: int, ledger: Ledger | None) -> dict[str, Any]:
        return {"kept": self._models[client].n_trees} if client in self._models else {}

    def save(self, folder: Path) -> None:
        for client, forest in sorted(self._models.items()):
            save_forest(forest, folder, f"client_{client:03d}")
        if not self._models:
            (folder / "README.txt").write_text("The users' own forests stay with them.\n", encoding="utf-8")


class AloneServer(KeptModelsServer, _OwnForests):
    """Waits until every user has grown its own forest."""


class GlobalServer(ServerSide):
    """Grows one forest with all users."""

    def __init__(self, task: Task[GlobalSettings]) -> None:
        super().__init__(task)
        _check_classes(task)
        self._settings = task.settings
        self._plan = plan_of(task)
        entropy = np.random.SeedSequence(task.seed, spawn_key=(zlib.crc32(b"pp_fprf"),)).generate_state(2, np.uint64)
        self._hash_seed, self._growth_seed = (int(number >> np.uint64(2)) for number in entropy)
        self._growth: Growth | None = None
        self._forest: Forest | None = None

    def planned(self) -> list[Entry]:
        return planned(self.task)

    def charges(self, exchange: int, client: int, update: ClientUpdate | None = None) -> Charges:
        growth = self._growth
        if growth is None or client not in growth.members or growth.phase not in ("vote", "count"):
            return Charges()
        asked = growth.trees_asked(client)
        if self._settings.published:
            masters = growth.masters_of(client)
            asked = asked[(masters < 0) | (masters == client)]
        found: list[Entry] = []
        for i, part in enumerate(self._plan.parts(len(asked))):
            found += self._plan.part_entries(part, growth.phase, int(asked[i :: self._plan.slices].sum()))
        return Charges(each=found)

    def unprotected(self) -> list[str]:
        return [VALUES, SIZES] if self._settings.published else []

    @property
    def exchanges(self) -> int:
        return (2 if self._settings.published else 1) * self._settings.depth + 1

    @property
    def finished(self) -> bool:
        return self._forest is not None

    def is_round_end(self, exchange: int) -> bool:
        return self.finished

    def participants(self, exchange: int, clients: list[int]) -> list[int]:
        if self._growth is None:
            self._grow([Group(NO_MASTER, tuple(clients))])
        assert self._growth is not None
        return [client for client in clients if client in self._growth.members]

    def arrays_for(self, exchange: int, client: int) -> Arrays:
        assert self._growth is not None
        return self._growth.message(client)

    def config(self, exchange: int, client: int) -> Mapping[str, Any]:
        assert self._growth is not None
        return {"phase": self._growth.phase, "seed": self._growth_seed}

    def check(self, update: ClientUpdate) -> None:
        assert self._growth is not None
        self._growth.check(update.client, update.arrays)

    def aggregate(self, exchange: int, updates: list[ClientUpdate]) -> Arrays | None:
        self._continue(updates)
        return model_arrays(self._forest, pack(self._forest)) if self._forest is not None else None

    def progress(self) -> str:
        if self._growth is None or self._growth.phase == "done":
            return ""
        return f"level {self._growth.level}, {self._growth.n_nodes:,} nodes"

    def report(self) -> dict[str, Any]:
        assert self._forest is not None
        assert self._growth is not None
        return {"trees": self._forest.n_trees, "nodes": self._forest.n_nodes, "levels": self._growth.level}

    def client_facts(self, client: int, ledger: Ledger | None) -> dict[str, Any]:
        assert self._growth is not None
        if not self._settings.published:
            return {} if ledger is None else {"epsilon_spent": ledger.guarantee().epsilon}
        plan, levels = self._plan, self._growth.levels_asked.get(client)
        if levels is None:
            return {}  # it was never asked to take part in a session
        # What the paper counts: B = T epsilon, whatever the user does in the sessions of others. Its ledger knows those
        # in words only.
        return {
            "epsilon_counted": self._settings.trees * plan.tree_epsilon(plan.depth),
            "epsilon_spent": plan.spent(levels.tolist(), leaves=client in self._growth.leaves_asked),
        }

    def save(self, folder: Path) -> None:
        assert self._forest is not None
        save_forest(self._forest, folder)

    def _grow(self, groups: list[Group]) -> None:
        settings = self._settings
        self._growth = Growth(groups, self.task.schema, settings, self._growth_seed, settings.published)

    def _continue(self, updates: list[ClientUpdate]) -> None:
        """Hand the answers on; in the end the trees are finished."""
        growth = self._growth
        assert growth is not None
        answers = {update.client: update.arrays for update in updates}
        for lost in sorted(set(growth.members) - set(answers)):
            masters = sorted({group.master for group in growth.groups if lost in group.members} - {NO_MASTER})
            whose = f"of masters {', '.join(map(str, masters))} go on" if masters else "go on"
            log.warning("client %d did not answer: the trees %s without it", lost, whose)
        growth.receive(answers)
        if growth.phase == "done":
            # Noise of as many members as a tree has on average.
            members = sum(len(group.members) for group in growth.groups) / len(growth.groups)
            epsilon = math.inf if self._settings.published else self._plan.leaves.epsilon / math.sqrt(members)
            self._forest = finish(growth.counts_forest(), self._settings, epsilon)


class PersonalServer(GlobalServer, _OwnForests):
    """Finds similar users, grows trees with each user and those like it, and gives them out to choose from."""

    def __init__(self, task: Task[PersonalSettings]) -> None:
        _OwnForests.__init__(self, task)
        GlobalServer.__init__(self, task)
        self._personal = task.settings
        if task.clients == 1:
            raise DPForestError("one user has nobody to grow trees with: use strategy=lrf")
        if self._personal.k >= task.clients:
            raise DPForestError(
                f"k {self._personal.k} must be below the number of users {task.clients}, as nobody is similar to "
                f"itself: use 1 to {task.clients - 1}, or strategy=pp_fgrf to grow with all"
            )
        self._similar: dict[int, list[int]] = {}
        self._offered: dict[int, np.ndarray] = {}
        self._done = False

    def charges(self, exchange: int, client: int, update: ClientUpdate | None = None) -> Charges:
        if self._growth is None:
            return Charges(each=self._plan.similarity_entries(self._personal.functions))
        return super().charges(exchange, client, update)

    def unprotected(self) -> list[str]:
        return [HASHES, *super().unprotected(), FOREIGN] if self._settings.published else []

    @property
    def exchanges(self) -> int:
        return super().exchanges + 2

    @property
    def finished(self) -> bool:
        return self._done

    def participants(self, exchange: int, clients: list[int]) -> list[int]:
        if self._growth is None:
            return clients
        if self._forest is not None:
            return [client for client in clients if len(self._offered.get(client, ()))]
        return [client for client in clients if client in self._growth.members]

    def arrays_for(self, exchange: int, client: int) -> Arrays:
        if self._growth is None:
            return {}
        if self._forest is None:
            return self._growth.message(client)
        return pack(concatenate([self._forest.tree(int(tree)) for tree in self._offered[client]]))

    def config(self, exchange: int, client: int) -> Mapping[str, Any]:
        if self._growth is None:
            return {"phase": "hash", "seed": self._hash_seed}
        return super().config(exchange, client) if self._forest is None else {"phase": "select"}

    def check(self, update: ClientUpdate) -> None:
        if self._growth is None:
            self._read_table(update)
        elif self._forest is None:
            super().check(update)

    def aggregate(self, exchange: int, updates: list[ClientUpdate]) -> Arrays | None:
        if self._growth is None:
            self._find_similar({update.client: self._read_table(update) for update in updates})
        elif self._forest is None:
            self._continue(updates)
        else:
            self._done = True
        return None

    def report(self) -> dict[str, Any]:
        similar = {str(user): others for user, others in self._similar.items()}
        return super().report() | {"similar_users": similar}

    def client_facts(self, client: int, ledger: Ledger | None) -> dict[str, Any]:
        similar = " ".join(map(str, self._similar.get(client, ())))
        facts = {"similar": similar, "sessions": self._sessions(client), "offered": len(self._offered.get(client, ()))}
        return facts | _OwnForests.client_facts(self, client, ledger) | super().client_facts(client, ledger)

    def save(self, folder: Path) -> None:
        _OwnForests.save(self, folder)

    def _sessions(self, client: int) -> int:
        assert self._growth is not None
        return len(self._growth.levels_asked.get(client, ())) // self._settings.trees

    def _read_table(self, update: ClientUpdate) -> np.ndarray:
        """Hash values or noised histograms of one user."""
        name = "hashes" if self._settings.published else "histograms"
        table = update.arrays.get(name)
        functions = self._personal.functions
        if table is None or table.ndim != 2 or table.dtype.kind not in "iu":
            raise DPForestError(f"array {name!r} is missing or holds no table of whole numbers")
        if self._settings.published:
            fits = table.shape[1] == functions and len(table) <= _MOST_ROWS
        else:
            fits = table.shape == (functions, self._personal.buckets)
        if not fits:
            raise DPForestError(f"array {name!r} has shape {table.shape}, which does not fit {functions} functions")
        return table

    def _find_similar(self, tables: dict[int, np.ndarray]) -> None:
        settings = self._personal
        if len(tables) < 2:
            raise TooFewClients(f"{len(tables)} users gave their hash tables, and it takes two to grow trees together")
        if settings.published:
            similarity = similarity_of_hashes(tables, settings.least_equal)
        else:
            similarity = similarity_of_histograms(tables)
        self._similar = choose_similar(similarity, sorted(tables), settings.k, settings.most_sessions)
        self._grow([Group(user, tuple(sorted([user, *others]))) for user, others in self._similar.items()])
        assert self._growth is not None
        masters = np.array([group.master for group in self._growth.groups])[self._growth.tree_group]
        for user in self._growth.members:
            trees = self._growth.trees_of(user)
            self._offered[user] = trees[masters[trees] == user] if settings.offered == "own" else trees
        least = min(map(len, self._similar.values()))
        if least < settings.k:
            log.info("a user takes part in at most %s sessions, so that some masters have only %d similar users",
                     settings.most_sessions, least)  # fmt: skip
