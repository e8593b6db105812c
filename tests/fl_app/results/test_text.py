"""Tables for the terminal keep to its width."""

from __future__ import annotations

import pytest

from fl_app.results.text import client_table, fact_lines


@pytest.mark.parametrize("width", [50, 80, 200])
def test_facts_fit_the_terminal(width: int) -> None:
    facts = [("accuracy", "0.9"), ("privacy", "one record added to or removed from one client's training rows; " * 3)]
    lines = fact_lines(facts, width).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0] == "accuracy  0.9"
    assert " ".join(fact_lines(facts, width).split()) == " ".join(fact_lines(facts).split())
    assert len(fact_lines(facts).splitlines()) == 2


def test_a_table_of_clients_fits_the_terminal() -> None:
    clients = [{"client": c, "type": "all", **{f"similarity_{i}": 0.5 for i in range(12)}} for c in range(3)]
    assert max(map(len, client_table(clients, 60).splitlines())) <= 60
    assert max(map(len, client_table(clients).splitlines())) > 60
