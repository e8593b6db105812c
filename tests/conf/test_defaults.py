"""Every default stands in its dataclass, and the files of ``conf/`` say the same."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from dpforest.settings import describe
from fl_app.config.compose import compose_config, conf_folder
from fl_app.data.registry import SOURCES
from strategies.registry import get_method


def names(group: str) -> list[str]:
    return sorted(path.stem for path in (conf_folder() / group).glob("*.yaml"))


def settings_of(group: str, name: str) -> dict[str, Any]:
    """The values that a file comes to, as a run of nodes would have them."""
    config = OmegaConf.to_container(compose_config([f"{group}={name}", "privacy.noise=secure"])[group], resolve=True)
    assert isinstance(config, dict)
    return {str(key): plain(value) for key, value in config.items()}


def plain(value: Any) -> Any:
    """Lists and tuples, and whole and other numbers, are one."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return tuple(map(plain, value)) if isinstance(value, list | tuple) else value


def defaults_of(kind: Any) -> dict[str, Any]:
    return {option.name: plain(option.default) for option in describe(kind)}


@pytest.mark.parametrize("name", names("strategy"))
def test_a_strategy_names_each_setting_of_its_method_with_its_default(name: str) -> None:
    values = settings_of("strategy", name)
    method = get_method(values.pop("name"))
    defaults = defaults_of(method.settings)
    assert sorted(values) == sorted(defaults)
    method.settings.from_mapping(values, name)
    differs = {key for key in values if values[key] != defaults[key]}
    if name == method.name:
        assert not differs
        return
    # A variant of a method says where it differs, and nothing that it takes over.
    own = yaml.safe_load((conf_folder() / "strategy" / f"{name}.yaml").read_text())
    assert differs == set(own.get("strategy", own)) - {"name", "defaults", "privacy"}


@pytest.mark.parametrize("name", names("dataset"))
def test_a_data_set_names_each_of_its_settings_with_its_default(name: str) -> None:
    values = settings_of("dataset", name)
    assert values.pop("name") == name
    assert values == defaults_of(SOURCES[name].Settings)


def test_every_data_set_and_method_has_its_file() -> None:
    assert names("dataset") == sorted(SOURCES)
    assert all(get_method(settings_of("strategy", name)["name"]) for name in names("strategy"))
