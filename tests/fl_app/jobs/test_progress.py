"""What a sweep says after each of its runs."""

from __future__ import annotations

from fl_app.jobs.progress import Progress


def test_a_run_ends_with_its_number_score_and_times() -> None:
    now = [0.0]
    progress = Progress(4, clock=lambda: now[0])
    now[0] = 60.0
    first = progress.done(1, "boost, seed 0", {"accuracy": 0.9})
    assert first == "run 1 of 4: boost, seed 0: accuracy 0.900; elapsed 0:01:00, left about 0:03:00, " + (
        "best so far 0.900 (run 1)"
    )
    now[0] = 61.0
    progress.passed()
    assert progress.failed(2, "seed=1").startswith("run 2 of 4: seed=1: failed; elapsed 0:01:01, left about 0:02:00")
    now[0] = 121.0
    assert "accuracy 0.800" in (line := progress.done(3, "boost, seed 2", {"accuracy": 0.8}))
    assert line.endswith("left about 0:01:00, best so far 0.900 (run 1)")
    assert "left" not in progress.done(4, "boost, seed 3", {"r2": -1.0})
