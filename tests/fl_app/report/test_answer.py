"""What is compared with what, and the answer in words."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from made_up_runs import CLIENT_UNIT, write_run, write_sweep

from dpforest.errors import DPForestError
from fl_app.report.answer import Answer, across, answer, in_words
from fl_app.report.figures.comparison import client_boxes
from fl_app.report.gather import gather
from fl_app.report.page import write_report
from fl_app.results.finished import OPEN, PRIVATE, UNPROVEN
from fl_app.results.rows import read_runs


def test_the_sentence_agrees_with_a_calculation_by_hand(tmp_path: Path) -> None:
    for seed, (ours, theirs) in enumerate([(0.799, 0.55), (0.82, 0.54), (0.841, 0.56)]):
        # Three clients around each mean: 0.02 below, at, and above it.
        for name, mean in (("one_shot", ours), ("dp_sgd", theirs)):
            write_run(tmp_path / f"{name}{seed}", name, 1.0, seed, [mean - 0.02, mean, mean + 0.02])
    write_run(tmp_path / "open", "centralized", math.inf, 0, [0.9], noised=False)
    (section,) = gather([tmp_path]).sections
    found = answer(section)
    # Means: (0.799 + 0.82 + 0.841) / 3 = 0.82; (0.55 + 0.54 + 0.56) / 3 = 0.55; gaps 0.249, 0.28, 0.281: 0.27.
    # Standard deviations 0.021, 0.01 and 0.0182; times t(2) / sqrt(3) = 4.3027 / 1.7321: 0.0522, 0.0248 and 0.0452.
    assert found.words() == [
        "Per record: at epsilon 1, one_shot is best.",
        "At epsilon 1 per record, one_shot is best: accuracy 0.820 [0.799 to 0.841] (3 seeds; pure); "
        "it is ahead of dp_sgd (0.550 [0.540 to 0.560]; delta 1e-06) by 0.270 [0.225 to 0.315].",
        "Without privacy, all rows in one place, centralized reaches accuracy 0.900 (1 seed).",
    ]


def test_what_may_be_chance_is_called_no_difference(tmp_path: Path) -> None:
    for seed, (ours, theirs) in enumerate([(0.80, 0.79), (0.80, 0.82), (0.80, 0.78)]):
        write_run(tmp_path / f"a{seed}", "one_shot", 1.0, seed, [ours] * 3)
        write_run(tmp_path / f"b{seed}", "boost", 1.0, seed, [theirs] * 3)
    found = answer(gather([tmp_path]).sections[0])
    assert found.words()[1].startswith("At epsilon 1 per record, one_shot has the highest mean accuracy: 0.800 [0.800 ")
    # Gaps 0.01, -0.02, 0.02: mean 0.0033, standard deviation 0.0208; 4.3027 * 0.0208 / sqrt(3) = 0.0517.
    assert "no difference from boost (0.797 [0.780 to 0.820]) is shown: 0.003 [-0.048 to 0.055]" in found.words()[1]
    assert found.headline() == (
        "Per record: at epsilon 1, one_shot has the highest mean, but no difference from boost is shown."
    )


def test_a_mean_over_easier_runs_is_not_called_ahead(tmp_path: Path) -> None:
    """In each run that both have the second is ahead; the first has three more, with draws for which all is easy."""
    for seed in range(3):
        write_run(tmp_path / f"a{seed}", "one_shot", 1.0, seed, [0.5] * 3)
        write_run(tmp_path / f"b{seed}", "boost", 1.0, seed, [0.6] * 3)
        write_run(tmp_path / f"easy{seed}", "one_shot", 1.0, 3 + seed, [0.9] * 3)
    found = answer(gather([tmp_path]).sections[0])
    assert found.verdicts[0].best.setting == "one_shot"
    assert [other.setting for other in found.verdicts[0].ties] == ["boost"]
    assert "one_shot has the highest mean accuracy: 0.700" in found.words()[1]
    assert "in the runs that both have, boost (0.600 [0.600 to 0.600]) is ahead, by 0.100 (n = 3)" in found.words()[1]


def test_the_range_of_three_seeds_is_not_their_interval(tmp_path: Path) -> None:
    """The gaps 0.032, 0.028 and 0.065 have one sign, which three gaps around 0 have in 1 of 4 cases."""
    for seed, gap in enumerate((0.032, 0.028, 0.065)):
        write_run(tmp_path / f"a{seed}", "boost", 1.0, seed, [0.8 + gap] * 3)
        write_run(tmp_path / f"b{seed}", "one_shot", 1.0, seed, [0.8] * 3)
    # Mean 0.0417, standard deviation 0.0203: 4.3027 * 0.0203 / sqrt(3) = 0.0504, more than the mean.
    (verdict,) = answer(gather([tmp_path]).sections[0]).verdicts
    assert "no difference from one_shot (0.800 [0.800 to 0.800]) is shown: 0.042 [-0.00" in verdict.words()
    (gap,) = verdict.gaps
    assert gap.seeds is not None
    assert gap.seeds.half == pytest.approx(0.0504, rel=0.02)


def test_folds_are_no_seeds(tmp_path: Path) -> None:
    for seed in range(2):
        for fold, reached in enumerate((0.5, 0.7, 0.9)):
            for name, ahead in (("one_shot", 0.1 + 0.01 * seed), ("boost", 0.0)):
                write_run(tmp_path / f"{name}{seed}{fold}", name, 1.0, seed, [reached + ahead - 0.2] * 3,
                          evaluation={"fold": fold})  # fmt: skip
    headline, words = answer(gather([tmp_path]).sections[0]).words()
    # Means over folds: 0.6 and 0.61, so s = 0.01 / sqrt(2), and 12.7062 * s / sqrt(2) = 0.0635.
    assert "one_shot has the highest mean accuracy: 0.605 [0.600 to 0.610]" in words
    assert "(2 seeds of 3 folds; pure)" in words
    assert "2 seeds are too few to call that a difference" in words
    assert "too few seeds to tell it from boost" in headline


def test_what_an_epsilon_comes_with_is_said_where_methods_differ(tmp_path: Path) -> None:
    everybody, sums = "server and other clients not trusted", "for sums by secure aggregation"
    for seed in range(3):
        write_run(tmp_path / f"a{seed}", "boost", 1.0, seed, [0.90] * 3, trust=f"{sums}: the server is honest")
        write_run(tmp_path / f"b{seed}", "dp_sgd", 1.0, seed, [0.80] * 3, trust=f"{sums}: the server is honest")
        write_run(tmp_path / f"c{seed}", "one_shot", 1.0, seed, [0.75] * 3, trust=everybody)
        write_run(tmp_path / f"d{seed}", "fext", 1.0, seed, [0.70] * 3, trust=everybody)
    headline, words = answer(gather([tmp_path]).sections[0]).words()
    assert headline == f"Per record: at epsilon 1, boost ({sums}) is best."
    assert f"accuracy 0.900 [0.900 to 0.900] (3 seeds; pure; {sums}); it is ahead of" in words
    assert f"dp_sgd (0.800 [0.800 to 0.800]; delta 1e-06; {sums}) by 0.100" in words
    assert words.endswith(
        f"With another trust model ({everybody}), one_shot has the highest mean: 0.750 [0.750 to 0.750]."
    )


def test_ties_behind_a_second_that_is_beaten_are_named(tmp_path: Path) -> None:
    for seed, gap in enumerate((0.0, 0.05, 0.4)):
        write_run(tmp_path / f"a{seed}", "one_shot", 1.0, seed, [0.9] * 3)
        write_run(tmp_path / f"b{seed}", "boost", 1.0, seed, [0.8] * 3)
        write_run(tmp_path / f"c{seed}", "fext", 1.0, seed, [0.9 - gap] * 3)
    headline, words = answer(gather([tmp_path]).sections[0]).words()
    assert "no difference from fext is shown" in headline
    assert "it is ahead of boost (0.800 [0.800 to 0.800]) by 0.100 [0.100 to 0.100]." in words
    assert "No difference from fext (0.750 [" in words
    assert words.endswith(" is shown.")


@pytest.mark.parametrize(("kind", "clients"), [("subject", 2), ("dirichlet", 6)])
def test_clients_of_another_partition_are_others(tmp_path: Path, kind: str, clients: int) -> None:
    for seed in range(3):
        for name, reached in (("one_shot", 0.8), ("boost", 0.7)):
            own = [reached, reached - 0.2] if seed else [reached - 0.2, reached]
            write_run(tmp_path / f"{name}{seed}", name, 1.0, seed, own, partition={"kind": kind, "seed": seed})
    (section,) = gather([tmp_path]).sections
    (verdict,) = answer(section).verdicts
    (gap,) = verdict.gaps
    assert gap.clients is not None
    assert gap.clients.n == clients
    ((_, figure),) = client_boxes(section)
    ends = sorted(float(y) for line in figure.axes[0].lines for y in line.get_ydata())
    # Three splits of two clients each; or two subjects, each as a mean over seeds.
    assert ends[0] == pytest.approx(0.5 if kind == "dirichlet" else (0.5 + 0.5 + 0.7) / 3)


def test_guarantees_with_another_delta_are_never_averaged(tmp_path: Path) -> None:
    for seed in range(3):
        for delta, reached in ((1e-4, 0.8), (1e-6, 0.6)):
            write_run(tmp_path / f"{seed}-{delta}", "dp_sgd", 1.0, seed, [reached] * 3, delta=delta)
        write_run(tmp_path / f"{seed}-inf", "dp_sgd", math.inf, seed, [0.9] * 3, noised=False)
    (section,) = gather([tmp_path]).sections
    assert sorted(section.frame["setting"].unique()) == ["dp_sgd", "dp_sgd delta=0.0001", "dp_sgd delta=1e-06"]
    (verdict,) = answer(section).verdicts
    assert [(each.setting, each.score.mean) for each in verdict.ranking] == [
        ("dp_sgd delta=0.0001", pytest.approx(0.8)),
        ("dp_sgd delta=1e-06", pytest.approx(0.6)),
    ]


def test_one_seed_is_too_few(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "one_shot", accuracy=[0.9, 0.9])
    write_run(tmp_path / "b", "boost", accuracy=[0.1, 0.1])
    headline, words = answer(gather([tmp_path]).sections[0]).words()
    assert (
        headline
        == "Per record: at epsilon 1, one_shot has the highest mean, but of too few seeds to tell it from boost."
    )
    assert "1 seed is too few to call that a difference" in words


def test_what_guarantees_nothing_is_never_the_answer(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "one_shot", accuracy=[0.5, 0.5])
    write_run(tmp_path / "b", "fext_published", accuracy=[0.9, 0.9], unprotected="leaf values")
    write_run(tmp_path / "c", "fedavg", accuracy=[0.95, 0.95], noised=False)
    (section,) = gather([tmp_path]).sections
    assert sorted(section.frame["state"]) == sorted([PRIVATE, UNPROVEN, OPEN])
    found = answer(section)
    assert found.verdicts[0].best.setting == "one_shot"
    assert "fext_published shows 0.900, but without a valid guarantee" in found.words()[1]
    assert found.reference is not None
    assert found.reference.setting == "fedavg"


def test_epsilons_without_a_guarantee_are_never_averaged_as_no_privacy(tmp_path: Path) -> None:
    # A published method may name all that it sends as unprotected, though its noise depends on epsilon.
    for epsilon, reached in ((0.01, 0.6), (10.0, 0.5)):
        write_run(
            tmp_path / str(epsilon), "fext", epsilon, 0, [reached] * 2, unprotected="thresholds", noise_in_ledger=False
        )
    (section,) = gather([tmp_path]).sections
    assert set(section.frame["state"]) == {UNPROVEN}
    assert list(section.by_epsilon) == ["0.01", "10"]
    assert answer(section).words() == ["No method with a valid guarantee was run here."]


def test_units_have_answers_of_their_own(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "one_shot", accuracy=[0.5, 0.5])
    write_run(tmp_path / "b", "dp_fedavg", accuracy=[0.9, 0.9], unit=CLIENT_UNIT)
    verdicts = answer(gather([tmp_path]).sections[0]).verdicts
    assert {(v.panel, v.best.setting) for v in verdicts} == {
        ("record", "one_shot"),
        ("client's whole data", "dp_fedavg"),
    }


def test_leaders_are_named_by_ranges_of_epsilon(tmp_path: Path) -> None:
    write_sweep(tmp_path, ("one_shot", "boost"), (0.1, 1.0, 10.0))
    assert answer(gather([tmp_path]).sections[0]).headline() == "Per record: at epsilon 0.1 to 10, one_shot is best."


def test_data_sets_targets_and_evaluations_are_never_mixed(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    write_run(tmp_path / "b", dataset={"name": "hugadb"})
    write_run(tmp_path / "c", classes=("sick", "well"))
    write_run(tmp_path / "d", target=True)
    write_run(tmp_path / "e", evaluation={"split": "subject"})
    write_run(tmp_path / "f", evaluation={"part": "validation"})
    write_run(tmp_path / "g", dataset={"name": "table", "path": "/one.csv"})
    write_run(tmp_path / "h", dataset={"name": "table", "path": "/two.csv"})
    # Another place of the same public data set, another fold and another seed are the same question.
    write_run(tmp_path / "i", dataset={"path": "/elsewhere"}, seed=1)
    write_run(tmp_path / "j", evaluation={"fold": 1})
    sections = gather([tmp_path]).sections
    assert len(sections) == 8
    assert sorted(len(section.runs) for section in sections) == [1] * 7 + [3]
    assert len({section.slug for section in sections}) == 8
    titles = " | ".join(section.title for section in sections)
    for words in (
        "hugadb, row split",
        "path = /one.csv",
        "path = /two.csv",
        "target = sick, well",
        "part = validation",
    ):
        assert words in titles


def test_class_names_are_in_a_title_only_where_nothing_else_tells_sections_apart(tmp_path: Path) -> None:
    many = [f"activity_{number}" for number in range(12)]
    write_run(tmp_path / "one" / "a", dataset={"classes": 12}, classes=many)
    write_run(tmp_path / "one" / "b", dataset={"classes": 3})
    assert [section.title for section in gather([tmp_path / "one"]).sections] == [
        "watch, row split, classes = 3",
        "watch, row split, classes = 12",
    ]
    write_run(tmp_path / "two" / "a")
    write_run(tmp_path / "two" / "b", classes=("on", "off"))
    titles = [section.title for section in gather([tmp_path / "two"]).sections]
    assert titles == ["watch, row split, target = on, off", "watch, row split, target = rest, walk, run"]


def test_folds_and_draws_of_rows_are_pooled_and_compared_pair_by_pair(tmp_path: Path) -> None:
    for seed in range(3):
        for name, reached in (("one_shot", 0.8), ("boost", 0.7)):
            write_run(tmp_path / f"{name}{seed}", name, 1.0, seed, [reached + 0.01 * seed] * 3,
                      evaluation={"seed": seed, "fold": seed}, partition={"seed": seed})  # fmt: skip
    (section,) = gather([tmp_path]).sections
    (verdict,) = answer(section).verdicts
    (gap,) = verdict.gaps
    assert gap.seeds is not None
    assert (gap.seeds.n, gap.is_one) == (3, True)
    assert [gap.seeds.low, gap.seeds.high] == pytest.approx([0.1, 0.1]), "each gap is of one draw"


def test_bad_clients_are_a_section_of_their_own_and_no_setting_of_the_method(tmp_path: Path) -> None:
    for number, (k, share) in enumerate((k, share) for k in ("auto", None) for share in (0, 0.1, 0.5)):
        write_run(tmp_path / str(number), "fext", k=k, attack="label_flip", attack_share=share)
    write_run(tmp_path / "other", "one_shot")
    gathered = gather([tmp_path])
    assert [(section.title, sorted(section.frame["setting"])) for section in gathered.sections] == [
        ("watch, row split, attack share = 0, attack = none", ["fext k=None", "fext k=auto", "one_shot"]),
        ("watch, row split, attack share = 0.1, attack = label_flip", ["fext k=None", "fext k=auto"]),
        ("watch, row split, attack share = 0.5, attack = label_flip", ["fext k=None", "fext k=auto"]),
    ]
    (family,) = gathered.families
    assert (family.title, len(family.runs)) == ("watch, row split", 7)


def test_only_sections_that_differ_in_their_clients_are_a_family(tmp_path: Path) -> None:
    for clients in (10, 5):
        for classes in (3, 12):
            write_run(tmp_path / f"{clients}-{classes}", "fext", partition={"clients": clients},
                      dataset={"classes": classes})  # fmt: skip
    write_run(tmp_path / "other", "fext", dataset={"name": "hapt"})
    gathered = gather([tmp_path])
    assert [section.title for section in gathered.sections] == ["hapt, row split"] + [
        f"watch, row split, classes = {classes}, clients = {clients}" for classes in (3, 12) for clients in (5, 10)
    ]
    assert [(family.title, len(family.runs)) for family in gathered.families] == [
        ("watch, row split, classes = 3", 2),
        ("watch, row split, classes = 12", 2),
    ]


def test_a_method_with_public_rows_stands_among_the_others_and_that_is_said(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "fext", evaluation={"public_share": 0.25})
    write_run(tmp_path / "b", "one_shot", evaluation={"public_share": 0})
    (section,) = gather([tmp_path]).sections
    assert section.note == ("fext is evaluated on a random 75% of the test rows: the others are public to its server.")
    write_run(tmp_path / "b2" / "c", "fext", evaluation={"public_share": 0.25})
    assert not gather([tmp_path / "b2"]).sections[0].note


def test_a_run_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    write_run(tmp_path / "b")
    write_run(tmp_path / "c", seed=1)
    gathered = gather([tmp_path, tmp_path / "a"])
    assert (len(gathered.runs), gathered.duplicates, gathered.repeats) == (2, 1, 0)


def test_the_same_configuration_with_other_numbers_is_no_copy(tmp_path: Path) -> None:
    """Other code ran it, or noise that no seed gives: both are there, and their seed counts once."""
    write_run(tmp_path / "a", accuracy=[0.8] * 3)
    write_run(tmp_path / "b", accuracy=[0.7] * 3)
    gathered = gather([tmp_path])
    assert (len(gathered.runs), gathered.duplicates, gathered.repeats) == (2, 0, 1)
    (verdict,) = answer(gathered.sections[0]).verdicts
    assert (verdict.best.score.n, verdict.best.score.mean) == (1, 0.75)


def test_a_metric_that_only_some_have_spoils_nothing(tmp_path: Path) -> None:
    import json

    write_run(tmp_path / "a", "one_shot")
    without = write_run(tmp_path / "b", "boost")
    metrics = json.loads((without / "metrics.json").read_text())
    for name in ("accuracy", "balanced_accuracy", "confusion", "worst_client"):
        del metrics[name]
    (without / "metrics.json").write_text(json.dumps(metrics))
    sections = gather([tmp_path]).sections
    found = [answer(section) for section in sections if section.metric.name == "accuracy"]
    assert [contender.setting for contender in found[0].verdicts[0].ranking] == ["one_shot"]
    assert "has test metrics" in answer(gather([without]).sections[0]).headline()


def test_folders_without_runs_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(DPForestError, match=r"no run in .*give folders that a run or a sweep wrote"):
        gather([tmp_path])
    with pytest.raises(DPForestError, match=r"no folder .*nowhere"):
        gather([tmp_path / "nowhere"])


def test_cut_failed_and_unfinished_runs_are_listed_with_their_reason(tmp_path: Path) -> None:
    write_run(tmp_path / "good")
    write_run(tmp_path / ".partial-7-123")
    failed = write_run(tmp_path / "failed", seed=1)
    (failed / "FAILED.txt").write_text("TooFewClients: round 1: 0 of 4\nclients\n")
    cut = write_run(tmp_path / "cut", seed=2)
    (cut / "privacy.json").write_text('{"guarantee": "eps')
    headless = write_run(tmp_path / "headless", seed=3)
    (headless / "metrics.json").unlink()
    tables = write_run(tmp_path / "tables", seed=4)
    (tables / "clients.csv").write_text("")
    gathered = gather([tmp_path])
    assert [run.folder.name for run in gathered.runs] == ["good"]
    assert {(each.folder.name, each.what) for each in gathered.left_out} == {
        (".partial-7-123", "not finished"),
        ("failed", "failed"),
        ("cut", "damaged"),
        ("headless", "damaged"),
        ("tables", "damaged"),
    }
    reasons = {each.folder.name: each.reason for each in gathered.left_out}
    assert reasons["failed"] == "TooFewClients: round 1: 0 of 4 clients"
    assert "privacy.json" in reasons["cut"] or "damaged" in reasons["cut"]


def fail(run: Path, reason: str) -> None:
    (run / "metrics.json").unlink()
    (run / "FAILED.txt").write_text(f"DPForestError: {reason}\n")


def test_what_was_tried_in_vain_is_named_in_the_answer(tmp_path: Path) -> None:
    for epsilon in (0.1, 1.0):
        write_run(tmp_path / f"one{epsilon}", "one_shot", epsilon)
        for noise in ("local", "distributed"):
            for seed in (0, 1):
                write_run(tmp_path / f"{noise}{epsilon}-{seed}", "boost", epsilon, seed, noise=noise)
    for seed in (0, 1):
        fail(tmp_path / f"local0.1-{seed}", "leaves no tree above the noise")
    fail(tmp_path / "distributed0.1-1", "too few clients")
    fail(write_run(tmp_path / "elsewhere", "fext", 0.1, dataset={"name": "hapt"}), "no rows")
    (write_run(tmp_path / "damaged", "fext", 0.1, seed=5) / "config.yaml").write_text("strategy: {name: fext}")
    fail(tmp_path / "damaged", "killed")
    (section,) = gather([tmp_path]).sections
    assert answer(section).words()[-1] == (
        "Not compared, as every run of it failed or was refused: boost noise=local at epsilon 0.1."
    )


def absent(folder: Path) -> list[tuple[str, float]]:
    (section,) = gather([folder]).sections
    return section.absent


def test_a_setting_without_any_run_is_kept_apart_from_the_methods_others(tmp_path: Path) -> None:
    """Else the answer said that boost at epsilon 0.1 is not compared, above a line that compares it."""
    write_run(tmp_path / "sums", "boost", 0.1, noise="distributed", depth=3)
    fail(write_run(tmp_path / "own", "boost", 0.1, noise="local", depth=3), "leaves no tree above the noise")
    fail(write_run(tmp_path / "other", "fext", 0.1, k=3), "no rows")
    assert absent(tmp_path) == [("boost noise=local", 0.1), ("fext", 0.1)]


def test_what_was_compared_after_all_is_not_called_absent(tmp_path: Path) -> None:
    write_run(tmp_path / "newer", "boost", 0.1, depth=3, added_since=True)
    fail(write_run(tmp_path / "older", "boost", 0.1, depth=3), "too few clients")
    # Epsilon means nothing to it: under any it is the same run.
    write_run(tmp_path / "open", "centralized", 0.1, noised=False)
    fail(write_run(tmp_path / "again", "centralized", 1.0, noised=False), "killed")
    assert absent(tmp_path) == []


def test_another_number_of_rounds_is_another_setting(tmp_path: Path) -> None:
    for name, rounds in (("few", 2), ("many", 9)):
        config = write_run(tmp_path / name, "boost", 0.1) / "config.yaml"
        config.write_text(config.read_text().replace("rounds: null", f"rounds: {rounds}"))
    fail(tmp_path / "many", "leaves no tree above the noise")
    assert absent(tmp_path) == [("boost rounds=9", 0.1)]


@pytest.mark.parametrize("line", ["privacy: {}", "privacy: {epsilon: much}", "strategy: boost", "partition: [iid]"])
def test_a_run_with_a_damaged_configuration_costs_no_other_run_its_place(tmp_path: Path, line: str) -> None:
    write_run(tmp_path / "good", "boost", 1.0)
    config = write_run(tmp_path / "bad", "boost", 0.5) / "config.yaml"
    config.write_text(f"{config.read_text()}{line}\n")  # the last of equal keys counts
    fail(write_run(tmp_path / "failed", "boost", 0.1), "no rows")
    found = gather([tmp_path])
    assert [(each.folder.name, each.what) for each in found.left_out if each.folder.name != "failed"] == [
        ("bad", "damaged")
    ]
    assert found.sections[0].absent == [("boost", 0.1)]
    assert "good" in [run.folder.name for run in read_runs([tmp_path])]


def test_a_file_cut_anywhere_is_damaged(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", rounds=2)
    for name in ("clients.csv", "rounds.csv", "metrics.json", "privacy.json", "config.yaml"):
        whole = (run / name).read_bytes()
        # What was asked for stands at the end of config.yaml; nothing is made of it.
        needed = whole.index(b"overrides") if name == "config.yaml" else len(whole)
        for end in range(0, needed, 1 if name.endswith(".csv") else 7):
            (run / name).write_bytes(whole[:end])
            gathered = gather([tmp_path])
            assert (gathered.sections, [each.what for each in gathered.left_out]) == ([], ["damaged"]), (name, end)
        (run / name).write_bytes(whole)
    assert len(gather([tmp_path]).runs) == 1


def test_linked_folders_count_and_a_link_in_a_circle_ends(tmp_path: Path) -> None:
    write_run(tmp_path / "elsewhere" / "a")
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "run").symlink_to(tmp_path / "elsewhere" / "a")
    (tmp_path / "elsewhere" / "circle").symlink_to(tmp_path)
    assert [run.folder.name for run in gather([tmp_path / "sweep"]).runs] == ["run"]
    gathered = gather([tmp_path, tmp_path / "sweep"])
    assert (len(gathered.runs), gathered.duplicates) == (1, 0)


def test_a_run_without_a_score_is_named(tmp_path: Path) -> None:
    import json

    for seed in range(3):
        run = write_run(tmp_path / str(seed), seed=seed, target=True)
    metrics = json.loads((run / "metrics.json").read_text())
    (run / "metrics.json").write_text(json.dumps(metrics | {"r2": math.nan}))  # all test rows have the same target
    (section,) = gather([tmp_path]).sections
    assert section.note == "one_shot at epsilon 1, seed 2, has no R^2 and is not in the means."
    assert "(2 seeds;" in answer(section).words()[1]
    (alone,) = gather([run]).sections
    assert answer(alone).headline() == "No run here has test metrics, so there is nothing to compare."


def test_a_score_far_off_is_short(tmp_path: Path) -> None:
    for seed in range(2):
        write_run(tmp_path / f"a{seed}", "one_shot", seed=seed, target=True)
        write_run(tmp_path / f"b{seed}", "fext", seed=seed, accuracy=[-1e80], target=True)
    assert "fext (-1e+80 [-1e+80 to -1e+80]) follows by 1e+80" in answer(gather([tmp_path]).sections[0]).words()[1]


def test_one_run_is_called_one_run(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "boost", 1.0, accuracy=[0.8] * 3)
    headline = answer(gather([tmp_path]).sections[0]).headline()
    assert headline.startswith(
        "One run, so nothing is compared: boost reaches accuracy 0.800 at epsilon 1, per record."
    )
    write_run(tmp_path / "open" / "a", "fedavg", noised=False, accuracy=[0.8] * 3)
    headline = answer(gather([tmp_path / "open"]).sections[0]).headline()
    assert headline.startswith("One run, so nothing is compared: fedavg reaches accuracy 0.800, without privacy.")


def test_runs_of_different_data_are_said_to_be_compared_nowhere(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "boost")
    assert across(answers(tmp_path)) == ""
    write_run(tmp_path / "b", "boost", dataset={"name": "hapt"})
    what = "data set, target, clients or held-out rows"
    assert across(answers(tmp_path)) == f"No two of these 2 runs have the same {what}: nothing is compared."
    write_run(tmp_path / "c", "boost", seed=1)
    said = f"These runs differ in {what}: 2 answers, and nothing is compared across them."
    assert in_words(answers(tmp_path)).startswith(f"{said}\n\nhapt, row split:\nOne run")
    assert said in write_report([tmp_path]).read_text(encoding="utf-8")


def test_runs_that_all_failed_have_one_line(tmp_path: Path) -> None:
    fail(write_run(tmp_path / "a", "boost"), "no rows")
    assert in_words(answers(tmp_path)) == "No run came to its end, so there is no answer yet."


def answers(folder: Path) -> list[Answer]:
    return [answer(section) for section in gather([folder]).sections]
