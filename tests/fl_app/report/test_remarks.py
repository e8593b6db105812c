"""What numbers hide is said in words."""

from __future__ import annotations

import json
import math
from pathlib import Path

from made_up_runs import write_run

from fl_app.report.answer import answer, in_words
from fl_app.report.gather import gather
from fl_app.report.page import write_report


def hidden(folder: Path) -> list[str]:
    (section,) = gather([folder]).sections
    return answer(section).hidden()


def confusion(run: Path, counts: list[list[int]]) -> None:
    """Give a run other counts of true classes (rows) and predicted ones."""
    metrics = json.loads((run / "metrics.json").read_text())
    (run / "metrics.json").write_text(json.dumps(metrics | {"confusion": counts}))


def test_classes_that_are_never_predicted_are_named(tmp_path: Path) -> None:
    for epsilon in (0.1, 1.0, 10.0):
        for seed in range(2):
            run = write_run(tmp_path / f"{epsilon}-{seed}", "boost", epsilon, seed)
            never = [[90, 0, 10], [30, 0, 0], [20, 0, 40]] if epsilon < 10 else [[90, 5, 5], [20, 10, 0], [20, 0, 40]]
            # What one seed predicts is predicted.
            confusion(run, [[90, 0, 10], [30, 0, 0], [60, 0, 0]] if epsilon == 0.1 and seed else never)
    assert "boost never predicts walk at epsilon 0.1 and 1." in hidden(tmp_path)


def test_a_class_without_test_rows_is_named_and_not_called_never_predicted(tmp_path: Path) -> None:
    confusion(write_run(tmp_path / "a", "boost"), [[90, 0, 10], [0, 0, 0], [20, 0, 40]])
    said = hidden(tmp_path)
    assert said[0].startswith("No test row is of class walk: nothing is known about predicting it")
    assert not [sentence for sentence in said if "never predicts" in sentence]
    write_run(tmp_path / "b", "boost", seed=1)
    assert "of class walk in 1 of 2 draws of the test rows" in hidden(tmp_path)[0]


def test_r2_below_zero_is_worse_than_the_mean(tmp_path: Path) -> None:
    for epsilon, reached in ((0.1, -0.5), (1.0, 0.4)):
        write_run(tmp_path / str(epsilon), "fext", epsilon, 0, [reached] * 2, target=True)
    said = hidden(tmp_path)
    assert "fext is worse than always predicting the mean of the test rows: R^2 -0.500 at epsilon 0.1." in said
    first = answer(gather([tmp_path]).sections[0]).verdicts[0].words()
    assert "Always predicting the mean reaches 0.000, so nothing was learned." in first


def test_a_score_that_falls_with_epsilon_is_named_beyond_its_interval_only(tmp_path: Path) -> None:
    for seed, change in enumerate((0.0, 0.01, -0.01)):
        for epsilon, fallen, wavering in ((1.0, 0.8, 0.6), (10.0, 0.7, 0.6 - 20 * change**2 - change)):
            write_run(tmp_path / f"a{epsilon}{seed}", "fext", epsilon, seed, [fallen + change] * 3)
            write_run(tmp_path / f"b{epsilon}{seed}", "one_shot", epsilon, seed, [wavering] * 3)
    falls = [sentence for sentence in hidden(tmp_path) if " falls from " in sentence]
    assert falls == [
        "fext falls from accuracy 0.800 at epsilon 1 to 0.700 at epsilon 10, by more than chance (0.100 [0.100 to "
        "0.100]): its settings suit the larger epsilon badly."
    ]


def test_the_worst_client_of_who_is_named_first_is_named(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "boost", 1.0, 0, [0.9, 0.4, 0.8])
    write_run(tmp_path / "b", "one_shot", 1.0, 0, [0.3, 0.4, 0.5])
    (worst,) = [sentence for sentence in hidden(tmp_path) if sentence.startswith("Worst served")]
    assert worst == (
        "Worst served by boost, by accuracy of a client's own test rows: client 1 with 0.400 where clients have 0.700 "
        "on average at epsilon 1."
    )
    # Where less is better the worst has the most.
    write_run(tmp_path / "t" / "a", "fext", accuracy=[0.9, 0.7, 0.4], target=True)
    (worst,) = [sentence for sentence in hidden(tmp_path / "t") if sentence.startswith("Worst served")]
    assert "client 2 with 0.600 where clients have 0.333" in worst


def test_clients_left_out_and_other_test_rows_are_said_in_the_answer_and_on_the_page(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "fext", evaluation={"public_share": 0.25})
    left = write_run(tmp_path / "b", "boost")
    metrics = json.loads((left / "metrics.json").read_text())
    (left / "metrics.json").write_text(json.dumps(metrics | {"left_out": {"2": "it was away"}, "trained": 2}))
    said = hidden(tmp_path)
    assert said[0] == "fext is evaluated on a random 75% of the test rows: the others are public to its server."
    assert said[-1].startswith("In 1 of 2 runs not all clients trained all through: boost at epsilon 1, seed 0: 2 of 3")
    assert said[-1].endswith("client 2 left out (it was away).")
    printed = in_words([answer(section) for section in gather([tmp_path]).sections])
    page = write_report([tmp_path]).read_text(encoding="utf-8")
    assert page.index("What these numbers hide</h4>") < page.index("Score against epsilon")
    for sentence in said:
        assert f"- {sentence}" in printed
        assert f"<li>{sentence}".replace("'", "&#39;") in page


def test_another_order_by_balanced_accuracy_is_said_in_the_headline(tmp_path: Path) -> None:
    for seed in range(3):
        for name, reached, balanced in (("boost", 0.9, 0.4), ("fext", 0.8, 0.6), ("one_shot", 0.7, 0.5)):
            run = write_run(tmp_path / f"{name}{seed}", name, 1.0, seed, [reached] * 3)
            metrics = json.loads((run / "metrics.json").read_text())
            (run / "metrics.json").write_text(json.dumps(metrics | {"balanced_accuracy": balanced}))
    write_run(tmp_path / "pooled", "centralized", math.inf, noised=False)
    (verdict,) = answer(gather([tmp_path]).sections[0]).verdicts
    assert verdict.leader_differs
    assert verdict.words().endswith(
        "By balanced accuracy the order is another: fext 0.600, one_shot 0.500, boost 0.400."
    )
    assert answer(gather([tmp_path]).sections[0]).sentences() == [
        "Per record: at epsilon 1, boost is best.",
        "By balanced accuracy the highest mean is another's: fext at epsilon 1.",
    ]
