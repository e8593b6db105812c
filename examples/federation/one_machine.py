"""
A federation on one machine, from nothing
=========================================

Authority, keys, SuperLink, three nodes with made-up tables, three runs::

    python examples/federation/one_machine.py [FOLDER]

It trains one_shot forests, boosts under secure aggregation while one node is killed and comes back, trains FedAvg where
TensorFlow is installed, prints what each node has spent, and ends all that it started. All is on loopback. What it does
is what people do on many machines; only `ROOT` and the addresses are others there.
"""

from __future__ import annotations

import datetime
import importlib.util
import ipaddress
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

ROOT = Path(__file__).resolve().parents[2]
NODES = 3
SCHEMA = """\
target: state
classes: [ill, well]
rows: 2000
features:
  - {name: age, low: 0, high: 120}
  - {name: pressure, low: 50, high: 250}
  - {name: site, categories: [north, south]}
"""
NODE = """\
partition-id = {number}
data-path = "mine.csv"
state-folder = "state"
rows = 3000
max-epsilon = 2
lifetime-epsilon = 10
lifetime-delta = 1e-5
strategies = ["one_shot", "boost", "fedavg"]
root-certificates = "../ca.crt"
private-key = "node.key"
fellows = "../fellows.pub"

[schema]
target = "state"
classes = ["ill", "well"]
features = [
    {{ name = "age", low = 0, high = 120 }},
    {{ name = "pressure", low = 50, high = 250 }},
    {{ name = "site", categories = ["north", "south"] }},
    {{ name = "income", low = 0, high = 1000000, use = false }},
]
"""
_DPFOREST = [sys.executable, "-c", "import sys; from fl_app.commands.cli import main; sys.exit(main())"]


def make_authority(folder: Path, valid_days: int = 30, name: str = "server") -> None:
    """Write an authority's ``ca.crt``, and the key and certificate of a SuperLink on this machine."""
    authority, server = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    issuer = _name("an authority of your own")
    ca = (
        _certificate(issuer, issuer, authority, 30)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority.public_key()), critical=False)
        .add_extension(x509.KeyUsage(False, False, False, False, False, True, True, False, False), critical=True)
        .sign(authority, hashes.SHA256())
    )
    here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    own = (
        _certificate(_name("localhost"), issuer, server, valid_days)
        .add_extension(x509.SubjectAlternativeName(here), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        .sign(authority, hashes.SHA256())
    )
    _private(folder / f"{name}.key", server, serialization.PrivateFormat.PKCS8)
    (folder / f"{name}.crt").write_bytes(own.public_bytes(serialization.Encoding.PEM))
    (folder / "ca.crt").write_bytes(ca.public_bytes(serialization.Encoding.PEM))


def make_node(folder: Path, number: int) -> None:
    """What one owner has: a table, a key (as ``ssh-keygen -t ecdsa -b 384`` makes it), and ``node.toml``."""
    folder.mkdir(exist_ok=True)
    rng, rows = np.random.default_rng(number), 2000
    age, pressure = rng.uniform(18, 90, rows), rng.normal(125, 18, rows).clip(60, 240)
    risk = age / 90 + (pressure - 125) / 60 + rng.normal(0, 0.2, rows)
    site, state = np.array(["north", "south"])[rng.integers(2, size=rows)], np.where(risk > 0.6, "ill", "well")
    income = rng.integers(10**5, size=rows)
    cells = zip(age.round(), pressure.round(), site, income, state, strict=True)
    lines = [",".join(map(str, row)) for row in cells]
    (folder / "mine.csv").write_text("\n".join(["age,pressure,site,income,state", *lines, ""]))
    (folder / "node.toml").write_text(NODE.format(number=number))
    key = ec.generate_private_key(ec.SECP384R1())
    _private(folder / "node.key", key, serialization.PrivateFormat.OpenSSH)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    (folder / "node.key.pub").write_bytes(public)


class Federation:
    """A SuperLink and its nodes, as a context that ends all that it started.

    Parameters
    ----------
    folder : Path
        Where everything lies.
    nodes : int
    authenticated : bool
        Whether nodes are known by their keys; else whoever comes is a node.
    """

    def __init__(self, folder: Path, nodes: int = NODES, authenticated: bool = True) -> None:
        self.folder, self.nodes, self._authenticated = folder, nodes, authenticated
        self.port = _free_port()
        self.home = folder / "flower"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._said_before: dict[str, int] = {}  # bytes of logs that an earlier process of the name has written
        self.environment = os.environ | {
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        }

    def __enter__(self) -> Federation:
        self.home.mkdir(parents=True, exist_ok=True)
        if not (self.folder / "server.crt").exists():
            make_authority(self.folder)
        (self.folder / "schema.yaml").write_text(SCHEMA)
        for number in range(self.nodes):
            make_node(self.node_folder(number), number)
        keys = [(self.node_folder(number) / "node.key.pub").read_text() for number in range(self.nodes)]
        (self.folder / "fellows.pub").write_text("\n".join(keys))  # each owner has the others' by a way of their own
        connection = f'address = "127.0.0.1:{self.port}"\nroot-certificates = "{self.folder / "ca.crt"}"\n'
        (self.home / "config.toml").write_text(f'[superlink]\ndefault = "own"\n[superlink.own]\n{connection}')
        try:
            self._start_superlink()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in sorted(self._processes, reverse=True):  # nodes before the SuperLink
            self._end(name, signal.SIGTERM)

    def node_folder(self, number: int) -> Path:
        """What belongs to one owner."""
        return self.folder / f"node{number}"

    def log(self, name: str) -> str:
        """What ``superlink`` or ``node0`` has said since it was last started."""
        return (self.folder / f"{name}.log").read_bytes()[self._said_before[name] :].decode(errors="replace")

    def register(self, number: int) -> None:
        """Let the SuperLink know a node by its public key."""
        self.flower("supernode", "register", str(self.node_folder(number) / "node.key.pub"), "own")

    def start_node(self, number: int) -> None:
        """``dpforest node``, until it is killed or the federation ends."""
        self.start(f"node{number}", self.node_command(self.node_folder(number)))

    def node_command(self, folder: Path) -> list[str]:
        """What an owner types."""
        config = str(folder / "node.toml")
        return [*_DPFOREST, "node", "--superlink", f"127.0.0.1:{self.port}", "--config", config]

    def kill_node(self, number: int) -> None:
        """End a node without a chance to say so."""
        self._end(f"node{number}", signal.SIGKILL)

    def status(self, number: int) -> str:
        """``dpforest node status`` of a node."""
        command = [*_DPFOREST, "node", "status", "--config", str(self.node_folder(number) / "node.toml")]
        return subprocess.run(command, env=self.environment, check=True, capture_output=True, text=True).stdout

    def run_command(self, overrides: str, output: Path, app: Path = ROOT) -> list[str]:
        """``flwr run`` of an experiment on the nodes' own tables."""
        table = f"dataset=table dataset.schema={self.folder / 'schema.yaml'}"
        config = f"overrides='{table} {overrides}' output='{output}'"
        return ["flwr", "run", str(app), "own", "--stream", "--run-config", config]

    def run(self, overrides: str, output: Path) -> str:
        """Run an experiment and return what was said."""
        return self._said(self.run_command(overrides, output))

    def flower(self, *arguments: str) -> str:
        """Any command of ``flwr``."""
        return self._said(["flwr", *arguments])

    def start(self, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """A process that ends with the federation, in a session of its own."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self._said_before[name] = log.tell()
            self._processes[name] = subprocess.Popen(
                command, cwd=self.folder, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        return self._processes[name]

    def wait_for(self, name: str, words: str, seconds: float = 240) -> None:
        """Wait until a process has said something.

        Raises
        ------
        RuntimeError
            It ended before, or the time is up.
        """
        end = time.monotonic() + seconds
        while words not in self.log(name):
            if time.monotonic() > end or self._processes[name].poll() is not None:
                raise RuntimeError(f"{name} never said {words!r}:\n{self.log(name)[-2000:]}")
            time.sleep(0.1)

    def _start_superlink(self) -> None:
        certificates = [f"--ssl-{kind}file={self.folder / file}" for kind, file in _FILES.items()]
        self.start(
            "superlink",
            ["flower-superlink", *certificates, "--host", "127.0.0.1", "--port", str(self.port),
             *["--enable-supernode-auth"] * self._authenticated],
        )  # fmt: skip
        self.wait_for("superlink", "Uvicorn running on")

    def _said(self, command: Sequence[str]) -> str:
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed: {done.stdout}{done.stderr}")
        return done.stdout

    def _end(self, name: str, how: signal.Signals) -> None:
        process = self._processes.pop(name)
        try:
            os.killpg(process.pid, how)  # its session holds what it started, and nothing else
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        except ProcessLookupError:
            process.wait()


_FILES = {"cert": "server.crt", "key": "server.key", "ca-cert": "ca.crt"}


def main() -> None:
    """The whole story."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="federation-")).absolute()
    with Federation(folder) as federation:
        for number in range(NODES):
            federation.register(number)
            federation.start_node(number)
        for number in range(NODES):
            federation.wait_for(f"node{number}", "answers")
        print(federation.run("strategy=one_shot privacy.epsilon=1 timeout=120", folder / "runs"))
        boost_while_a_node_is_away(federation)
        if importlib.util.find_spec("tensorflow"):
            print(federation.run("strategy=fedavg rounds=2 timeout=300", folder / "runs"))
        for number in range(NODES):
            print(f"node {number}\n{federation.status(number)}")
    print(f"ended; all files are in {folder}")


def boost_while_a_node_is_away(federation: Federation) -> None:
    """Boost with secure sums; one node is killed in the middle, is missed, and takes part again when it is back."""
    overrides = "strategy=boost privacy.trust=shared rounds=8 privacy.epsilon=1 privacy.delta=1e-6 timeout=60"
    run = federation.start("run", federation.run_command(overrides, federation.folder / "runs"))
    federation.wait_for("run", "round 5/")
    federation.kill_node(1)
    # A node that is back before it is missed answers what has waited for it.
    federation.wait_for("run", "is left out: no answer in time")
    federation.start_node(1)
    run.wait()
    print(federation.log("run"))


def _name(words: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, words)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=2))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _private(path: Path, key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> None:
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


if __name__ == "__main__":
    main()
