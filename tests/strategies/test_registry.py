"""Methods by name, and settings with the nearest option."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from dpforest.errors import DPForestError
from dpforest.guarantee import NO_SERVER, RECORD_UNIT, TrustModel
from dpforest.settings import Settings
from strategies import registry
from strategies.method import Method, Protection

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Options(Settings):
    depth: int
    leaf_share: float = 0.3


def test_installed_methods_are_found_by_name() -> None:
    for name in ("one_shot", "standalone", "centralized"):
        assert registry.get_method(name).name == name


@pytest.mark.parametrize("name", ["os", "strategies.one_shot", "../one_shot", "one_shot.client", "mlp", "", "None"])
def test_a_name_is_never_an_import_path(name: str) -> None:
    with pytest.raises(DPForestError, match="no strategy"):
        registry.get_method(name)


def test_an_unknown_name_gets_the_nearest_and_all() -> None:
    with pytest.raises(
        DPForestError, match=r"no strategy 'oneshot'; did you mean 'one_shot'\? \(there are .*standalone"
    ):
        registry.get_method("oneshot")


def test_looking_for_one_method_imports_no_neural_network() -> None:
    code = "import sys; from strategies.registry import get_method; get_method('one_shot'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"tensorflow", "keras"} & set(done.stdout.split())


def test_a_registered_method_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "registered", {})
    own = Method("mine", Options, None, None, (Protection(RECORD_UNIT, NO_SERVER),))  # type: ignore[arg-type]
    registry.register(own)
    assert registry.get_method("mine") is own
    assert not own.protection(Options(3)).by_client_alone


def test_a_combination_without_a_proof_names_the_nearest_that_has_one() -> None:
    boost = registry.get_method("boost")
    settings = boost.settings()
    assert boost.protection(settings).trust.kind == TrustModel.LOCAL
    assert boost.protection(settings, trust="shared").unit is RECORD_UNIT
    dp_sgd = registry.get_method("dp_sgd")
    with pytest.raises(
        DPForestError,
        match=r"dp_sgd has no proof for privacy\.trust=central; the nearest that it has one for is "
        r"privacy\.unit=record privacy\.trust=local$",
    ):
        dp_sgd.protection(dp_sgd.settings(), trust="central")
    dp_fedavg = registry.get_method("dp_fedavg")
    with pytest.raises(DPForestError, match=r"is privacy\.unit=client privacy\.trust=local"):
        dp_fedavg.protection(dp_fedavg.settings(), unit="record", trust="local")
    # It guarantees nothing under any of them, and is a line in comparisons of all.
    assert registry.get_method("fedavg").protection(None, unit="client", trust="shared").unit is RECORD_UNIT


def test_settings_name_what_is_wrong() -> None:
    assert Options.from_mapping({"depth": 3}, "here") == Options(3)
    with pytest.raises(DPForestError, match=r"here: unknown option 'leafshare'; did you mean 'leaf_share'\?"):
        Options.from_mapping({"depth": 3, "leafshare": 1}, "here")
    with pytest.raises(DPForestError, match=r"here: .*missing.*'depth'"):
        Options.from_mapping({}, "here")
