"""``python -m tests.benchmarks.nodes [ROUNDS]``: an exchange of boost over three nodes on loopback, TLS on.

Next to it stands Flower's own floor: exchanges of messages of the same size over a SuperLink, with three warm nodes
that do nothing, through Flower's client. Two floors are printed: with pauses as short as ours, and as Flower waits by
itself (3 s at a time on the server). What the method computes is measured in this process, with the same rows.
"""

from __future__ import annotations

import csv
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid, ServerApp

import dpforest
from fl_app.client_app import app as client_app
from fl_app.config.compose import compose_config, to_experiment
from fl_app.engine.in_process import InProcessGrid
from fl_app.engine.run import run_experiment
from fl_app.terminal.quiet import quiet_frameworks
from strategies.federation.roster import wait_for_nodes
from strategies.federation.traffic import send_and_receive
from strategies.messages import ARRAYS, CONFIG, METRICS, to_arrays_record

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples" / "federation"))

NODES, FLOOR_EXCHANGES, FLOWERS_EXCHANGES = 3, 20, 3
# What boost sends down and up in an exchange of the example's table: as many arrays, as many bytes.
_DOWN = {f"down {i}": 400 for i in range(8)}
_UP = {"sums": 2000, "sigma": 1}
_BUNDLE = """\
[project]
name = "dpforest"
version = "{version}"
[tool.flwr.app]
publisher = "dpforest"
[tool.flwr.app.components]
serverapp = "floor.server:app"
clientapp = "floor.server:app"
[tool.flwr.app.config]
output = ""
"""

app = ServerApp()


@app.main()
def measure_floor(grid: Grid, context: Context) -> None:
    """The server's part of the floor."""
    nodes = wait_for_nodes(grid, NODES, 120)

    def messages() -> list[Message]:
        rng = np.random.default_rng()  # new bytes each time: the SuperLink sends what it knows only once
        content = [(node, _content(_DOWN, rng)) for node in nodes]
        return [Message(record, node, MessageType.TRAIN) for node, record in content]

    def seconds(exchange: object, times: int) -> list[float]:
        measured = []
        for _ in range(times):
            start = time.perf_counter()
            assert len(list(exchange(messages()))) == NODES  # type: ignore[operator]
            measured.append(time.perf_counter() - start)
        return measured

    floor = seconds(lambda sent: send_and_receive(grid, sent, 120), FLOOR_EXCHANGES)
    flowers = seconds(lambda sent: grid.send_and_receive(sent, timeout=120), FLOWERS_EXCHANGES)
    Path(str(context.run_config["output"])).write_text(json.dumps({"floor": floor, "flowers": flowers}))


def _content(arrays: dict[str, int], rng: np.random.Generator) -> RecordDict:
    packed = {name: rng.integers(0, 9, size).astype(np.int16) for name, size in arrays.items()}
    words = {"experiment": "x" * 2000, "run": "x" * 32, "round": 1, "clients": NODES}
    return RecordDict({ARRAYS: to_arrays_record(packed), CONFIG: ConfigRecord(words), METRICS: MetricRecord()})


def do_nothing(address: str, certificates: str) -> None:
    """A node that answers at once, whatever it is sent."""
    from strategies.flower_compat import identify_run
    from strategies.flower_compat.connection import Connection

    rng = np.random.default_rng()
    connection = Connection(address, certificates)
    node = connection.open()
    while True:
        if (incoming := connection.receive()) is not None:
            identify_run(incoming.run, node)
            connection.reply(Message(_content(_UP, rng), reply_to=incoming.message))
        else:
            time.sleep(0.05)


def main() -> None:
    """Print seconds of an exchange of all, and the ratio."""
    from one_machine import Federation

    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    quiet_frameworks()
    folder = Path(tempfile.mkdtemp(prefix="nodes-"))
    overrides = f"strategy=boost rounds={rounds} privacy.epsilon=1 privacy.delta=1e-6 timeout=600"
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with Federation(folder, NODES, authenticated=False) as federation:
        floor = _floor(federation, folder)
    print({name: round(statistics.median(seconds), 3) for name, seconds in floor.items()}, flush=True)
    with Federation(folder, NODES) as federation:
        for number in range(NODES):
            federation.register(number)
            federation.start_node(number)
        for number in range(NODES):
            federation.wait_for(f"node{number}", "answers")
        start = time.perf_counter()
        federation.run(overrides, folder / "runs")
        whole = time.perf_counter() - start
    (rows,) = (folder / "runs").glob("*/rounds.csv")
    with rows.open() as file:
        exchanges = [float(row["train_seconds"]) for row in csv.DictReader(file)]
    compute = _computing(folder, overrides)
    lines = {
        "Flower, as it waits by itself": floor["flowers"],
        "Flower's floor": floor["floor"],
        "boost": exchanges,
        "boost, computing only (three clients in turn)": compute,
    }
    for name, seconds in lines.items():
        print(f"{name:<48} median {statistics.median(seconds):6.3f} s, mean {statistics.mean(seconds):6.3f} s")
    own = statistics.median(exchanges) - statistics.median(compute)
    print(f"boost without its computing, over the floor: {own / statistics.median(floor['floor']):.2f}")
    print(f"{rounds} rounds of boost from `flwr run` to its end: {whole:.0f} s; exchanges alone {sum(exchanges):.0f} s")
    print(f"load after: {os.getloadavg()[0]:.1f}")


def _floor(federation: object, folder: Path) -> dict[str, list[float]]:
    bundle, output = folder / "bundle", folder / "floor.json"
    (bundle / "floor").mkdir(parents=True)
    (bundle / "pyproject.toml").write_text(_BUNDLE.format(version=dpforest.__version__))
    (bundle / "floor" / "__init__.py").touch()
    (bundle / "floor" / "server.py").write_text("from tests.benchmarks import nodes\napp = nodes.app\n")
    address = f"127.0.0.1:{federation.port}"  # type: ignore[attr-defined]
    for number in range(NODES):
        command = f"from tests.benchmarks.nodes import do_nothing; do_nothing({address!r}, {str(folder / 'ca.crt')!r})"
        federation.start(f"idle{number}", [sys.executable, "-c", command])  # type: ignore[attr-defined]
    federation.flower("run", str(bundle), "own", "--stream", "--run-config", f"output='{output}'")  # type: ignore[attr-defined]
    return dict(json.loads(output.read_text()))


def _computing(folder: Path, overrides: str) -> list[float]:
    """Seconds of each exchange where nothing travels."""
    table = folder / "all"
    table.mkdir()
    for number in range(NODES):
        (table / f"{number}.csv").write_bytes((folder / f"node{number}" / "mine.csv").read_bytes())
    source = ["dataset=table", f"dataset.schema={folder / 'schema.yaml'}", f"dataset.path={table}"]
    experiment = to_experiment(compose_config([*source, *overrides.split(), "evaluation=time"]))
    run_experiment(experiment, InProcessGrid(client_app, NODES))  # compiles
    done = run_experiment(experiment, InProcessGrid(client_app, NODES))
    return [float(row["train_seconds"]) for row in done.rounds]


if __name__ == "__main__":
    main()
