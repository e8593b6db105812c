"""Growing trees together: what the kernels count, and that the trees are those of all members' rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy
from users import SCHEMA, rows

from dpforest.errors import DPForestError
from strategies.messages import BadMessage
from strategies.pp_fprf import TreeSettings, kernels
from strategies.pp_fprf.alone import grow_alone
from strategies.pp_fprf.growth import Group, Growth
from strategies.pp_fprf.member import Member


def member(X: np.ndarray, y: np.ndarray, tree_settings: TreeSettings) -> Member:
    return Member(X, y, np.zeros(len(y), dtype=np.int16), 1, SCHEMA, tree_settings)


def grow(
    members: dict[int, Member],
    groups: list[Group],
    tree_settings: TreeSettings,
    values_of_users: bool = True,
    silent: dict[int, int] | None = None,
) -> tuple[Growth, int]:
    """Grow without noise; ``silent`` names exchanges from which on a user does not answer. Also their number."""
    growth = Growth(groups, SCHEMA, tree_settings, 7, values_of_users)
    exchange = 0
    while growth.phase != "done":
        exchange += 1
        answers = {}
        for user in growth.members:
            if exchange >= (silent or {}).get(user, 10**6):
                continue
            message, one = growth.message(user), members[user]
            one.follow(message)
            if growth.phase == "propose":
                sizes, values = one.propose(7, np.random.default_rng(user))
                answers[user] = {"sizes": sizes, "values": values}
            elif growth.phase == "vote":
                answers[user] = {"votes": one.scores(7, message, published=values_of_users).argmax(axis=1)}
                if not values_of_users:
                    answers[user]["sizes"] = one.sizes()
            else:
                answers[user] = {"counts": one.close()}
            growth.check(user, answers[user])
        growth.receive(answers)
    return growth, exchange


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), min_size=6, max_size=6), st.data())
def test_information_gain_is_the_fall_of_the_entropy(counts: list[int], data: st.DataObject) -> None:
    """Against scipy's entropy."""
    total = np.array(counts)
    left = np.array([data.draw(st.integers(0, n)) for n in counts])
    gain = kernels.information_gain(total, left) if total.any() else 0
    n, n_left = total.sum(), left.sum()
    parts = [(left, n_left), (total - left, n - n_left)]
    after = sum(size / n * entropy(part, base=2) for part, size in parts if size)
    expected = entropy(total, base=2) - after if n else 0.0
    assert gain / kernels.GAIN_UNIT == pytest.approx(expected, abs=2 / kernels.GAIN_UNIT)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2000), min_size=4, max_size=4), st.lists(st.integers(0, 2000), min_size=4, max_size=4))
def test_one_row_more_raises_a_norm_score_by_at_most_one(left: list[int], right: list[int]) -> None:
    def score(left: np.ndarray, right: np.ndarray) -> int:
        return int(kernels.norm_score(left + right, left))

    before = score(np.array(left), np.array(right))
    more = np.array([1, 0, 0, 0])
    assert 0 <= score(np.array(left) + more, np.array(right)) - before <= 256
    assert 0 <= score(np.array(left), np.array(right) + more) - before <= 256


def test_candidate_features_differ_from_each_other_and_are_all_equally_likely() -> None:
    starts = np.array([0, 3000, 6000])
    drawn = kernels.draw_features(3, 2, np.array([4, 9]), starts, 7, 3)
    assert all(len(set(node)) == 3 for node in drawn.tolist())
    share = np.bincount(drawn.ravel(), minlength=7) / 6000
    np.testing.assert_allclose(share, 3 / 7, atol=0.03)
    # Who takes part in one of the trees only draws the same for it.
    alone = kernels.draw_features(3, 2, np.array([9]), np.array([0, 3000]), 7, 3)
    np.testing.assert_array_equal(alone, drawn[3000:])


@pytest.mark.parametrize("values_of_users", [True, False])
def test_leaves_hold_the_rows_of_all_members(values_of_users: bool) -> None:
    tree_settings = TreeSettings(trees=3, depth=4)
    users = {user: rows(40 + 10 * user, user) for user in range(4)}
    groups = [Group(0, (0, 1, 2)), Group(3, (2, 3))]
    members = {user: member(X, y, tree_settings) for user, (X, y) in users.items()}
    growth, exchanges = grow(members, groups, tree_settings, values_of_users)
    forest = growth.counts_forest()
    assert exchanges <= (2 if values_of_users else 1) * 4 + 1
    assert forest.n_trees == 6
    assert forest.owners == ("0", "3") * 3
    assert forest.depths.max() <= 4
    for tree in range(6):
        X, y = (np.concatenate(part) for part in zip(*(users[u] for u in groups[tree % 2].members), strict=True))
        leaves = forest.apply(X)[:, tree]
        counted = np.zeros((forest.n_nodes, 3))
        np.add.at(counted, (leaves, y), 1)
        mine = np.arange(forest.n_nodes)[forest.offsets[tree] : forest.offsets[tree + 1]]
        mine = mine[forest.is_leaf[mine]]
        np.testing.assert_array_equal(forest.value[mine], counted[mine])


def test_nodes_with_few_rows_are_not_split() -> None:
    tree_settings = TreeSettings(trees=5, depth=12, min_rows=20)
    X, y = rows(300)
    growth, _ = grow({0: member(X, y, tree_settings)}, [Group(0, (0,))], tree_settings)
    forest = growth.counts_forest()
    inner = ~forest.is_leaf
    assert (forest.value[inner].sum(axis=1) >= 20).all()
    assert (forest.value[forest.is_leaf].sum(axis=1)[forest.depths[forest.is_leaf] < 12] < 20).all()


@pytest.mark.parametrize("exchange", [2, 3, 4, 9])
def test_trees_go_on_without_a_member_that_falls_silent(exchange: int) -> None:
    """Exchange 2 and 4 are votes, 3 a proposal, 9 the counts of depth 4: it answered the phase before."""
    tree_settings = TreeSettings(trees=2, depth=4, min_rows=2)
    users = {user: rows(60, user) for user in range(3)}
    members = {user: member(X, y, tree_settings) for user, (X, y) in users.items()}
    growth, _ = grow(members, [Group(0, (0, 1, 2))], tree_settings, silent={1: exchange})
    assert growth.members == [0, 2]
    forest = growth.counts_forest()
    roots = forest.offsets[:-1]
    np.testing.assert_array_equal(forest.value[roots].sum(axis=1), 120)


def test_trees_whose_members_are_all_gone_end_as_they_are() -> None:
    tree_settings = TreeSettings(trees=1, depth=3)
    users = {user: rows(60, user) for user in range(3)}
    members = {user: member(X, y, tree_settings) for user, (X, y) in users.items()}
    growth, _ = grow(members, [Group(0, (0,)), Group(1, (1, 2))], tree_settings, silent={0: 3})
    forest = growth.counts_forest()
    assert forest.value[0].sum() == 0
    assert forest.value[forest.offsets[1]].sum() == 120


def test_a_member_refuses_a_message_that_skips_an_exchange() -> None:
    tree_settings = TreeSettings(trees=2, depth=4)
    one = member(*rows(50), tree_settings)
    growth = Growth([Group(0, (0,))], SCHEMA, tree_settings, 7, False)
    message = growth.message(0)
    one.follow(message)
    votes = one.scores(7, message, published=False).argmax(axis=1)
    growth.receive({0: {"votes": votes, "sizes": one.sizes()}})
    late = growth.message(0)
    with pytest.raises(BadMessage, match="an exchange was missed"):
        one.follow({name: array for name, array in late.items() if not name.startswith("split")})
    with pytest.raises(BadMessage, match="other trees than those"):
        one.follow({**late, "trees": late["trees"] + [[0], [1], [0]]})
    with pytest.raises(BadMessage, match="does not say which trees"):
        one.follow({**late, "trees": late["trees"][:2]})
    with pytest.raises(BadMessage, match="array 'trees' is missing or holds no whole numbers"):
        one.follow({**late, "trees": late["trees"][0]})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"votes": np.array([0, 2])}, "holds 2, expected 0 to 1"),
        ({"votes": np.array([0, -1])}, "holds -1, expected 0 to 1"),
        ({"votes": np.array([0])}, "expected shape"),
        ({"votes": np.array([0.0, 1.0])}, "expected shape"),
        ({"sizes": np.array([2**60, 1])}, f"holds {2**60}, expected"),
    ],
)
def test_answers_that_are_not_sound_are_refused(change: dict[str, np.ndarray], problem: str) -> None:
    growth = Growth([Group(0, (0,))], SCHEMA, TreeSettings(trees=2, features=2), 7, False)
    with pytest.raises(DPForestError, match=problem):
        growth.check(0, {"votes": np.array([0, 1]), "sizes": np.array([5, 5]), **change})


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 30), st.integers(0, 2**31))
def test_any_number_of_rows_makes_a_forest(n: int, seed: int) -> None:
    X, y = rows(n, seed)
    forest = grow_alone(X, y, SCHEMA, TreeSettings(trees=2, depth=5), seed, np.random.default_rng(seed))
    probability = forest.predict_proba(rows(20)[0])
    np.testing.assert_allclose(probability.sum(axis=1), 1)


def test_a_forest_of_one_user_learns_its_classes() -> None:
    X, y = rows(400)
    forest = grow_alone(X, y, SCHEMA, TreeSettings(trees=15, features=2), 1, np.random.default_rng(0))
    new_X, new_y = rows(400, 1)
    assert (forest.predict(new_X) == new_y).mean() > 0.93


def test_a_node_is_split_where_most_rows_find_it_best() -> None:
    """Against scipy's entropy, row by row: best candidate of each member, votes by rows, and the rows' way down."""
    tree_settings = TreeSettings(trees=1, depth=4, features=2)
    users = {0: rows(150, 0), 1: rows(90, 1), 2: rows(40, 2)}
    members = {user: member(X, y, tree_settings) for user, (X, y) in users.items()}
    growth = Growth([Group(0, (0, 1, 2))], SCHEMA, tree_settings, 7, True)
    nodes = [{user: np.arange(len(y)) for user, (_, y) in users.items()}]
    splits = 0

    def gain(y: np.ndarray, left: np.ndarray) -> float:
        parts = [y, y[left], y[~left]]
        whole, *children = (len(part) * entropy(np.bincount(part), base=2) if len(part) else 0.0 for part in parts)
        return (whole - sum(children)) / max(1, len(y))

    while growth.phase == "propose":
        proposals = {}
        for user, one in members.items():
            one.follow(growth.message(user))
            sizes, values = one.propose(7, np.random.default_rng(user))
            proposals[user] = {"sizes": sizes, "values": values}
        growth.receive(proposals)
        message = growth.message(0)
        level, node_starts = growth.level, np.array([0, len(nodes)])
        features = kernels.draw_features(7, level, np.array([0]), node_starts, 2, 2)
        expected, candidate_values = [], iter(message["values"])
        for node, asked, of_node in zip(nodes, message["active"], features, strict=True):
            assert asked == (sum(map(len, node.values())) >= tree_settings.min_rows)
            if not asked:
                expected.append((-1, 0.0))
                continue
            values, weight = next(candidate_values), np.zeros(2)
            for user, (X, y) in users.items():
                mine = node[user]
                gains = [gain(y[mine], X[mine, f] <= v) for f, v in zip(of_node, values, strict=True)]
                weight[int(np.argmax(np.round(gains, 4)))] += len(mine)
            expected.append((of_node[weight.argmax()], values[weight.argmax()]))
        growth.receive(
            {user: {"votes": one.scores(7, growth.message(user), published=True).argmax(axis=1)}
             for user, one in members.items()}
        )  # fmt: skip
        after = growth.message(0)
        np.testing.assert_array_equal(after["split_feature"], [feature for feature, _ in expected])
        np.testing.assert_array_equal(after["split_value"], [np.float32(value) for _, value in expected])
        below = []
        for node, (feature, value) in zip(nodes, expected, strict=True):
            if feature >= 0:
                goes_left = {user: users[user][0][mine, feature] <= value for user, mine in node.items()}
                below.append({user: mine[goes_left[user]] for user, mine in node.items()})
                below.append({user: mine[~goes_left[user]] for user, mine in node.items()})
                splits += 1
        nodes = below
    assert splits >= 8
