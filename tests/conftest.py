from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
# The same examples every time. How long they take depends on the machine, and kernels compile at their first call.
settings.register_profile("dpforest", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dpforest")


@pytest.fixture(scope="session", autouse=True)
def interrupts() -> None:
    """Interrupts arrive, also where the tests run in the background of a shell that ignores them for its jobs."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Parsed rows are kept for this test session only, unless a folder is given."""
    if "DPFOREST_CACHE" in os.environ:
        yield
        return
    os.environ["DPFOREST_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    del os.environ["DPFOREST_CACHE"]


@pytest.fixture(scope="session", autouse=True)
def session_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nodes of tests keep their state away from the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield
