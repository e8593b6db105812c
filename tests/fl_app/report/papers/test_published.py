"""Published values are those of their sources."""

from __future__ import annotations

from fl_app.report.papers.published import published


def test_the_chapters_numbers_are_those_of_its_tables() -> None:
    har, credit = published("har_chapter"), published("har_chapter_credit")
    assert har["accuracy"]["DP-FedAvg"] == {0.1: 0.8407, 0.5: 0.8812, 1: 0.9273, 10: 0.9584}
    assert har["without_privacy"] == {"centralized": 0.9773, "FedAvg": 0.9622}
    assert credit["accuracy"]["DP-FedAvg"] == {1: 0.6643}
