"""The library stands alone."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import dpforest

EVERYTHING = """
import importlib, pkgutil, sys
import dpforest
for module in pkgutil.walk_packages(dpforest.__path__, "dpforest."):
    importlib.import_module(module.name)
dpforest.PrivateForestClassifier
found = {name.partition(".")[0] for name in sys.modules}
print(sorted(found & {"flwr", "ray", "hydra", "omegaconf", "tensorflow", "keras", "opendp", "dp_accounting"}))
"""


def test_importing_all_of_it_takes_no_federation_and_no_heavy_package():
    out = subprocess.run([sys.executable, "-c", EVERYTHING], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_importing_the_package_loads_no_estimator():
    code = "import dpforest, sys; print('sklearn' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "False"


def test_version_is_that_of_the_project():
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert dpforest.__version__ == project["version"]
    assert yaml.safe_load((root / "CITATION.cff").read_text())["version"] == project["version"]
    assert f"## [{project['version']}]" in (root / "CHANGELOG.md").read_text()


def test_a_name_that_does_not_exist():
    with pytest.raises(AttributeError, match="no attribute 'PrivateNothing'"):
        _ = dpforest.PrivateNothing
