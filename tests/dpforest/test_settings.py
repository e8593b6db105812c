"""Settings of every kind: what their annotations allow, how they refuse, and what they say about themselves."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass
from typing import Annotated, Any, ClassVar, Literal

import pytest

from baselines.forests import METHODS as FORESTS
from dpforest.boosting import BoostSettings
from dpforest.errors import DPForestError
from dpforest.growers import GrowerSettings
from dpforest.growers.regression import RegressionSettings
from dpforest.settings import Auto, OneOf, Option, Range, Says, Settings, check_setting, describe
from fl_app.data import Evaluation, Partition
from fl_app.data.registry import SOURCES
from fl_app.engine.experiment import Experiment, Privacy
from strategies.registry import get_method

METHODS = ["one_shot", "boost", "fext", "ldp_bagging", "lrf", "pp_fgrf", "pp_fprf", "fedavg", "dp_fedavg",
           "dp_fedavg_published", "dp_sgd", "centralized_mlp"]  # fmt: skip
KINDS: list[type[Settings]] = [
    BoostSettings, GrowerSettings, RegressionSettings, Partition, Evaluation, Privacy, Experiment,
    *(method.settings for method in FORESTS),
    *(get_method(name).settings for name in METHODS),
    *(source.Settings for source in SOURCES.values()),
]  # fmt: skip
NEEDED: dict[str, Any] = {"schema": {"features": []}, "strategy": {"name": "one_shot"}, "dataset": {"name": "watch"}}


WRONG = [math.nan, {"un": "known"}, "quite\nelse", -7.5, [["x"]], 10**400, "x" * 10**6]
# Texts and mappings that others look into.
FREE = {"schema", "strategy", "dataset", "path", "client_column", "recording_column", "subjects"}

every_kind = pytest.mark.parametrize("kind", dict.fromkeys(KINDS), ids=lambda kind: kind.__name__)


def make(settings: type[Settings], **values: Any) -> Settings:
    needed = {option.name: NEEDED[option.name] for option in describe(settings) if option.name in NEEDED}
    return settings.from_mapping({**needed, **values}, "here")


@every_kind
def test_every_setting_says_what_it_means_and_what_is_allowed(kind: type[Settings]) -> None:
    for option in describe(kind):
        assert len(option.meaning) > 8, f"{option.name} has no meaning in its docstring"
        assert not option.meaning.startswith("See ")
        assert option.allowed
        assert option.allowed != "anything"
        assert option.type


@every_kind
def test_every_setting_refuses_in_one_line_that_names_it(kind: type[Settings]) -> None:
    for option in describe(kind):
        for wrong in WRONG if option.name not in FREE else ():
            if (option.name, wrong) == ("k", -7.5):  # a threshold that some scores reach
                continue
            with pytest.raises(DPForestError) as caught:
                make(kind, **{option.name: wrong})
            assert option.name in str(caught.value)
            assert "\n" not in str(caught.value)
            assert len(str(caught.value)) < 1500 or option.name in ("epsilon", "delta")  # those of a Budget


@every_kind
def test_the_docstring_names_no_setting_that_there_is_not(kind: type[Settings]) -> None:
    section = inspect.cleandoc(kind.__doc__ or "").partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    documented = {name.strip() for line in section.splitlines() if line[:1].strip() for name in line.split(",")}
    assert documented <= {option.name for option in describe(kind)}


@every_kind
def test_an_unknown_setting_gets_the_nearest(kind: type[Settings]) -> None:
    for option in describe(kind):
        with pytest.raises(DPForestError, match="did you mean"):
            make(kind, **{f"{option.name}_": 1})


@dataclass(frozen=True)
class Some(Settings):
    """Made up.

    Parameters
    ----------
    word, other
        One of two.
    number
        A share
        of something.

    Notes
    -----
    none
        Of this.
    """

    group: ClassVar[str] = "some."

    number: Annotated[float, Range(0, 1, below=True)]
    word: Literal["left", "right"] = "left"
    other: Annotated[str, OneOf({"up": 1, "down": 2})] | None = None
    depth: Annotated[int, Range(1, 9)] | Auto | None = "auto"
    sizes: Sequence[Annotated[int, Range(1)]] = ()
    pair: tuple[float, float] = (0.0, 1.0)
    by_name: Mapping[Literal["a", "b"], Annotated[tuple[float, float], Says("be two ends")]] | None = None
    flag: bool = False
    unit: Annotated[float, Range(0, above=True, infinite=True)] = math.inf


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"number": 1}, "some.number 1 must be a number from 0 to below 1"),
        ({"number": math.nan}, "some.number nan must be"),
        ({"number": True}, "some.number True must be"),
        ({"word": "lefd"}, "some.word 'lefd' must be one of left, right; did you mean 'left'?"),
        ({"word": ["left"]}, r"some.word \['left'\] must be one of left, right"),
        ({"other": "sideways"}, "some.other 'sideways' must be one of up, down"),
        ({"depth": 10}, "some.depth 10 must be a whole number from 1 to 9, auto, or null"),
        ({"depth": 2.0}, "some.depth 2.0 must be"),
        ({"sizes": [1, 0]}, "some.sizes 0 must be a whole number from 1"),
        ({"sizes": 5}, "some.sizes 5 must be a list of whole numbers from 1"),
        ({"sizes": "55"}, "some.sizes '55' must be a list"),
        ({"pair": [1]}, r"some.pair \[1\] must be a list of 2: a number, a number"),
        ({"pair": [1, math.inf]}, "some.pair inf must be a number"),
        ({"by_name": {"c": [0, 1]}}, "some.by_name 'c' must be one of a, b"),
        ({"by_name": {"a": [0]}}, r"some.by_name.a \[0\] must be two ends"),
        ({"flag": 1}, "some.flag 1 must be true or false"),
        ({"unit": -math.inf}, "some.unit -inf must be a positive number above 0, or inf"),
    ],
)
def test_what_is_not_allowed_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(DPForestError, match=message):
        Some(**{"number": 0, **values})


def test_what_is_allowed_is_kept_and_lists_become_tuples() -> None:
    some = Some(0, "right", "up", None, [1, 2], [0, 1], {"b": [1, 2]}, True)  # type: ignore[arg-type]
    assert (some.sizes, some.pair, some.depth, some.unit) == ((1, 2), (0, 1), None, math.inf)
    assert Some.from_mapping({"number": 0.5}, "here") == Some(0.5)


def test_a_setting_without_a_default_must_be_given() -> None:
    with pytest.raises(DPForestError, match="here: missing option 'number'"):
        Some.from_mapping({"word": "left"}, "here")


def test_options_are_described() -> None:
    described = {option.name: option for option in describe(Some)}
    assert described["number"] == Option(
        "number", "float", MISSING, "a number from 0 to below 1", "A share of something."
    )
    assert described["depth"] == Option(
        "depth", "int | str | null", "auto", "a whole number from 1 to 9, auto, or null", ""
    )
    assert described["word"].meaning == described["other"].meaning == "One of two."
    assert described["sizes"].type == "list"
    assert described["flag"].allowed == "true or false"


def test_one_value_can_be_checked_alone() -> None:
    check_setting("rounds", 3, Annotated[int, Range(1, 5)])
    with pytest.raises(DPForestError, match="rounds 0 must be a whole number from 1 to 5"):
        check_setting("rounds", 0, Annotated[int, Range(1, 5)])
