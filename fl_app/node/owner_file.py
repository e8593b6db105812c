"""``node.toml``: all that the owner of a node says, in one file.

Its keys are those of a node configuration (`strategies.node.keys.KEYS`), with lists where several words are meant, a
``[schema]`` of the table, and how to reach the SuperLink. Relative paths start at the file's folder.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Context, RecordDict

from dpforest.errors import DPForestError, did_you_mean
from fl_app.engine.node_state import state_folder
from fl_app.engine.owner_schema import SCHEMA, OwnerSchema
from strategies.node.keys import KEYS
from strategies.secure_aggregation.fellows import read_signing_key

BUDGET = "budget.db"
_ROOT, _KEY = "root-certificates", "private-key"
_SIGNING = "signing-key"
_PATHS = ("data-path", SCHEMA, "budget-file", "state-folder", _SIGNING, "fellows", _ROOT, _KEY)
_LISTS = ("strategies", "trust", "units")
_NUMBER = "partition-id"


class OwnerFileError(DPForestError):
    """``node.toml`` is missing, misspelt or says what cannot be; names the key and what to do."""


@dataclass(frozen=True)
class OwnerFile:
    """What a ``node.toml`` says.

    Parameters
    ----------
    path : Path
    node_config : mapping of str to str, int, float or bool
        As a node's configuration, with the defaults of paths filled in.
    root_certificates : str, optional
        File of the authority that the SuperLink's certificate is from.
    private_key : str, optional
        File of the key that the SuperLink knows the node by.
    """

    path: Path
    node_config: Mapping[str, Any]
    root_certificates: str | None = None
    private_key: str | None = field(default=None, repr=False)

    @classmethod
    def read(cls, path: Path) -> OwnerFile:
        """Read the file; the state folder is made where there is none.

        Raises
        ------
        OwnerFileError
        StateError
            The state folder cannot be made.
        """
        plain = _read(path)
        for key in plain.keys() - {*KEYS, _ROOT, _KEY}:
            raise OwnerFileError(f"{path} says {key!r}, which is no setting{did_you_mean(key, [*KEYS, _ROOT, _KEY])}")
        number = plain.get(_NUMBER)
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise OwnerFileError(
                f"{path} says {_NUMBER} = {number!r}: every node of a federation has a whole number of its own, from 0"
            )
        given = {key: _value(path, key, value) for key, value in plain.items()}
        connection = {key: given.pop(key, None) for key in (_ROOT, _KEY)}
        if connection[_KEY] is not None:
            given.setdefault(_SIGNING, connection[_KEY])
        given["state-folder"] = str(state_folder(given))
        given.setdefault("budget-file", str(Path(given["state-folder"]) / BUDGET))
        return cls(path, given, connection[_ROOT], connection[_KEY])

    @property
    def context(self) -> Context:
        """The node's configuration as its apps see it."""
        return Context(run_id=0, node_id=0, node_config=dict(self.node_config), state=RecordDict(), run_config={})

    def key(self) -> ec.EllipticCurvePrivateKey | None:
        """The node's private key, if it has one.

        Raises
        ------
        OwnerFileError
            It cannot be read.
        """
        if self.private_key is None:
            return None
        try:
            key = read_signing_key(Path(self.private_key).read_bytes())
        except OSError as error:
            raise OwnerFileError(f"{_KEY} {self.private_key} cannot be read ({error.strerror}): {_MAKE_KEY}") from error
        except DPForestError as error:
            raise OwnerFileError(f"{_KEY} {self.private_key} {error}: {_MAKE_KEY}") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise OwnerFileError(f"{_KEY} {self.private_key} is no elliptic curve key: {_MAKE_KEY}")
        return key

    def schema(self) -> OwnerSchema | None:
        """The owner's schema, if there is one; raises `SchemaError`."""
        path = self.node_config.get(SCHEMA)
        return None if path is None else OwnerSchema.read(Path(path))


_MAKE_KEY = "ssh-keygen -t ecdsa -b 384 -N '' -f node.key makes one without a passphrase"


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OwnerFileError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:  # text that is no UTF-8, or no TOML
        raise OwnerFileError(f"{path} is no TOML: {error}") from error


def _value(file: Path, key: str, value: Any) -> Any:
    if key == SCHEMA and isinstance(value, dict):
        return str(file.absolute())  # whoever needs it reads it there
    if key in _LISTS and isinstance(value, list) and all(isinstance(word, str) for word in value):
        return ", ".join(value)
    if isinstance(value, list | dict) or not isinstance(value, str | int | float | bool):
        raise OwnerFileError(f"{file} says {key} = {value!r}: expected one value")
    if key in _PATHS and isinstance(value, str) and value:
        return str(file.absolute().parent / Path(value).expanduser())
    return value
