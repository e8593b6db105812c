"""Methods can be distinguished in every figure, also by readers who do not see all colours."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from fl_app.config.compose import compose_config, conf_folder, to_experiment
from strategies.registry import style_of
from strategies.style import Style, palette_style

# Machado, Oliveira, Fernandes 2009, table 1, severity 1.0, for linear RGB.
VISION = {
    "all cones": np.eye(3),
    "protanopia": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
    "deuteranopia": np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
}


def linear(colour: str) -> np.ndarray:
    srgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE 1976 L*a*b*, D65."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(np.maximum(to_xyz @ np.clip(rgb, 0, 1), 0) / np.array([0.9505, 1.0, 1.089]))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.fixture(scope="module")
def styles() -> dict[str, Style]:
    """The style of every strategy file."""
    found = {}
    for name in sorted(path.stem for path in (conf_folder() / "strategy").glob("*.yaml")):
        experiment = to_experiment(compose_config([f"strategy={name}"]))
        settings = {**experiment.strategy, "trust": experiment.protection.trust.kind}
        found[name] = style_of(str(settings["name"]), settings)
    return found


@pytest.mark.parametrize("vision", VISION)
def test_two_methods_differ_in_their_mark_or_clearly_in_their_colour(vision: str, styles: dict[str, Style]) -> None:
    for (one, a), (other, b) in combinations(styles.items(), 2):
        if a.marker == b.marker and a != b:
            apart = np.linalg.norm(lab(VISION[vision] @ linear(a.colour)) - lab(VISION[vision] @ linear(b.colour)))
            assert apart > 11, f"{one} and {other}"


def test_no_colour_vanishes_on_white_paper(styles: dict[str, Style]) -> None:
    for style in [*styles.values(), *(palette_style(str(n)) for n in range(99))]:
        luminance = linear(style.colour) @ [0.2126, 0.7152, 0.0722]
        assert 1.05 / (luminance + 0.05) > 2


def test_every_method_of_the_project_has_a_style_of_its_own(styles: dict[str, Style]) -> None:
    # The chapter's FedAvg is the same method with other settings, which figures tell apart by shades.
    del styles["fedavg_published"]
    assert len(set(styles.values())) == len(styles)


def test_secure_aggregation_and_published_settings_are_distinguished(styles: dict[str, Style]) -> None:
    assert style_of("boost", {"trust": "shared"}) != style_of("boost", {"trust": "local"})
    published, tight = styles["one_shot_published"], styles["one_shot"]
    assert published.colour == tight.colour
    assert (published.marker, published.line) != (tight.marker, tight.line)


def test_a_method_that_brings_no_look_always_has_the_same() -> None:
    assert style_of("my_own", {}) == style_of("my_own", {"noise": "none"}) == palette_style("my_own")
    assert len({palette_style(str(n)) for n in range(99)}) > 30


def test_settings_of_one_method_have_shades_of_its_colour() -> None:
    style = Style("#0072B2")
    variants = [style.variant(n) for n in range(4)]
    assert variants[0] == style
    for variant in variants[1:]:
        red, green, blue = (int(variant.colour[i : i + 2], 16) for i in (1, 3, 5))
        assert red <= green < blue
    assert len({(variant.marker, variant.line, variant.colour) for variant in variants}) == 4


def test_no_variant_takes_the_marks_of_the_other_kind(styles: dict[str, Style]) -> None:
    """Two depths of a published setting and of the one with a guarantee: four settings in one figure."""
    for name in ("one_shot", "fext", "ldp_bagging", "pp_fprf", "pp_fgrf"):
        tight, published = ([styles[each].variant(n) for n in range(4)] for each in (name, f"{name}_published"))
        assert {style.line for style in published} == {"--"}
        assert "--" not in {style.line for style in tight}
        assert not {style.marker for style in tight} & {"s", "P", "X"}, "which are of published settings"
        assert len(set(tight + published)) == 8


def test_epsilons_of_one_method_differ_also_in_grey() -> None:
    style = Style("#0072B2")
    levels = [style.at_level(n, 6) for n in range(6)]
    assert len({level.marker for level in [style, *levels]}) == 7
    brightness = [sum(int(level.colour[i : i + 2], 16) for i in (1, 3, 5)) for level in levels]
    assert brightness == sorted(brightness, reverse=True)
    assert style.at_level(0, 1) == style
