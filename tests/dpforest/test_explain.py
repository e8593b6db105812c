"""Rules, paths, pictures and stability of importances, on a tree small enough to read."""

import math
import xml.etree.ElementTree
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from dpforest.errors import DPForestError, InvalidForest
from dpforest.explain import (
    compare_importances,
    draw_tree,
    explain_prediction,
    mean_stability,
    to_dot,
    tree_rules,
)
from dpforest.forest import Forest
from dpforest.forest.codec import fill_inner_nodes
from dpforest.schema import Feature, Schema

SCHEMA = Schema(
    (Feature("hour", 0, 24), Feature("RH_1", 0, 100, "%"), Feature("day=sun", 0, 1)),
    target="use",
    target_range=(0.0, 1080.0),
    target_unit="Wh",
    categories={"day": ("sun",)},
)


def tree(schema=SCHEMA, output="target", value=None):
    """hour <= 7 ? (RH_1 <= 41 ? 68 : 90.5) : (day=sun <= 0.5 ? (hour <= 20 ? 120 : 60) : 200)."""
    value = [[0], [0], [0], [68], [90.5], [0], [200], [120], [60]] if value is None else value
    forest = Forest(
        schema=schema,
        output=output,
        offsets=np.array([0, 9]),
        feature=np.array([0, 1, 2, -1, -1, 0, -1, -1, -1], dtype=np.int32),
        threshold=np.array([7, 41, 0.5, 0, 0, 20, 0, 0, 0.0]),
        left=np.array([1, 3, 5, -1, -1, 7, -1, -1, -1], dtype=np.int32),
        value=np.array(value, dtype=float),
        weight=np.array([0, 0, 0, 120.4, 30, 0, 1, 300, 50.0]),
        base=np.zeros(schema.n_outputs),
        owners=("3",),
    )
    fill_inner_nodes(forest)
    return forest


def test_rules_read_as_sentences_with_units_those_of_most_records_first():
    assert [str(rule) for rule in tree_rules(tree())] == [
        "if 7 < hour <= 20 and day is not sun then 120 Wh, about 300 records",
        "if hour <= 7 and RH_1 <= 41 % then 68 Wh, about 120 records",
        "if hour > 20 and day is not sun then 60 Wh, about 50 records",
        "if hour <= 7 and RH_1 > 41 % then 90.5 Wh, about 30 records",
        "if hour > 7 and day is sun then 200 Wh, about 1 record",
    ]
    assert len(tree_rules(tree(), limit=2)) == 2


def test_a_number_with_an_equals_sign_in_its_name_is_no_category():
    plain = replace(SCHEMA, categories={})
    rules = [str(rule) for rule in tree_rules(tree(plain))]
    assert "if 7 < hour <= 20 and day=sun <= 0.5 then 120 Wh, about 300 records" in rules
    steps = explain_prediction(tree(plain), np.array([9.0, 50.0, 1.0]))[0].steps
    assert [step.text for step in steps] == ["hour is 9: hour > 7", "day=sun is 1: day=sun > 0.5"]


def test_a_category_of_a_column_with_an_equals_sign_in_its_name_is_said_as_it_is():
    features = (*SCHEMA.features[:2], Feature("a=b=c", 0, 1))
    rules = [str(rule) for rule in tree_rules(tree(replace(SCHEMA, features=features, categories={"a=b": ("c",)})))]
    assert "if hour > 7 and a=b is c then 200 Wh, about 1 record" in rules


NAMES = [r"$\bad{$", "$", "a$b$c", "\\", "%s {0} {x}", "<b>&amp;-->", '"', "\x1b[2J", "a\nb", "\u202e"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_text_in_rules_paths_and_pictures(name, tmp_path):
    features = (Feature(name, 0, 24, name), *SCHEMA.features[1:])
    forest = tree(replace(SCHEMA, features=features, target_unit=name))
    draw_tree(forest).savefig(tmp_path / "tree.svg")
    draw_tree(forest).savefig(tmp_path / "tree.png")
    xml.etree.ElementTree.parse(tmp_path / "tree.svg")
    for text in (str(tree_rules(forest)[0]), str(explain_prediction(forest, np.zeros(3))[0]), forest_text(forest)):
        assert text.isprintable()
        assert "\x1b" not in text
    of_classes = Schema(features, "y", classes=(name, "other"), categories=SCHEMA.categories)
    voting = tree(of_classes, "probability", np.tile([0.75, 0.25], (9, 1)))
    draw_tree(voting).savefig(tmp_path / "tree.svg")
    assert str(tree_rules(voting)[0]).isprintable()


def forest_text(forest):
    return to_dot(forest).replace("\n", " ")


def test_every_row_obeys_exactly_one_rule_which_says_what_the_tree_predicts():
    rng = np.random.default_rng(0)
    X = rng.uniform((0, 0, 0), (24, 100, 1), size=(200, 3))
    forest = tree()
    hits = np.zeros(200, dtype=int)
    for rule in tree_rules(forest):
        inside = np.all([(X[:, f] > low) & (X[:, f] <= high) for f, low, high in rule.bounds], axis=0)
        hits += inside
        np.testing.assert_array_equal(forest.predict(X[inside]), rule.value[0])
    assert (hits == 1).all()


def test_a_tree_without_questions():
    leaf = tree().tree(0)
    alone = Forest(
        SCHEMA, "target", np.array([0, 1]), leaf.feature[3:4], leaf.threshold[3:4], leaf.left[3:4],
        np.array([[70.0]]), np.array([9.0]), np.zeros(1), ("",),
    )  # fmt: skip
    assert str(tree_rules(alone)[0]) == "always 70 Wh, about 9 records"


def test_a_prediction_shows_the_path_that_led_to_it():
    (path,) = explain_prediction(tree(), np.array([6.5, 50, 0.0]))
    assert path.owner == "3"
    assert path.text == "hour is 6.5: hour <= 7; RH_1 is 50 %: RH_1 > 41 %; so 90.5 Wh, about 30 records"
    assert [step.goes_left for step in path.steps] == [True, False]
    assert path.value == tree().predict(np.array([[6.5, 50, 0.0]]))


def test_classes_are_named_with_their_share():
    schema = Schema(SCHEMA.features, classes=("rest", "work"))
    shares = [[0, 0]] * 3 + [[0.25, 0.75], [0.9, 0.1], [0, 0], [0.5, 0.5], [1, 0], [0, 1]]
    rules = tree_rules(tree(schema, "probability", shares))
    assert str(rules[1]) == "if hour <= 7 and RH_1 <= 41 % then work (75 %), about 120 records"


@pytest.mark.parametrize("output", ["target_sum", "logit", "counts"])
def test_parts_of_a_sum_are_not_read_alone(output):
    schema = SCHEMA if output == "target_sum" else Schema(SCHEMA.features, classes=("u", "v"))
    value = None if output == "target_sum" else [[1, 0]] * 9
    with pytest.raises(InvalidForest, match="only averaging trees"):
        tree_rules(tree(schema, output, value))


def test_a_path_says_what_a_part_of_a_sum_adds():
    row = np.array([6.0, 50.0, 0.0])  # hour <= 7, RH_1 > 41
    (path,) = explain_prediction(tree(output="target_sum"), row)
    assert str(path).endswith("RH_1 > 41 %; so add 90.5 Wh, about 30 records")
    classes = Schema(SCHEMA.features, classes=("u", "v"))
    (path,) = explain_prediction(tree(classes, "logit", [[0.5, -1.25]] * 9), row)
    assert str(path).endswith("so add -1.25 to the logit of v, about 30 records")
    with pytest.raises(InvalidForest, match="only averaging trees"):
        explain_prediction(tree(classes, "counts", [[1, 0]] * 9), row)


def test_graphviz_text_has_every_node_and_both_answers():
    text = to_dot(tree())
    assert text.count("->") == 8
    assert '0 [label="hour <= 7?' in text
    assert '1 -> 3 [label="yes"];' in text
    assert '1 -> 4 [label="no"];' in text
    assert to_dot(tree(), depth=1).count("->") == 2


def test_a_picture_shows_the_questions(tmp_path):
    figure = draw_tree(tree(), depth=None)
    words = [text.get_text() for text in figure.axes[0].texts]
    assert sum("?" in word for word in words) == 4
    assert any(word.startswith("90.5 Wh") for word in words)
    figure.savefig(tmp_path / "tree.svg")
    assert (tmp_path / "tree.svg").stat().st_size > 1000


def test_stability_by_hand():
    same = compare_importances([0.5, 0.3, 0.2, 0.0], [0.6, 0.2, 0.1, 0.1], top=2)
    assert same.overlap == 1.0
    # Ranks (4, 3, 2, 1) and (4, 3, 1.5, 1.5): covariance 1.125, standard deviations sqrt(1.25) and sqrt(1.125).
    assert same.spearman == pytest.approx(1.125 / math.sqrt(1.25 * 1.125))
    turned = compare_importances([3, 2, 1], [1, 2, 3], top=1)
    assert (turned.spearman, turned.overlap) == (pytest.approx(-1.0), 0.0)


def test_importances_without_any_order_have_no_rank_correlation():
    flat = compare_importances([0, 0, 0], [1, 2, 3], top=1)
    assert math.isnan(flat.spearman)
    assert mean_stability([[0, 0, 0], [1, 2, 3], [1, 2, 3]], top=1).spearman == pytest.approx(1.0)


def test_the_stability_of_many_is_the_mean_of_their_pairs():
    many = np.random.default_rng(2).random((5, 8)).round(1).tolist()  # with equal ones among them
    pairs = [compare_importances(a, b, top=3) for a, b in combinations(many, 2)]
    found = mean_stability(many, top=3)
    assert found.spearman == pytest.approx(np.mean([pair.spearman for pair in pairs]))
    assert found.overlap == pytest.approx(np.mean([pair.overlap for pair in pairs]))


@pytest.mark.parametrize(
    "call",
    [
        lambda: compare_importances([1, 2], [1, 2, 3]),
        lambda: compare_importances([1, 2], [1, 2], top=3),
        lambda: mean_stability([[1, 2]]),
    ],
)
def test_bad_input_to_stability_is_refused(call):
    with pytest.raises(DPForestError):
        call()


def test_a_question_about_one_category_says_what_the_row_has() -> None:
    features = [{"name": "hour", "low": 0, "high": 24}, {"name": "RH_1", "low": 0, "high": 100}]
    day = {"name": "day", "categories": ["sun", "mon", "tue"]}
    schema = Schema.from_dict({"features": [*features, day], "target": "use", "target_range": [0, 1080]})
    (path,) = explain_prediction(tree(schema), np.array([23, 50, 0, 1.0, 0]))
    assert path.steps[1].text == "day is mon: day is not sun"
    (path,) = explain_prediction(tree(schema), np.array([23, 50, 1.0, 0, 0]))
    assert path.steps[1].text == "day is sun: day is sun"
